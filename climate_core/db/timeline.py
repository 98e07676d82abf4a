# SPDX-License-Identifier: Apache-2.0
"""Read the calendar over time: the rows of a timeline, and the capacity of a period.

A page of rows takes one statement, and one for the marker. The API calls the rows bars.

One statement reads the capacity of all units and their allocations in a period. The database
groups equal units and equal allocations: a lease of a thousand equal hosts is one row.
:mod:`climate_core.calendar.series` adds them up.
"""

import dataclasses
import datetime
import functools
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import resource_types
from climate_core import exceptions, packages
from climate_core.db import calendar, events, tables
from climate_core.db.registered_units import UnitTable
from climate_core.db.sql import json_member, microseconds
from climate_core.db.tables import ALLOCATIONS, LEASES, RESERVATIONS, UNITS

#: What rows are grouped by -> the columns of their order.
ORDERS: Final[Mapping[str, tuple[sa.Column[Any], ...]]] = {
    'resource': (
        RESERVATIONS.c.resource_type,
        RESERVATIONS.c.resource_id,
        LEASES.c.start_date,
        RESERVATIONS.c.id,
    ),
    'lease': (LEASES.c.start_date, LEASES.c.id, RESERVATIONS.c.id),
}


class TimelineRow(NamedTuple):
    """A reservation and its lease.

    :param early: its end, if it is before the end of its lease
    :param freed_at: when it was released
    :param params: the params of a floating IP that its owner has created; None for others
    :param names: of its addresses or segment, as users know them
    """

    reservation_id: str
    resource_type: str
    resource_id: str
    lease_id: str
    name: str
    project_id: str
    status: str
    kind: str
    start_date: datetime.datetime
    end_date: datetime.datetime
    early: datetime.datetime | None
    freed_at: datetime.datetime | None
    params: Mapping[str, Any] | None
    names: Sequence[str] = ()

    @property
    def end(self) -> datetime.datetime:
        """Return when its resource is free again."""
        return min(each for each in (self.end_date, self.early, self.freed_at) if each)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """The time and the page of a timeline.

    :param project_id: only rows of this project; None: of all projects
    :param group_by: a key of :data:`ORDERS`
    :param marker: the id of the last reservation of the previous page
    :param lease_id: only rows of this lease
    """

    since: datetime.datetime
    until: datetime.datetime
    project_id: str | None
    group_by: str = 'resource'
    marker: str | None = None
    limit: int = 1000
    lease_id: str | None = None


_EARLY_END = events.early_end_at(RESERVATIONS)
#: In the order of the fields of :class:`TimelineRow`.
_COLUMNS = (
    RESERVATIONS.c.id,
    RESERVATIONS.c.resource_type,
    RESERVATIONS.c.resource_id,
    LEASES.c.id,
    LEASES.c.name,
    LEASES.c.project_id,
    LEASES.c.status,
    LEASES.c.kind,
    LEASES.c.start_date,
    LEASES.c.end_date,
    sa.type_coerce(_EARLY_END, tables.Time()),
    RESERVATIONS.c.freed_at,
    sa.case(
        (RESERVATIONS.c.resource_type == resource_types.HELD_FLOATING_IP, RESERVATIONS.c.params)
    ),
)
#: The columns -> the names of these fields.
_FIELDS: Final = dict(zip(_COLUMNS, TimelineRow._fields, strict=False))


def read_timeline(session: orm.Session, query: TimelineQuery) -> tuple[list[TimelineRow], bool]:
    """Read a page of rows in a period, and whether there are more.

    :raises climate_core.exceptions.BadRequest: the marker is no reservation
    """
    order = ORDERS[query.group_by]
    freed = RESERVATIONS.c.freed_at
    later = sa.and_(freed > LEASES.c.start_date, freed > query.since)
    columns = [each.label(name) for each, name in _FIELDS.items()]
    select = _select(*columns, project_id=query.project_id).where(
        LEASES.c.deleted_at.is_(None),
        LEASES.c.end_date > query.since,
        LEASES.c.start_date < query.until,
        sa.or_(freed.is_(None), later),
        sa.or_(_EARLY_END.is_(None), query.since < _EARLY_END),
    )
    if query.lease_id is not None:
        select = select.where(LEASES.c.id == query.lease_id)
    if query.marker is not None:
        select = select.where(sa.tuple_(*order) > _read_marker_row(session, query, order))
    ordered = select.order_by(*order).limit(query.limit + 1).subquery()
    found = [*_with_names(session, ordered, [_FIELDS[each] for each in order])]
    return found[: query.limit], len(found) > query.limit


def read_free_until(
    session: orm.Session, found: Iterable[TimelineRow]
) -> dict[str, datetime.datetime]:
    """Read until when no other reservation has the whole units of reservations.

    The times of preparation and cleaning are left out.

    :returns: times by the ids of reservations. Those after which nothing is allocated, that have
        only shares, or that were released, have none
    """
    bars = {each.reservation_id: each for each in found if each.freed_at is None}
    if not bars:
        return {}
    is_own = ALLOCATIONS.c.reservation_id.in_(bars)
    is_whole = ALLOCATIONS.c.piece.is_(None)
    following = sa.func.lead(ALLOCATIONS.c.start, type_=tables.Time())
    allocated = (
        sa.select(
            ALLOCATIONS.c.reservation_id,
            ALLOCATIONS.c.end,
            is_whole.label('whole'),
            following.over(partition_by=ALLOCATIONS.c.unit_id, order_by=ALLOCATIONS.c.start).label(
                'following'
            ),
        )
        .where(
            ALLOCATIONS.c.unit_id.in_(sa.select(ALLOCATIONS.c.unit_id).where(is_own, is_whole)),
            ALLOCATIONS.c.end >= min(each.end for each in bars.values()),
            ALLOCATIONS.c.released.is_not(True),
        )
        .subquery()
    )
    query = (
        sa.select(
            allocated.c.reservation_id,
            sa.func.min(allocated.c.following),
            sa.func.max(allocated.c.end),
        )
        .where(
            allocated.c.reservation_id.in_(bars),
            allocated.c.whole,
            allocated.c.following.is_not(None),
        )
        .group_by(allocated.c.reservation_id)
    )
    rows = session.execute(query).all()
    return {made: bars[made].end + (following - end) for made, following, end in rows}


