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
_UTC: Final = '+00:00'
#: By the types whose values have no equal in JSON: what reads one.
_READERS: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    # Without looking for blanks around it: we have written it.
    tables.Json: lambda text: _DECODER.raw_decode(text)[0],
    sa.Boolean: bool,
}


class Query:
    """A query for many rows. Making one takes a while, so it is made once where that is possible.

    :param query: selects these columns
    :param columns: of the query, each with a type of ``climate_core.db.tables``
    """

    def __init__(self, query: sa.Select[Any], columns: Sequence[sa.ColumnElement[Any]]) -> None:
        self._query, self._columns = query, columns
        self._packed = query.with_only_columns(array(columns, _UTC))

    def rows(
        self, session: orm.Session, parameters: Mapping[str, Any] | None = None
    ) -> Iterable[Sequence[Any]]:
        """Return the values of the columns, in the order of the query."""
        if session.get_bind().dialect.driver != 'pymysql':
            return session.execute(self._query, parameters)
        texts = session.scalars(self._packed, parameters).all()
        # All at once: that is read in C, too.
        rows: list[list[Any]] = json.loads(f'[{",".join(texts)}]')
        convert(self._columns, rows)
        _convert(self._columns, rows, tables.Time, datetime.datetime.fromisoformat)
        return rows


def array(columns: Sequence[sa.ColumnElement[Any]], zone: str = '') -> sa.ColumnElement[str]:
    """Return the column that has all of these as a JSON array.

    :param zone: that of all times, which is written behind each
    """
    text: sa.ColumnElement[str] = sa.literal_column(f"'{zone}'")
    return sa.func.json_array(
        *(
            sa.func.concat(each, text, type_=sa.Text())
            if isinstance(each.type, tables.Time)
            else each
            for each in columns
        ),
        type_=sa.Text(),
    )


def convert(columns: Sequence[sa.ColumnElement[Any]], rows: Sequence[list[Any]]) -> None:
    """Make the values of such arrays what the types of the columns have, all but times."""
    for kind, reader in _READERS.items():
        _convert(columns, rows, kind, reader)


def _convert(
    columns: Sequence[sa.ColumnElement[Any]],
    rows: Sequence[list[Any]],
    kind: type[Any],
    reader: Callable[[Any], Any],
) -> None:
    for place, column in enumerate(columns):
        if type(column.type) is kind:
            for row in rows:
                if row[place] is not None:
                    row[place] = reader(row[place])
