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
    # Texts that differ by case alone are told apart only where they are asked to be.
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