def _with_names(
    session: orm.Session, page: sa.Subquery, order: Sequence[str]
) -> Iterator[TimelineRow]:
    """Read the rows of a page, with the names that the calendar has.

    :param order: the columns by which they are sorted
    """
    named = {kind for package in packages.list_packages() for kind in package.named_types}
    is_allocated = sa.and_(
        ALLOCATIONS.c.reservation_id == page.c.reservation_id,
        page.c.resource_type.in_(sorted(named)),
        sa.not_(calendar.is_released()),
    )
    query = (
        sa.select(*page.c, UNITS.c.properties)
        .select_from(page)
        .outerjoin(ALLOCATIONS, is_allocated)
        .outerjoin(UNITS, UNITS.c.id == ALLOCATIONS.c.unit_id)
        .order_by(*(page.c[name] for name in order), ALLOCATIONS.c.unit_id)
    )
    rows = session.execute(query).mappings()
    for _, same in itertools.groupby(rows, operator.itemgetter('reservation_id')):
        listed = [*same]
        bar = TimelineRow(*(listed[0][name] for name in TimelineRow._fields[:-1]))
        held = (bar.params or {}).get('floatingips', ())
        units = [row['properties'] for row in listed if row['properties'] is not None]
        allocated = [
            package.name_unit(bar.resource_type, unit)
            for package in packages.list_packages()
            if bar.resource_type in package.named_types
            for unit in units
        ]
        yield bar._replace(names=[*held, *dict.fromkeys(allocated)])


def _select(*columns: Any, project_id: str | None) -> sa.Select[Any]:
    query = sa.select(*columns).join_from(
        RESERVATIONS, LEASES, RESERVATIONS.c.lease_id == LEASES.c.id
    )
    return query if project_id is None else query.where(LEASES.c.project_id == project_id)


def _read_marker_row(
    session: orm.Session, query: TimelineQuery, order: tuple[sa.Column[Any], ...]
) -> sa.Tuple:
    """Read the sort keys of the marker, which may be deleted by now."""
    mine = _select(*order, project_id=query.project_id).where(RESERVATIONS.c.id == query.marker)
    found = session.execute(mine).first()
    if found is None:
        message = f'marker: there is no reservation {query.marker} to continue after.'
        raise exceptions.BadRequest(message, field='marker')
    values = zip(found, order, strict=True)
    return sa.tuple_(*(sa.literal(value, column.type) for value, column in values))


#: The columns of units that are grouped if these are equal; JSON as it is stored.
_EQUAL_COLUMNS = (
    UNITS.c.kind.label('kind'),
    UNITS.c.pool.label('pool'),
    UNITS.c.available.label('available'),
    sa.type_coerce(UNITS.c.capacity, sa.Text).label('capacity'),
    sa.type_coerce(UNITS.c.access, sa.Text).label('access'),
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
    """Allocations of equal units for the same time; the times are numbers.

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
    grouped = [each for each in packages.find_unit_tables().values() if each.groups_capacity]
    for number, name in enumerate(query.properties):
        hidden: list[sa.ColumnElement[bool]] = [
            UNITS.c.kind.not_in([units.kind for units in grouped])
        ]
        if not query.private:
            hidden += [_is_private(units, name) for units in grouped]
        text = json_member(sa.type_coerce(UNITS.c.properties, sa.Text), sa.literal(name))
        columns.append(
            sa.case((sa.or_(*hidden), sa.null()), else_=text).label(f'property{number}')
        )
    return columns


def _is_private(units: UnitTable[Any], name: str) -> sa.ColumnElement[bool]:
    """Return the condition for units of a kind whose property users may not see."""
    names = units.properties
    assert names is not None, 'these units have properties'  # nosec B101 # for mypy: it holds already
    of_name = sa.select(names.c.name).where(names.c.name == name, names.c.private.is_(True))
    return sa.and_(UNITS.c.kind == units.kind, of_name.exists())


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
    own = sa.case((LEASES.c.project_id == query.project_id, 1), else_=0)
    each = (
        sa.select(
            *shown,
            sa.case((ALLOCATIONS.c.piece.is_(None), 0), else_=UNITS.c.id).label('unit_id'),
            microseconds(ALLOCATIONS.c.start).label('start'),
            microseconds(ALLOCATIONS.c.end).label('end'),
            sa.type_coerce(ALLOCATIONS.c.piece, sa.Text).label('piece'),
            ALLOCATIONS.c.pieces.label('pieces'),
            own.label('own'),
        )
        .join_from(ALLOCATIONS, UNITS, ALLOCATIONS.c.unit_id == UNITS.c.id)
        .join(RESERVATIONS, ALLOCATIONS.c.reservation_id == RESERVATIONS.c.id)
        .join(LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .where(ALLOCATIONS.c.end > query.since, ALLOCATIONS.c.start < query.until)
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
