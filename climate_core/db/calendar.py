# SPDX-License-Identifier: Apache-2.0
"""Units and what is promised of them: what an index of the calendar reads, and the guarded writes.

Nothing here decides. A change of what is promised of a unit is right if it counts up the very
generation of the unit that the decision was made for; :func:`guard` does that for all units of a
decision in one statement.
"""

import datetime
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from climate_core.db import rows, tables, utcnow

_UNIT, _ALLOCATION = tables.UNITS, tables.ALLOCATIONS

#: Seconds for which a change may wait for its commit until an index may overlook it.
LATE = 5.0
#: So many units, of those that an index has seen changed, are not read again.
_KNOWN = 200
#: So many units are read with their promises at once when an index is filled.
_CHUNK = 500


class microseconds(expression.FunctionElement[int]):
    """A time as whole microseconds since 1970: a million of these are read in a second or two."""

    type = sa.BigInteger()
    name = 'microseconds'
    inherit_cache = True


@compiler.compiles(microseconds, 'sqlite')
def _sqlite(element: microseconds, compiler: Any, **kw: Any) -> str:
    time = compiler.process(element.clauses, **kw)
    return f"(strftime('%s', {time}) * 1000000 + substr({time}, 21))"


@compiler.compiles(microseconds, 'mysql')
@compiler.compiles(microseconds, 'mariadb')
def _mysql(element: microseconds, compiler: Any, **kw: Any) -> str:
    time = compiler.process(element.clauses, **kw)
    return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})"


@compiler.compiles(microseconds, 'postgresql')
def _postgresql(element: microseconds, compiler: Any, **kw: Any) -> str:
    time = compiler.process(element.clauses, **kw)
    return f'CAST(EXTRACT(EPOCH FROM {time}) * 1000000 AS BIGINT)'


#: Of a unit; JSON as it is stored.
_UNIT_COLUMNS = (
    _UNIT.c.id,
    _UNIT.c.generation,
    _UNIT.c.kind,
    _UNIT.c.pool,
    _UNIT.c.available,
    _UNIT.c.lanes,
    sa.type_coerce(_UNIT.c.capacity, sa.Text).label('capacity'),
    sa.type_coerce(_UNIT.c.properties, sa.Text).label('properties'),
)
#: Of a promise; the times as numbers.
_PROMISE_COLUMNS = (
    _ALLOCATION.c.unit_id,
    microseconds(_ALLOCATION.c.start).label('start'),
    microseconds(_ALLOCATION.c.end).label('end'),
    _ALLOCATION.c.lane,
    _ALLOCATION.c.pieces,
    sa.type_coerce(_ALLOCATION.c.piece, sa.Text).label('piece'),
)


class Own(NamedTuple):
    """A promise of a reservation; the times are numbers."""

    id: int
    reservation_id: str
    unit_id: int
    start: int
    end: int
    lane: int
    pieces: int
    piece: Mapping[str, int] | None


class Totals(NamedTuple):
    """What two sets of units have in common only if they are the same: generations only grow."""

    units: int
    last_id: int
    generations: int


def changed(
    session: orm.Session, seen: datetime.datetime, known: Mapping[int, int]
) -> tuple[datetime.datetime, list[Any]]:
    """Read the units that changed of late, in one statement, and the time.

    :param seen: when they were read the last time
    :param known: generations of units of which it is known that they changed since; those that
        still have them are not read
    """
    late = sa.literal(seen - datetime.timedelta(seconds=LATE), tables.Time())
    conditions = [_UNIT.c.changed_at > late]
    pairs = list(known.items())[-_KNOWN:]
    if pairs:
        conditions.append(sa.tuple_(_UNIT.c.id, _UNIT.c.generation).not_in(pairs))
    # Also if nothing changed there is a row, with the time.
    clock = sa.select(utcnow.now(session).label('now')).subquery()
    query = sa.select(clock.c.now, *_UNIT_COLUMNS).select_from(
        clock.outerjoin(_UNIT, sa.and_(*conditions))
    )
    found = session.execute(query).all()
    return found[0][0], [row[1:] for row in found if row[1] is not None]


def units(session: orm.Session, ids: Collection[int] | None = None) -> list[Any]:
    """Read units, or all; those that are gone are missing."""
    query = sa.select(*_UNIT_COLUMNS).order_by(_UNIT.c.id)
    if ids is not None:
        query = query.where(_UNIT.c.id.in_(sorted(ids)))
    return list(session.execute(query))


