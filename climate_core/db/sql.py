# SPDX-License-Identifier: Apache-2.0
"""SQL that differs between databases and drivers: functions, the clock, and the reading of times.

Several managers on several hosts agree on what is due because they all use the clock of the
database.
"""

import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from climate_core.db import tables


class utcnow(expression.FunctionElement[datetime.datetime]):
    """Render the database's time in UTC plus an offset in seconds."""

    type = tables.Time()
    name = 'utcnow'
    inherit_cache = True

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__(sa.bindparam('offset', float(offset), sa.Float, unique=True))


class microseconds(expression.FunctionElement[int]):
    """Render a time as microseconds since 1970: a million of these are read in a second or two."""

    type = sa.BigInteger()
    name = 'microseconds'
    inherit_cache = True


class json_member(expression.FunctionElement[str]):
    """Render a member of an object that is stored as JSON, as JSON; NULL if it has none."""

    type = sa.Text()
    name = 'json_member'
    inherit_cache = True


class byte_length(expression.FunctionElement[int]):
    """Render the length of a text of JSON in bytes, which needs no transfer of the text."""

    type = sa.BigInteger()
    name = 'byte_length'
    inherit_cache = True


_MYSQL: Final = {
    byte_length: 'LENGTH({0})',
    # Texts that differ only by case are equal without a binary collation.
    json_member: (
        """(CAST(JSON_EXTRACT({0}, CONCAT('$."', {1}, '"')) AS CHAR) COLLATE utf8mb4_bin)"""
    ),
    utcnow: '(UTC_TIMESTAMP(6) + INTERVAL {0} * 1000000 MICROSECOND)',
    microseconds: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
}
#: Dialect -> function -> its SQL; ``{0}`` stands for the first argument.
_SQL: Final[Mapping[str, Mapping[Any, str]]] = {
    'sqlite': {
        byte_length: 'length({0})',
        # %f has milliseconds; the zeros make the text sort like the stored times.
        utcnow: "(strftime('%Y-%m-%d %H:%M:%f', 'now', {0} || ' seconds') || '000')",
        json_member: """({0} -> ('$."' || {1} || '"'))""",
        microseconds: "(strftime('%s', {0}) * 1000000 + substr({0}, 21))",
    },
    'mysql': _MYSQL,
    'mariadb': _MYSQL,
    'postgresql': {
        byte_length: 'octet_length({0})',
        # statement_timestamp is stable, so that an index can be searched with it.
        utcnow: "(statement_timestamp() AT TIME ZONE 'UTC' + make_interval(secs => {0}))",
        json_member: 'CAST(CAST({0} AS jsonb) -> {1} AS TEXT)',
        microseconds: 'CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT)',
    },
}


def _register(function: Any, dialect: str, sql: str) -> None:
    @compiler.compiles(function, dialect)
    def render(element: Any, compiler: Any, **kw: Any) -> str:
        return sql.format(*(compiler.process(each, **kw) for each in element.clauses))


for _dialect, _functions in _SQL.items():
    for _function, _text in _functions.items():
        _register(_function, _dialect, _text)


T = TypeVar('T')

#: Key of ``Session.info`` under which tests put a clock: a function that returns the time.
CLOCK = 'clock'
#: Such a function.
TestClock = Callable[[], datetime.datetime]


def now(session: orm.Session, offset: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """Return the time ``offset`` seconds from now as an expression to compare with and store."""
    return now_by_clock(session.info.get(CLOCK), offset)


def now_by_clock(
    clock: TestClock | None, offset: float = 0.0
) -> sa.ColumnElement[datetime.datetime]:
    """Return the same by the clock of a test, or by the clock of the database."""
    if clock is None:
        return utcnow(offset)
    return sa.literal(clock() + datetime.timedelta(seconds=offset), tables.Time())


def cached_statement(session: orm.Session, make: Callable[..., T], *args: Any) -> T:
    """Return a statement that contains the time; with the clock of the database it is built once.

    :param make: a function of a module, which builds it from a clock, see :func:`now_by_clock`
    :param args: its other arguments, few different ones
    """
    clock = session.info.get(CLOCK)
    return _build_once(make, *args) if clock is None else make(clock, *args)


@functools.lru_cache(maxsize=256)
def _build_once(make: Callable[..., Any], *args: Any) -> Any:
    return make(None, *args)


def read_time(session: orm.Session) -> datetime.datetime:
    """Read the time."""
    clock = session.info.get(CLOCK)
    time = clock() if clock else session.scalar(sa.select(utcnow()))
    assert time is not None  # nosec B101 # for mypy: it holds already
    return time


def install_time_decoder(engine: sa.Engine) -> None:
    """Let the future connections of an engine decode ``DATETIME`` in C.

    The converter of PyMySQL was a tenth of the cost of a list of leases.
    """
    # The driver is an extra.
    from pymysql import converters
    from pymysql.constants import FIELD_TYPE

    read = {**converters.conversions, FIELD_TYPE.DATETIME: _decode_time}

    def connect(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        options.setdefault('conv', read)

    sa.event.listen(engine, 'do_connect', connect)


def _decode_time(text: str) -> datetime.datetime | None:
    """Read ``YYYY-MM-DD HH:MM:SS[.ffffff]``; the zero time of MySQL is None."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
