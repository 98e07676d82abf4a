# SPDX-License-Identifier: Apache-2.0
"""The clock of the database, as an SQL expression.

Several managers on several hosts agree on what is due because they all ask this one clock.
"""

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from climate_core.db import tables

#: Key of ``Session.info`` under which tests put a clock: a function that returns the time.
CLOCK = 'clock'


class utcnow(expression.FunctionElement[datetime.datetime]):
    """Render the database's time in UTC plus an offset in seconds."""

    type = tables.Time()
    name = 'utcnow'
    inherit_cache = True

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__(sa.bindparam('offset', float(offset), sa.Float, unique=True))


@compiler.compiles(utcnow, 'sqlite')
def _sqlite(element: utcnow, compiler: Any, **kw: Any) -> str:
    offset = compiler.process(element.clauses, **kw)
    # %f has milliseconds; the zeros make the text sort like the stored times.
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {offset} || ' seconds') || '000')"


@compiler.compiles(utcnow, 'mysql')
@compiler.compiles(utcnow, 'mariadb')
def _mysql(element: utcnow, compiler: Any, **kw: Any) -> str:
    offset = compiler.process(element.clauses, **kw)
    return f'(UTC_TIMESTAMP(6) + INTERVAL {offset} * 1000000 MICROSECOND)'


@compiler.compiles(utcnow, 'postgresql')
def _postgresql(element: utcnow, compiler: Any, **kw: Any) -> str:
    # statement_timestamp is stable, so that an index can be searched with it.
    offset = compiler.process(element.clauses, **kw)
    return f"(statement_timestamp() AT TIME ZONE 'UTC' + make_interval(secs => {offset}))"


def now(session: orm.Session, offset: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """Return the time ``offset`` seconds from now as an expression to compare with and store."""
    clock = session.info.get(CLOCK)
    if clock is None:
        return utcnow(offset)
    return sa.literal(clock() + datetime.timedelta(seconds=offset), tables.Time())


def read(session: orm.Session) -> datetime.datetime:
    """Ask for the time now."""
    clock = session.info.get(CLOCK)
    time = clock() if clock else session.scalar(sa.select(utcnow()))
    assert time is not None
    return time