def promises(session: orm.Session, ids: Sequence[int], all_between: bool = False) -> Iterable[Any]:
    """Read what is promised of units and is not over, by their ids.

    :param all_between: read what is between the first and the last of them in big pieces
    """
    query = (
        sa.select(*_PROMISE_COLUMNS)
        .where(_ALLOCATION.c.end > utcnow.now(session))
        .order_by(_ALLOCATION.c.unit_id)
    )
    if not all_between:
        yield from session.execute(query.where(_ALLOCATION.c.unit_id.in_(ids))) if ids else ()
        return
    for first in range(0, len(ids), _CHUNK):
        chunk = ids[first : first + _CHUNK]
        yield from session.execute(query.where(_ALLOCATION.c.unit_id.between(chunk[0], chunk[-1])))


def totals(session: orm.Session) -> Totals:
    """Read what tells whether an index misses a change of any unit."""
    query = sa.select(
        sa.func.count(),
        sa.func.coalesce(sa.func.max(_UNIT.c.id), 0),
        sa.func.coalesce(sa.func.sum(_UNIT.c.generation), 0),
    ).select_from(_UNIT)
    return Totals(*(int(each) for each in session.execute(query).one()))


def generations(session: orm.Session) -> dict[int, int]:
    """Read the generations of all units."""
    return {row[0]: row[1] for row in session.execute(sa.select(_UNIT.c.id, _UNIT.c.generation))}


def of_reservations(session: orm.Session, reservation_ids: Collection[str]) -> list[Own]:
    """Read what is promised to reservations and is not over."""
    query = (
        sa.select(_ALLOCATION.c.id, _ALLOCATION.c.reservation_id, *_PROMISE_COLUMNS)
        .where(
            _ALLOCATION.c.reservation_id.in_(sorted(reservation_ids)),
            _ALLOCATION.c.end > utcnow.now(session),
        )
        .order_by(_ALLOCATION.c.unit_id, _ALLOCATION.c.id)
    )
    return [
        Own._make([*row[:-1], None if row.piece is None else json.loads(row.piece)])
        for row in session.execute(query)
    ]


def guard(session: orm.Session, units: Mapping[int, int], steps: Mapping[int, int]) -> bool:
    """Count up the generations of units if they all still have them.

    :param units: the generations by the ids
    :param steps: by how much, where that is more than one
    :returns: False if one of them changed or is gone; nothing may be committed then
    """
    pairs = sorted(units.items())
    more = {unit_id: step for unit_id, step in steps.items() if step > 1}
    step = sa.case(more, value=_UNIT.c.id, else_=1) if more else 1
    change = (
        sa.update(_UNIT)
        # For the order of the locks: by the key.
        .where(_UNIT.c.id.in_([unit_id for unit_id, _ in pairs]))
        .where(sa.tuple_(_UNIT.c.id, _UNIT.c.generation).in_(pairs))
        .values(generation=_UNIT.c.generation + step, changed_at=utcnow.now(session))
    )
    return rows.change(session, change) == len(pairs)


def count_up(session: orm.Session, ids: Collection[int]) -> None:
    """Count up the generations of units whatever they are: something is freed."""
    change = sa.update(_UNIT).where(_UNIT.c.id.in_(sorted(ids)))
    values = {'generation': _UNIT.c.generation + 1, 'changed_at': utcnow.now(session)}
    rows.change(session, change.values(values))


def insert(session: orm.Session, allocations: Sequence[Mapping[str, Any]]) -> bool:
    """Write promises; False if a unit has a promise of this generation, and nothing is written."""
    try:
        rows.insert(session, _ALLOCATION, allocations)
    except db_exc.DBDuplicateEntry:
        return False
    return True


def delete(session: orm.Session, ids: Collection[int]) -> bool:
    """Delete promises; False if one of them is gone already."""
    gone = sa.delete(_ALLOCATION).where(_ALLOCATION.c.id.in_(sorted(ids)))
    return not ids or rows.change(session, gone) == len(ids)


def end(session: orm.Session, ids: Collection[int], time: datetime.datetime) -> bool:
    """Let promises end at a time; False if one of them is gone."""
    ended = sa.update(_ALLOCATION).where(_ALLOCATION.c.id.in_(sorted(ids)))
    return not ids or rows.change(session, ended.values(end=time)) == len(ids)
