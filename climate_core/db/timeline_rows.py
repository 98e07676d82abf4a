# SPDX-License-Identifier: Apache-2.0
"""Read reservations and hosts as the rows of a timeline: one statement, and one for the marker.

The API calls the rows bars.
"""

import dataclasses
import datetime
import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import resource_types
from climate_core import exceptions, packages
from climate_core.db import allocations, events, tables
from climate_core.lease.model import HOST_KIND

_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS
_UNIT, _ALLOCATION = tables.UNITS, tables.ALLOCATIONS

#: What rows are grouped by -> the columns of their order.
ORDERS: Final[Mapping[str, tuple[sa.Column[Any], ...]]] = {
    'resource': (
        _RESERVATION.c.resource_type,
        _RESERVATION.c.resource_id,
        _LEASE.c.start_date,
        _RESERVATION.c.id,
    ),
    'lease': (_LEASE.c.start_date, _LEASE.c.id, _RESERVATION.c.id),
}
#: Maximum number of allocations of hosts that are read; a page with more ends before.
MAX_BARS: Final = 20_000


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


class HostAllocation(NamedTuple):
    """An allocation of a host, whose times include its preparation and cleaning."""

    reservation_id: str
    lease_id: str
    name: str
    project_id: str
    status: str
    start: datetime.datetime
    end: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class HostRow:
    """A host and its allocations."""

    id: int
    hypervisor_hostname: str
    pool: str
    available: bool
    bars: list[HostAllocation]


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


_EARLY_END = events.early_end_at(_RESERVATION)
#: In the order of the fields of :class:`TimelineRow`.
_COLUMNS = (
    _RESERVATION.c.id,
    _RESERVATION.c.resource_type,
    _RESERVATION.c.resource_id,
    _LEASE.c.id,
    _LEASE.c.name,
    _LEASE.c.project_id,
    _LEASE.c.status,
    _LEASE.c.kind,
    _LEASE.c.start_date,
    _LEASE.c.end_date,
    sa.type_coerce(_EARLY_END, tables.Time()),
    _RESERVATION.c.freed_at,
    sa.case(
        (_RESERVATION.c.resource_type == resource_types.HELD_FLOATING_IP, _RESERVATION.c.params)
    ),
)
#: The columns -> the names of these fields.
_FIELDS: Final = dict(zip(_COLUMNS, TimelineRow._fields, strict=False))


