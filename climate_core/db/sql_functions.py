# SPDX-License-Identifier: Apache-2.0
"""The SQL functions that each database writes in its own way."""

import datetime
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
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


_MYSQL: Final = {
    utcnow: '(UTC_TIMESTAMP(6) + INTERVAL {0} * 1000000 MICROSECOND)',
    microseconds: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
}
#: Dialect -> function -> its SQL; ``{0}`` stands for the argument.
_SQL: Final[Mapping[str, Mapping[Any, str]]] = {
    'sqlite': {
        # %f has milliseconds; the zeros make the text sort like the stored times.
        utcnow: "(strftime('%Y-%m-%d %H:%M:%f', 'now', {0} || ' seconds') || '000')",
        microseconds: "(strftime('%s', {0}) * 1000000 + substr({0}, 21))",
    },
    'mysql': _MYSQL,
    'mariadb': _MYSQL,
    'postgresql': {
        # statement_timestamp is stable, so that an index can be searched with it.
        utcnow: "(statement_timestamp() AT TIME ZONE 'UTC' + make_interval(secs => {0}))",
        microseconds: 'CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT)',
    },
}


def _register(function: Any, dialect: str, sql: str) -> None:
    @compiler.compiles(function, dialect)
    def render(element: Any, compiler: Any, **kw: Any) -> str:
        return sql.format(compiler.process(element.clauses, **kw))


for _dialect, _functions in _SQL.items():
    for _function, _text in _functions.items():
        _register(_function, _dialect, _text)
