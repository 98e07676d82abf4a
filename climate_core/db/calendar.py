# SPDX-License-Identifier: Apache-2.0
"""Units and their allocations: what an index of the calendar reads, and the guarded writes.

Nothing here decides. A change of the allocations of a unit is valid if it raises the very
generation of the unit that the decision was made for; :func:`guard_units` does that for all units
of a decision in one statement.
"""

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common.dates import from_microseconds
from climate_core.db import sql, tables
from climate_core.db.engine import signal
from climate_core.db.sql import microseconds
from climate_core.db.tables import ALLOCATIONS, LEASES, RESERVATIONS, UNITS
from climate_core.lease.model import Allocation

#: The signal of a transaction that may have freed capacity.
FREED = 'calendar.freed'
#: Seconds for which a change may wait for its commit until an index may overlook it.
COMMIT_DELAY = 5.0
#: Maximum number of units, known to have changed, that are excluded from a read.
_KNOWN = 200
#: Number of units that are read together when an index is filled.
_CHUNK = 500

#: Of a unit; JSON as it is stored.
_UNIT_COLUMNS = (
    UNITS.c.id,
    UNITS.c.generation,
    UNITS.c.kind,
    UNITS.c.pool,
    UNITS.c.available,
    UNITS.c.lanes,
    UNITS.c.asleep,
    sa.type_coerce(UNITS.c.capacity, sa.Text).label('capacity'),
    sa.type_coerce(UNITS.c.properties, sa.Text).label('properties'),
    sa.type_coerce(UNITS.c.access, sa.Text).label('access'),
)
_TIMES = (
    microseconds(ALLOCATIONS.c.start).label('start'),
    microseconds(ALLOCATIONS.c.end).label('end'),
)
_ALLOCATION_COLUMNS = (
    ALLOCATIONS.c.unit_id,
    *_TIMES,
    ALLOCATIONS.c.lane,
    ALLOCATIONS.c.pieces,
    sa.type_coerce(ALLOCATIONS.c.piece, sa.Text).label('piece'),
)
#: The end of the text of an allocation: some databases cut long texts off.
_MARK = '.'
#: In the order of the fields of :class:`Allocation`.
_STORED_COLUMNS = (
    ALLOCATIONS.c.unit_id,
    ALLOCATIONS.c.reservation_id,
    *_TIMES,
    ALLOCATIONS.c.lane,
    ALLOCATIONS.c.pieces,
    ALLOCATIONS.c.piece,
    ALLOCATIONS.c.unit_generation,
    ALLOCATIONS.c.released,
)


class AllocationColumns(NamedTuple):
    """The allocations of a unit in columns, ordered by their starts.

    :param piece: JSON texts; None: the whole unit
    """

    unit_id: int
    starts: Sequence[int]
    ends: Sequence[int]
    lanes: Sequence[int]
    pieces: Sequence[int]
    piece: Sequence[str | None]


class Totals(NamedTuple):
    """Totals of a set of units, which are equal only for equal sets: generations only grow."""

    units: int
    last_id: int
    generations: int


def read_changed_units(
    session: orm.Session, seen: datetime.datetime, known: Mapping[int, int]
) -> tuple[datetime.datetime, list[Any]]:
    """Read the units that changed recently, in one statement, and the time.

    :param seen: the time of the last read
    :param known: id -> generation of units that are known to have changed since; units that
        still have it are not read
    """
    late = sa.literal(seen - datetime.timedelta(seconds=COMMIT_DELAY), tables.Time())
    conditions = [UNITS.c.changed_at > late]
    pairs = list(known.items())[-_KNOWN:]
    if pairs:
        conditions.append(sa.tuple_(UNITS.c.id, UNITS.c.generation).not_in(pairs))
    # If nothing changed there is still a row, with the time.
    clock = sa.select(sql.now(session).label('now')).subquery()
    query = sa.select(clock.c.now, *_UNIT_COLUMNS).select_from(
        clock.outerjoin(UNITS, sa.and_(*conditions))
    )
    found = session.execute(query).all()
    return found[0][0], [row[1:] for row in found if row[1] is not None]


def read_units(session: orm.Session, ids: Collection[int] | None = None) -> list[Any]:
    """Read units, or all units; deleted units are missing."""
    query = sa.select(*_UNIT_COLUMNS).order_by(UNITS.c.id)
    if ids is not None:
        query = query.where(UNITS.c.id.in_(sorted(ids)))
    return list(session.execute(query))


def read_allocations(session: orm.Session, ids: Sequence[int]) -> Iterator[AllocationColumns]:
    """Read the allocations of units that have not ended."""
    return _group_by_unit(
        _select_allocations(session, ALLOCATIONS.c.unit_id.in_(ids)) if ids else []
    )


