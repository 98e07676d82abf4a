# SPDX-License-Identifier: Apache-2.0
"""Read capacity over time as steps: total, allocated and free amounts.

One statement reads the capacity of all units and their allocations in a period. The database
groups equal units and equal allocations: a lease of a thousand equal hosts is one row.
"""

import dataclasses
import datetime
import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import packages
from climate_core.db import tables
from climate_core.db.sql import json_member, microseconds
from climate_core.lease.model import HOST_KIND

_UNIT, _ALLOCATION = tables.UNITS, tables.ALLOCATIONS
_RESERVATION, _LEASE = tables.RESERVATIONS, tables.LEASES

#: The columns of units that are grouped if these are equal; JSON as it is stored.
_EQUAL_COLUMNS = (
    _UNIT.c.kind.label('kind'),
    _UNIT.c.pool.label('pool'),
    _UNIT.c.available.label('available'),
    sa.type_coerce(_UNIT.c.capacity, sa.Text).label('capacity'),
    sa.type_coerce(_UNIT.c.access, sa.Text).label('access'),
)
#: Databases that would read all allocations of each unit instead of the period by its index.
_IN_ORDER: Final = ('mysql', 'mariadb')


class EqualUnits(NamedTuple):
    """Units with the same capacity and access.

    :param capacity: of each unit; empty if only whole units are allocated
    :param access: the projects that may use them, as it is stored; None: all projects
    :param properties: the requested properties of hosts, in their order, as JSON; None: they have
        no such property
    """

    kind: str
    pool: str
    available: bool
    capacity: Mapping[str, int]
    access: Mapping[str, Any] | None
    number: int
    properties: tuple[str | None, ...] = ()


class EqualAllocations(NamedTuple):
    """Promises of equal units for the same time; the times are numbers.

    :param units: as in :class:`EqualUnits`, with the number of allocations
    :param unit_id: of the unit of which these are shares; None: each is all of a unit
    :param piece: how much one piece takes; None: all of a unit
    :param pieces: how many pieces these are together
    :param own: whether they are of the project of the caller
    """

    units: EqualUnits
    unit_id: int | None
    start: int
    end: int
    piece: Mapping[str, int] | None
    pieces: int
    own: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuery:
    """Ask for the capacity of a time.

    :param project_id: the project of the caller
    :param limit: more rows than that are not read
    :param properties: names of properties of hosts that distinguish units
    :param private: also by those that users may not see
    """

    since: datetime.datetime
    until: datetime.datetime
    project_id: str | None
    limit: int
    properties: Sequence[str] = ()
    private: bool = False


def read_capacity(
    session: orm.Session, query: CapacityQuery
) -> tuple[list[EqualUnits], list[EqualAllocations]] | None:
    """Read units and their allocations in a period; None: more rows than the limit."""
    shown = _shared_columns(query)
    statement = sa.union_all(_select_units(shown), _select_allocations(query, shown)).limit(
        query.limit + 1
    )
    rows = session.execute(statement).all()
    if len(rows) > query.limit:
        return None
    # Most rows have the same texts.
    load = functools.cache(_load)
    units, allocations = [], []
    for row in rows:
        kind, pool, available, capacity, access, *texts = row[: len(shown)]
        number, unit_id, start, end, piece, pieces, own = row[len(shown) :]
        what = kind, pool, bool(available), load(capacity), load(access)
        equal = EqualUnits(*what, number, tuple(texts))
        if end:
            unit = unit_id or None
            span, taken = (int(start), int(end)), (load(piece), int(pieces))
            allocations.append(EqualAllocations(equal, unit, *span, *taken, bool(own)))
        else:
            units.append(equal)
    return units, allocations