def read_page(session: orm.Session, query: TimelineQuery) -> tuple[list[TimelineRow], bool]:
    """Read a page of rows in a period, and whether there are more.

    :raises climate_core.exceptions.BadRequest: the marker is no reservation
    """
    order = ORDERS[query.group_by]
    freed = _RESERVATION.c.freed_at
    later = sa.and_(freed > _LEASE.c.start_date, freed > query.since)
    columns = [each.label(name) for each, name in _FIELDS.items()]
    select = _select(*columns, project_id=query.project_id).where(
        _LEASE.c.deleted_at.is_(None),
        _LEASE.c.end_date > query.since,
        _LEASE.c.start_date < query.until,
        sa.or_(freed.is_(None), later),
        sa.or_(_EARLY_END.is_(None), query.since < _EARLY_END),
    )
    if query.lease_id is not None:
        select = select.where(_LEASE.c.id == query.lease_id)
    if query.marker is not None:
        select = select.where(sa.tuple_(*order) > _read_marker(session, query, order))
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
    is_own = _ALLOCATION.c.reservation_id.in_(bars)
    is_whole = _ALLOCATION.c.piece.is_(None)
    following = sa.func.lead(_ALLOCATION.c.start, type_=tables.Time())
    allocated = (
        sa.select(
            _ALLOCATION.c.reservation_id,
            _ALLOCATION.c.end,
            is_whole.label('whole'),
            following.over(partition_by=_ALLOCATION.c.unit_id, order_by=_ALLOCATION.c.start).label(
                'following'
            ),
        )
        .where(
            _ALLOCATION.c.unit_id.in_(sa.select(_ALLOCATION.c.unit_id).where(is_own, is_whole)),
            _ALLOCATION.c.end >= min(each.end for each in bars.values()),
            _ALLOCATION.c.released.is_not(True),
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
        _ALLOCATION.c.reservation_id == page.c.reservation_id,
        page.c.resource_type.in_(sorted(named)),
        sa.not_(allocations.is_released()),
    )
    query = (
        sa.select(*page.c, _UNIT.c.properties)
        .select_from(page)
        .outerjoin(_ALLOCATION, is_allocated)
        .outerjoin(_UNIT, _UNIT.c.id == _ALLOCATION.c.unit_id)
        .order_by(*(page.c[name] for name in order), _ALLOCATION.c.unit_id)
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
        _RESERVATION, _LEASE, _RESERVATION.c.lease_id == _LEASE.c.id
    )
    return query if project_id is None else query.where(_LEASE.c.project_id == project_id)


def _read_marker(
    session: orm.Session, query: TimelineQuery, order: tuple[sa.Column[Any], ...]
) -> sa.Tuple:
    """Read the sort keys of the marker, which may be deleted by now."""
    mine = _select(*order, project_id=query.project_id).where(_RESERVATION.c.id == query.marker)
    found = session.execute(mine).first()
    if found is None:
        message = f'marker: there is no reservation {query.marker} to go on after.'
        raise exceptions.BadRequest(message, field='marker')
    values = zip(found, order, strict=True)
    return sa.tuple_(*(sa.literal(value, column.type) for value, column in values))


def read_host_page(
    session: orm.Session,
    since: datetime.datetime,
    until: datetime.datetime,
    marker: int,
    limit: int,
) -> tuple[list[HostRow], bool]:
    """Read hosts with their allocations in a period, and whether there are more hosts.

    A page ends before a host with which it would have more than :data:`MAX_BARS` allocations.

    :raises climate_core.exceptions.BadRequest: a single host has more
    """
    host = packages.find_unit_tables()[HOST_KIND].table
    hosts = (
        sa.select(_UNIT.c.id, host.c.hypervisor_hostname, _UNIT.c.pool, _UNIT.c.available)
        .join_from(host, _UNIT, host.c.unit_id == _UNIT.c.id)
        .where(_UNIT.c.id > marker)
        .order_by(_UNIT.c.id)
        .limit(limit + 1)
        .subquery()
    )
    is_allocated = sa.and_(
        _ALLOCATION.c.unit_id == hosts.c.id,
        _ALLOCATION.c.end > since,
        _ALLOCATION.c.start < until,
    )
    query = (
        sa.select(
            *hosts.c,
            _RESERVATION.c.id.label('reservation_id'),
            _LEASE.c.id.label('lease_id'),
            _LEASE.c.name,
            _LEASE.c.project_id,
            _LEASE.c.status,
            _ALLOCATION.c.start,
            _ALLOCATION.c.end,
        )
        .select_from(hosts)
        .outerjoin(_ALLOCATION, is_allocated)
        .outerjoin(_RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .outerjoin(_LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .order_by(hosts.c.id, _ALLOCATION.c.start, _RESERVATION.c.id)
        .limit(MAX_BARS + 1)
    )
    rows = session.execute(query).all()
    found: dict[int, HostRow] = {}
    for host_id, name, pool, available, *bar in rows:
        host = found.setdefault(host_id, HostRow(host_id, name, pool, available, []))
        if bar[0] is not None:
            host.bars.append(HostAllocation(*bar))
    whole = list(found.values())
    if len(rows) > MAX_BARS:
        # The last host may have more allocations.
        whole.pop()
        if not whole:
            raise exceptions.BadRequest(
                f'to: must be earlier: a host has more than {MAX_BARS} bars in this time.',
                field='to',
            )
        return whole[:limit], True
    return whole[:limit], len(whole) > limit
