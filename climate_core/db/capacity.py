# SPDX-License-Identifier: Apache-2.0
"""Read what all units have and what is promised of them in a time, in one statement.

The database puts equal units, and equal promises, together: a lease of a thousand equal hosts is
one row.
"""

import datetime
import functools
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.db.sql_functions import microseconds

_UNIT, _ALLOCATION = tables.UNITS, tables.ALLOCATIONS
_RESERVATION, _LEASE = tables.RESERVATIONS, tables.LEASES

#: The columns of units that are put together if these are equal; JSON as it is stored.
_ALIKE = (
    _UNIT.c.kind.label('kind'),
    _UNIT.c.pool.label('pool'),
    _UNIT.c.available.label('available'),
    sa.type_coerce(_UNIT.c.capacity, sa.Text).label('capacity'),
    sa.type_coerce(_UNIT.c.access, sa.Text).label('access'),
)
_NAMES: Final = tuple(column.name for column in _ALIKE)


class EqualUnits(NamedTuple):
    """Units that have the same, and of which anybody may have the same.

    :param capacity: of each; empty if only all of it is promised
    :param access: the projects that may have promises of them, as it is stored; None: all
    """

    kind: str
    pool: str
    available: bool
    capacity: Mapping[str, int]
    access: Mapping[str, Any] | None
    number: int


class EqualPromises(NamedTuple):
    """Promises of equal units for the same time; the times are numbers.

    :param units: as in :class:`EqualUnits`, with the number of promises
    :param unit_id: of the unit of which these are shares; None: each is all of a unit
    :param piece: how much one piece takes; None: all of a unit
    :param pieces: how many pieces these are together
    :param own: whether they are of the project that is asked for
    """

    units: EqualUnits
    unit_id: int | None
    start: int
    end: int
    piece: Mapping[str, int] | None
    pieces: int
    own: bool


def read(
    session: orm.Session,
    since: datetime.datetime,
    until: datetime.datetime,
    project_id: str | None,
    limit: int,
) -> tuple[list[EqualUnits], list[EqualPromises]] | None:
    """Read units and what is promised of them in a time; None: that is more than so many rows.

    :param project_id: the project whose promises are its own
    """
    query = sa.union_all(_units(), _promises(since, until, project_id)).limit(limit + 1)
    rows = session.execute(query).all()
    if len(rows) > limit:
        return None
    # Most rows have the same texts.
    load = functools.cache(_load)
    units, promises = [], []
    for *alike, number, unit_id, start, end, piece, pieces, own in rows:
        kind, pool, available, capacity, access = alike
        equal = EqualUnits(kind, pool, bool(available), load(capacity), load(access), number)
        if end:
            unit = unit_id or None
            span, taken = (int(start), int(end)), (load(piece), int(pieces))
            promises.append(EqualPromises(equal, unit, *span, *taken, bool(own)))
        else:
            units.append(equal)
    return units, promises


def _load(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _units() -> sa.Select[Any]:
    """Select units; no promise ends at 0."""
    nothing = [sa.literal(0).label(name) for name in ('unit_id', 'start', 'end')]
    none = sa.literal('').label('piece')
    rest = [sa.literal(0).label(name) for name in ('pieces', 'own')]
    return sa.select(*_ALIKE, sa.func.count().label('number'), *nothing, none, *rest).group_by(
        *_ALIKE
    )


def _promises(
    since: datetime.datetime, until: datetime.datetime, project_id: str | None
) -> sa.Select[Any]:
    own = sa.case((_LEASE.c.project_id == project_id, 1), else_=0)
    each = (
        sa.select(
            *_ALIKE,
            sa.case((_ALLOCATION.c.piece.is_(None), 0), else_=_UNIT.c.id).label('unit_id'),
            microseconds(_ALLOCATION.c.start).label('start'),
            microseconds(_ALLOCATION.c.end).label('end'),
            sa.type_coerce(_ALLOCATION.c.piece, sa.Text).label('piece'),
            _ALLOCATION.c.pieces.label('pieces'),
            own.label('own'),
        )
        .join_from(_ALLOCATION, _UNIT, _ALLOCATION.c.unit_id == _UNIT.c.id)
        .join(_RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .join(_LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .where(_ALLOCATION.c.end > since, _ALLOCATION.c.start < until)
        .subquery()
    )
    alike = [each.c[name] for name in (*_NAMES, 'unit_id', 'start', 'end', 'piece')]
    return sa.select(
        *alike[: len(_NAMES)],
        sa.func.count().label('number'),
        *alike[len(_NAMES) :],
        sa.func.sum(each.c.pieces).label('pieces'),
        each.c.own,
    ).group_by(*alike, each.c.own)
