# SPDX-License-Identifier: Apache-2.0
"""Read many rows with PyMySQL: each comes as one JSON text, which is read in C.

PyMySQL reads each value of a row in Python, which was half of what a list of leases costs. The
drivers of the other databases are written in C, and are asked for plain columns.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables

_DECODER: Final = json.JSONDecoder()
#: By the types whose values have no equal in JSON: what reads one.
_READERS: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    tables.Time: datetime.datetime.fromisoformat,
    # Without looking for blanks around it: we have written it.
    tables.Json: lambda text: _DECODER.raw_decode(text)[0],
    sa.Boolean: bool,
}


class Query:
    """A query for many rows. Making one takes a while, so it is made once where that is possible.

    :param query: selects these columns
    :param columns: of the query, each with a type of ``climate_core.db.tables``
    """

    def __init__(self, query: sa.Select[Any], columns: Sequence[sa.Column[Any]]) -> None:
        self._query = query
        self._packed = query.with_only_columns(
            sa.func.json_array(*map(_written, columns), type_=sa.Text())
        )
        self._readers = [
            (place, reader)
            for place, column in enumerate(columns)
            if (reader := _READERS.get(type(column.type))) is not None
        ]

    def rows(
        self, session: orm.Session, parameters: Mapping[str, Any] | None = None
    ) -> Iterable[Sequence[Any]]:
        """Return the values of the columns, in the order of the query."""
        if session.get_bind().dialect.driver != 'pymysql':
            return session.execute(self._query, parameters)
        texts = session.scalars(self._packed, parameters)
        # All at once: that is read in C, too.
        rows: list[list[Any]] = json.loads(f'[{",".join(texts)}]')
        for place, reader in self._readers:
            for row in rows:
                if row[place] is not None:
                    row[place] = reader(row[place])
        return rows


def _written(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    if isinstance(column.type, tables.Time):
        # With the zone that all of them have.
        return sa.func.concat(column, sa.literal_column("'+00:00'"), type_=sa.Text())
    return column