def read_all_allocations(session: orm.Session, ids: Sequence[int]) -> Iterator[AllocationColumns]:
    """Read the allocations of all units in large parts; allocations of whole units as texts.

    A driver in Python takes ten seconds for a million rows, and one for ten thousand long texts.
    """
    unit_id = ALLOCATIONS.c.unit_id
    later = ALLOCATIONS.c.end > sql.now(session)
    for first in range(0, len(ids), _CHUNK):
        among = unit_id.between(ids[first], ids[first : first + _CHUNK][-1])
        rows: list[Any] = []
        others = []
        for unit, count, text in session.execute(
            sa.select(unit_id, sa.func.count(), sa.func.aggregate_strings(_whole(), ' '))
            .where(among, later)
            .group_by(unit_id)
        ):
            parts = text.split(' ') if text else []
            if parts.count(_MARK) < count:
                others.append(unit)
            else:
                numbers = (map(int, parts[each::4]) for each in range(3))
                rows += zip(repeat(unit), *numbers, repeat(1), repeat(None), strict=False)
        yield from _group_by_unit(rows)
        yield from read_allocations(session, others)


def _whole() -> sa.ColumnElement[str]:
    """Return an allocation of a whole unit as a text; NULL for pieces of a unit."""
    parts = [sa.cast(each, sa.String(20)) for each in _ALLOCATION_COLUMNS[1:4]]
    text = parts[0] + ' ' + parts[1] + ' ' + parts[2] + f' {_MARK}'
    return sa.case((ALLOCATIONS.c.piece.is_(None), text))


def _select_allocations(session: orm.Session, which: sa.ColumnElement[bool]) -> Sequence[Any]:
    later = ALLOCATIONS.c.end > sql.now(session)
    return session.execute(sa.select(*_ALLOCATION_COLUMNS).where(which, later)).all()


def _group_by_unit(rows: Iterable[Any]) -> Iterator[AllocationColumns]:
    for unit_id, group in groupby(sorted(rows, key=itemgetter(0, 1)), itemgetter(0)):
        _, *columns = zip(*group, strict=True)
        yield AllocationColumns(unit_id, *columns)


def read_totals(session: orm.Session) -> Totals:
    """Read the totals, which show whether an index lacks a change of any unit."""
    query = sa.select(
        sa.func.count(),
        sa.func.coalesce(sa.func.max(UNITS.c.id), 0),
        sa.func.coalesce(sa.func.sum(UNITS.c.generation), 0),
    ).select_from(UNITS)
    return Totals(*(int(each) for each in session.execute(query).one()))


def read_generations(session: orm.Session) -> dict[int, int]:
    """Read the generations of all units."""
    return {row[0]: row[1] for row in session.execute(sa.select(UNITS.c.id, UNITS.c.generation))}


def allocations_of_reservations(
    session: orm.Session, reservation_ids: Collection[str], late: bool = False
) -> list[Allocation]:
    """Read the allocations of reservations that have not ended.

    :param late: include allocations that have ended and were not released
    """
    lasting = ALLOCATIONS.c.end > sql.now(session)
    query = sa.select(*_STORED_COLUMNS).where(
        ALLOCATIONS.c.reservation_id.in_(sorted(reservation_ids)),
        sa.or_(lasting, ALLOCATIONS.c.released.is_not(True)) if late else lasting,
    )
    ordered = query.order_by(ALLOCATIONS.c.unit_id)
    return [Allocation._make(row) for row in session.execute(ordered)]


def allocations_of_units(session: orm.Session, unit_ids: Collection[int]) -> list[Allocation]:
    """Read the allocations of units that have not ended, by reservation; one statement."""
    mine = ALLOCATIONS.c.unit_id.in_(sorted(unit_ids))
    query = sa.select(*_STORED_COLUMNS).where(mine, ALLOCATIONS.c.end > sql.now(session))
    return [Allocation._make(row) for row in session.execute(query)]


def allocations_starting(
    session: orm.Session,
    unit_ids: Collection[int],
    first: datetime.datetime,
    last: datetime.datetime,
    lock: bool = False,
) -> list[Allocation]:
    """Read the allocations of units that start between two times.

    :param lock: read what is committed now, and lock it; the caller has written to the units
    """
    query = (
        sa.select(*_STORED_COLUMNS)
        .where(
            ALLOCATIONS.c.unit_id.in_(sorted(unit_ids)),
            ALLOCATIONS.c.start.between(first, last),
        )
        .order_by(ALLOCATIONS.c.unit_id)
    )
    found = session.execute(query.with_for_update() if lock else query)
    return [Allocation._make(row) for row in found]


