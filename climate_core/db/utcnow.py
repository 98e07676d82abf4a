# SPDX-License-Identifier: Apache-2.0
"""Read the clock of the database, or compare with it in SQL.

Several managers on several hosts agree on what is due because they all ask this one clock.
"""

import datetime
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.db.sql_functions import utcnow

T = TypeVar('T')

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


def statement(session: orm.Session, make: Callable[..., T], *args: Any) -> T:
    """Return a statement that has the time in it; by the clock of the database it is made once.

    :param make: a function of a module, which makes it by a clock, see :func:`expression`
    :param args: what else it is given, few different ones
    """
    clock = session.info.get(CLOCK)
    return _made_once(make, *args) if clock is None else make(clock, *args)


@functools.lru_cache(maxsize=256)
def _made_once(make: Callable[..., Any], *args: Any) -> Any:
    return make(None, *args)


def read(session: orm.Session) -> datetime.datetime:
    """Ask for the time now."""
    clock = session.info.get(CLOCK)
    time = clock() if clock else session.scalar(sa.select(utcnow()))
    assert time is not None  # nosec B101 # for mypy: it holds already
    return time
