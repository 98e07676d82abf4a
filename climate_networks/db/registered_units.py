# SPDX-License-Identifier: Apache-2.0
"""Read and write units of the calendar that an operator registers: floating IPs and segments.

Each has a row of its own beside its unit, and is promised as a whole.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import calendar, rows, sql, tables
from climate_core.db.engine import Database, signal

#: Tells whether a caller sees a unit; takes the access to it, as
#: :class:`climate_core.calendar.model.Access` dumps that.
IsSeen = Callable[[Mapping[str, Any] | None], bool]

_UNIT = tables.UNITS


def insert(
    session: orm.Session,
    table: sa.Table,
    unit: Mapping[str, Any],
    made: list[tuple[dict[str, Any], dict[str, Any]]],
) -> list[int]:
    """Write new units and their rows; return their ids, in order.

    :param table: of their rows
    :param unit: what the units have in common: kind, pool and access
    :param made: the properties of each, and its row
    :raises oslo_db.exception.DBDuplicateEntry: one of them is there already
    """
    signal(session, calendar.FREED)
    now, ids = sql.now(session), []
    connection = session.connection()
    for properties, row in made:
        one = {'available': True, 'capacity': {}, 'lanes': 1, 'generation': 0, **unit}
        new = sa.insert(_UNIT).values(**one, properties=properties, changed_at=now)
        key = connection.execute(new).inserted_primary_key
        assert key is not None  # nosec B101 # for mypy: it holds already
        connection.execute(sa.insert(table).values(**row, unit_id=key[0], created_at=now))
        ids.append(int(key[0]))
    return ids


def page(
    session: orm.Session, query: sa.Select[Any], marker: int, limit: int
) -> tuple[list[sa.RowMapping], bool]:
    """Read a page in the order of the ids, and whether there are more; one statement.

    :param query: of all
    :param marker: the id of the last one of the page before
    """
    select = query.where(_UNIT.c.id > marker).order_by(_UNIT.c.id)
    found = session.execute(select.limit(limit + 1)).mappings().all()
    return list(found[:limit]), len(found) > limit


def every(
    database: Database, read: Callable[..., tuple[list[Any], bool]], query: Any
) -> Iterator[Any]:
    """Read all that a query finds, page by page.

    :param read: returns a page of a query, and whether there are more
    :param query: a dataclass with the ``marker`` of a page
    """
    more = True
    while more:
        page, more = database.read(read, query)
        yield from page
        if page:
            query = dataclasses.replace(query, marker=page[-1].id)


def find(
    session: orm.Session, query: sa.Select[Any], unit_id: int, lock: bool = False
) -> sa.RowMapping | None:
    """Read one.

    :param lock: keep other transactions from promising it until the end of this one
    """
    one = query.where(_UNIT.c.id == unit_id)
    return session.execute(one.with_for_update() if lock else one).mappings().first()


def update(
    session: orm.Session,
    table: sa.Table,
    unit_id: int,
    unit: Mapping[str, Any],
    row: Mapping[str, Any],
) -> None:
    """Change columns of a unit that is locked, and of its row."""
    signal(session, calendar.FREED)
    now = sql.now(session)
    counted = {'generation': _UNIT.c.generation + 1, 'changed_at': now, **unit}
    rows.change(session, sa.update(_UNIT).where(_UNIT.c.id == unit_id).values(counted))
    stamped = {'updated_at': now, **row}
    rows.change(session, sa.update(table).where(table.c.unit_id == unit_id).values(stamped))


def delete(session: orm.Session, unit_id: int, kind: str) -> None:
    """Delete a unit with its row; one that is gone is fine."""
    rows.change(session, sa.delete(_UNIT).where(_UNIT.c.id == unit_id, _UNIT.c.kind == kind))