def lease_start_dates(
    session: orm.Session, allocations: Collection[Allocation]
) -> dict[str, datetime.datetime]:
    """Read the start dates of the leases of allocations, by the ids of the reservations."""
    ids = sorted({each.reservation_id for each in allocations})
    if not ids:
        return {}
    query = (
        sa.select(RESERVATIONS.c.id, LEASES.c.start_date)
        .join(LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .where(RESERVATIONS.c.id.in_(ids))
    )
    return {row[0]: row[1] for row in session.execute(query)}


def guard_units(session: orm.Session, units: Mapping[int, int], steps: Mapping[int, int]) -> bool:
    """Raise the generations of units if all units still have the given generations.

    :param units: id -> generation
    :param steps: id -> by how much, where that is more than one
    :returns: False if a unit changed or is deleted; the caller must not commit
    """
    pairs = sorted(units.items())
    more = {unit_id: step for unit_id, step in steps.items() if step > 1}
    step = sa.case(more, value=UNITS.c.id, else_=1) if more else 1
    change = (
        sa.update(UNITS)
        # For the order of the locks: by the key.
        .where(UNITS.c.id.in_([unit_id for unit_id, _ in pairs]))
        .where(sa.tuple_(UNITS.c.id, UNITS.c.generation).in_(pairs))
        .values(generation=UNITS.c.generation + step, changed_at=sql.now(session))
    )
    return sql.change(session, change) == len(pairs)


def raise_generations(session: orm.Session, ids: Collection[int]) -> None:
    """Raise the generations of units unconditionally, since capacity is freed."""
    change = sa.update(UNITS).where(UNITS.c.id.in_(sorted(ids)))
    values = {'generation': UNITS.c.generation + 1, 'changed_at': sql.now(session)}
    sql.change(session, change.values(values))


def insert_allocations(session: orm.Session, allocations: Sequence[Allocation]) -> bool:
    """Insert allocations; False, and none, if a unit has an allocation of the same generation."""
    values = []
    for allocation in allocations:
        times = {
            'start': from_microseconds(allocation.start),
            'end': from_microseconds(allocation.end),
        }
        row = allocation._asdict() | times
        # The default of the column, which also an allocation has that was moved.
        del row['released']
        values.append(row)
    try:
        sql.insert(session, ALLOCATIONS, values)
    except db_exc.DBDuplicateEntry:
        return False
    return True


def delete_allocations(session: orm.Session, allocations: Collection[Allocation]) -> bool:
    """Delete allocations; False if an allocation is already deleted."""
    if allocations:
        signal(session, FREED)
    gone = sa.delete(ALLOCATIONS).where(_are_allocations(allocations))
    return not allocations or sql.change(session, gone) == len(allocations)


def end_allocations(
    session: orm.Session,
    allocations: Collection[Allocation],
    time: datetime.datetime,
    released: bool | None = None,
) -> bool:
    """Set the end of allocations; False if an allocation is deleted."""
    if allocations:
        signal(session, FREED)
    ended = (
        sa.update(ALLOCATIONS)
        .where(_are_allocations(allocations))
        .values(end=time, released=released)
    )
    return not allocations or sql.change(session, ended) == len(allocations)


def mark_released(session: orm.Session, reservation_ids: Collection[str]) -> None:
    """Mark all allocations of reservations as released."""
    mine = ALLOCATIONS.c.reservation_id.in_(sorted(reservation_ids))
    sql.change(session, sa.update(ALLOCATIONS).where(mine).values(released=True))


def set_start(session: orm.Session, allocation: Allocation, time: datetime.datetime) -> None:
    """Set the start of an allocation."""
    sql.change(
        session, sa.update(ALLOCATIONS).where(_are_allocations([allocation])).values(start=time)
    )


def change_lane(
    session: orm.Session, unit_id: int, start: datetime.datetime, lane: int, new: int
) -> bool:
    """Change the lane of an allocation; False if none with this start is in the old lane."""
    column = ALLOCATIONS.c
    ours = sa.and_(column.unit_id == unit_id, column.start == start, column.lane == lane)
    return sql.change(session, sa.update(ALLOCATIONS).where(ours).values(lane=new)) == 1


def _are_allocations(allocations: Iterable[Allocation]) -> sa.ColumnElement[bool]:
    keys = sorted((each.unit_id, each.unit_generation) for each in allocations)
    return sa.tuple_(ALLOCATIONS.c.unit_id, ALLOCATIONS.c.unit_generation).in_(keys)


def is_released() -> sa.ColumnElement[bool]:
    """Return the condition for allocations that were released while the lease was running."""
    return ALLOCATIONS.c.released.is_(True)