def _load(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _shared_columns(query: CapacityQuery) -> list[sa.ColumnElement[Any]]:
    """Return the columns that units have in common which are put together."""
    columns: list[sa.ColumnElement[Any]] = [*_EQUAL_COLUMNS]
    if not query.properties:
        return columns
    property_names = packages.find_unit_tables()[HOST_KIND].properties
    for number, name in enumerate(query.properties):
        hidden: list[sa.ColumnElement[bool]] = [_UNIT.c.kind != HOST_KIND]
        if not query.private:
            of_name = sa.select(property_names.c.name).where(property_names.c.name == name)
            hidden.append(of_name.where(property_names.c.private.is_(True)).exists())
        text = json_member(sa.type_coerce(_UNIT.c.properties, sa.Text), sa.literal(name))
        columns.append(
            sa.case((sa.or_(*hidden), sa.null()), else_=text).label(f'property{number}')
        )
    return columns


def _select_units(shown: Sequence[sa.ColumnElement[Any]]) -> sa.Select[Any]:
    """Select units; no allocation ends at 0."""
    nothing = [sa.literal(0).label(name) for name in ('unit_id', 'start', 'end')]
    none = sa.literal('').label('piece')
    rest = [sa.literal(0).label(name) for name in ('pieces', 'own')]
    alike = sa.select(*shown).subquery().c
    return sa.select(*alike, sa.func.count().label('number'), *nothing, none, *rest).group_by(
        *alike
    )


def _select_allocations(
    query: CapacityQuery, shown: Sequence[sa.ColumnElement[Any]]
) -> sa.Select[Any]:
    own = sa.case((_LEASE.c.project_id == query.project_id, 1), else_=0)
    each = (
        sa.select(
            *shown,
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
        .where(_ALLOCATION.c.end > query.since, _ALLOCATION.c.start < query.until)
    )
    for dialect in _IN_ORDER:
        each = each.prefix_with('STRAIGHT_JOIN', dialect=dialect)
    found = each.subquery()
    names = [column.name for column in shown]
    same = [found.c[name] for name in (*names, 'unit_id', 'start', 'end', 'piece')]
    return sa.select(
        *same[: len(names)],
        sa.func.count().label('number'),
        *same[len(names) :],
        sa.func.sum(found.c.pieces).label('pieces'),
        found.c.own,
    ).group_by(*same, found.c.own)


class Step(NamedTuple):
    """Amounts from a time until that of the next step.

    :param total: capacity of all units, including unavailable units
    :param promised: allocations of all projects
    :param own: allocations of the project of the caller
    :param free: free capacity of available units
    """

    time: int
    total: int
    promised: int
    own: int
    free: int


class Series(NamedTuple):
    """The steps of one amount of the units of a kind in a pool.

    :param unit: the name of the amount; that of the kind for whole units
    :param properties: the properties that these units have in common, as JSON; None: they have
        no such property
    """

    kind: str
    pool: str
    properties: tuple[str | None, ...]
    unit: str
    steps: Sequence[Step]


_Key = tuple[str, str, tuple[str | None, ...], str]
_Span = tuple[int, int]
#: Changes of the allocated amount, the own amount, and the allocated amount of available units.
_Amounts = list[int]
_Changes = dict[_Key, dict[int, _Amounts]]


def build_series(
    units: Iterable[EqualUnits], allocations: Sequence[EqualAllocations], since: int, until: int
) -> list[Series]:
    """Return the steps of all amounts between two times, in the order of their names.

    A whole unit counts as allocated while any piece of it is.
    """
    totals: dict[_Key, int] = defaultdict(int)
    open_: dict[_Key, int] = defaultdict(int)
    for each in units:
        for unit, amount in ((each.kind, 1), *each.capacity.items()):
            key = each.kind, each.pool, each.properties, unit
            totals[key] += each.number * amount
            open_[key] += each.number * amount if each.available else 0
    changes: _Changes = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for allocation in allocations:
        _add_amounts(changes, allocation)
    for key, available, every, own in _spans_of_units(allocations):
        _add(changes, key, every, promised=1, taken=int(available))
        _add(changes, key, own, own=1)
    return [
        Series(*key, _steps(totals[key], open_[key], changes.get(key, {}), since, until))
        for key in sorted(totals, key=_order)
    ]


def _order(key: _Key) -> tuple[str, str, list[str], str]:
    kind, pool, properties, unit = key
    return kind, pool, [each or '' for each in properties], unit


def _add_amounts(changes: _Changes, allocation: EqualAllocations) -> None:
    """Add the amounts of allocations; of whole units also the number of units."""
    units, spans = allocation.units, [(allocation.start, allocation.end)]
    piece, number = allocation.piece, allocation.pieces
    if piece is None:
        piece, number = {**units.capacity, units.kind: 1}, units.number
    for unit, amount in piece.items():
        taken = amount * number
        _add(
            changes,
            (units.kind, units.pool, units.properties, unit),
            spans,
            promised=taken,
            own=taken if allocation.own else 0,
            taken=taken if units.available else 0,
        )


def _add(
    changes: _Changes,
    key: _Key,
    spans: Iterable[_Span],
    promised: int = 0,
    own: int = 0,
    taken: int = 0,
) -> None:
    times = changes[key]
    for span in spans:
        for time, sign in zip(span, (1, -1), strict=True):
            change = times[time]
            change[0] += sign * promised
            change[1] += sign * own
            change[2] += sign * taken


def _spans_of_units(
    allocations: Iterable[EqualAllocations],
) -> Iterator[tuple[_Key, bool, list[_Span], list[_Span]]]:
    """Yield when any share, and any own share, of each shared unit is allocated."""
    shares: dict[int, list[EqualAllocations]] = defaultdict(list)
    for each in allocations:
        if each.unit_id is not None:
            shares[each.unit_id].append(each)
    for found in shares.values():
        units = found[0].units
        key = units.kind, units.pool, units.properties, units.kind
        every, own = _union(found), _union(each for each in found if each.own)
        yield key, units.available, every, own


def _union(allocations: Iterable[EqualAllocations]) -> list[_Span]:
    """Return the times of allocations in order, overlapping times merged."""
    spans: list[_Span] = []
    for start, end in sorted((each.start, each.end) for each in allocations):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def _steps(
    total: int, open_: int, changes: Mapping[int, _Amounts], since: int, until: int
) -> list[Step]:
    """Add up changes; changes before the first time are part of the first step."""
    steps = [Step(since, total, 0, 0, open_)]
    promised = own = taken = 0
    for time in sorted(each for each in changes if each < until):
        change = changes[time]
        promised, own, taken = promised + change[0], own + change[1], taken + change[2]
        step = Step(max(time, since), total, promised, own, max(0, open_ - taken))
        if steps[-1].time == step.time:
            steps.pop()
        if not steps or steps[-1][1:] != step[1:]:
            steps.append(step)
    return steps
