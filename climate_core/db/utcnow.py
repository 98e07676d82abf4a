# SPDX-License-Identifier: Apache-2.0
"""Read the clock of the database, or compare with it in SQL.

Several managers on several hosts agree on what is due because they all ask this one clock.
"""

import datetime
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.db.sql_functions import utcnow

#: Key of ``Session.info`` under which tests put a clock: a function that returns the time.
CLOCK = 'clock'
#: Such a function.
TestClock = Callable[[], datetime.datetime]


def now(session: orm.Session, offset: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """Return the time ``offset`` seconds from now as an expression to compare with and store."""
    return expression(session.info.get(CLOCK), offset)


def expression(
    clock: TestClock | None, offset: float = 0.0
) -> sa.ColumnElement[datetime.datetime]:
    """Return the same by the clock of a test, or by that of the database."""
    if clock is None:
        return utcnow(offset)
    return sa.literal(clock() + datetime.timedelta(seconds=offset), tables.Time())


def read(session: orm.Session) -> datetime.datetime:
    """Ask for the time now."""
    clock = session.info.get(CLOCK)
    time = clock() if clock else session.scalar(sa.select(utcnow()))
    assert time is not None
    return time
