# SPDX-License-Identifier: Apache-2.0
"""Read and write the hosts of the pools, and the pools.

A host is a unit of the calendar and what is known of it. Each change of a unit increments
its generation and sets ``changed_at``, so that no allocation relies on an outdated unit and
the indexes of all managers read it again.
"""

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.db import allocations, calendar, rows, sql, tables
from climate_core.db.engine import Database, Stale, signal
from climate_core.db.extra_properties import ExtraProperties
from climate_core.lease import states, unit_properties
from climate_hosts.domain import hosts
from climate_hosts.domain.power import PowerState

EXTRA_PROPERTIES: Final = ExtraProperties(
    tables.HOSTS, tables.HOST_PROPERTIES, 'host', exceptions.HostPropertyNotFound
)

_UNIT, _HOST, _POOL = tables.UNITS, tables.HOSTS, tables.HOST_POOLS
_ALLOCATION, _LEASE, _RESERVATION = tables.ALLOCATIONS, tables.LEASES, tables.RESERVATIONS

_LIVE = [str(status) for status in states.LIVE]

_OF_UNIT = ('id', 'pool', 'available', 'capacity')
_OF_HOST = (
    'hypervisor_hostname',
    'service_name',
    'provider_id',
    'lane_ids',
    'details',
    'extra',
    'state',
    'disabled_reason',
    'emptied_for',
    'open_to_unreserved',
    'power',
    'power_since',
    'kept_on',
    'wake_seconds',
    'created_at',
    'updated_at',
)
_COLUMNS = (
    *(_UNIT.c[name] for name in _OF_UNIT),
    *(_HOST.c[name].label(name) for name in _OF_HOST),
)
_ALL = sa.select(*_COLUMNS).join_from(_HOST, _UNIT, _HOST.c.unit_id == _UNIT.c.id)


def get(session: orm.Session, host_id: int, lock: bool = False) -> hosts.Host:
    """Read one host.

    :param lock: lock the row until the end of the transaction
    :raises climate_core.exceptions.HostNotFound: there is none
    """
    query = _ALL.where(_UNIT.c.id == host_id)
    row = session.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise exceptions.HostNotFound(f'Host {host_id} was not found.')
    return _read(row)


def find(session: orm.Session, hypervisor_hostname: str) -> hosts.Host | None:
    """Read the host with a name; None if there is none."""
    query = _ALL.where(_HOST.c.hypervisor_hostname == hypervisor_hostname)
    row = session.execute(query).mappings().first()
    return None if row is None else _read(row)


def _read(row: Mapping[Any, Any]) -> hosts.Host:
    read = {
        'lane_ids': tuple(row['lane_ids']),
        'state': hosts.State(row['state']),
        'power': PowerState(row['power']) if row['power'] else None,
        'kept_on': bool(row['kept_on']),
    }
    return hosts.Host(**{**row, **read})


def insert(
    session: orm.Session,
    pool: str,
    provider_id: str,
    lane_ids: tuple[str, ...],
    known: unit_properties.Node,
    extra: Mapping[str, Any],
    state: hosts.State = hosts.State.ENROLLED,
    available: bool = True,
    open_to_unreserved: bool | None = None,
) -> int:
    """Write a new host and its unit; return its id.

    :raises oslo_db.exception.DBDuplicateEntry: there is a host with this name
    """
    signal(session, calendar.FREED)
    now = sql.now(session)
    unit = {
        'kind': hosts.KIND,
        'pool': pool,
        'access': lock_pool_access(session, pool),
        'available': available,
        'capacity': known.capacity,
        'lanes': len(lane_ids),
        'properties': known.properties(extra),
        'generation': 0,
        'changed_at': now,
    }
    connection = session.connection()
    made = connection.execute(sa.insert(_UNIT).values(unit)).inserted_primary_key
    assert made is not None  # nosec B101 # for mypy: it holds already
    host = {
        'unit_id': made[0],
        'hypervisor_hostname': known.hypervisor_hostname,
        'service_name': known.service_name,
        'provider_id': provider_id,
        'lane_ids': list(lane_ids),
        'details': known.details,
        'extra': dict(extra),
        'state': state,
        'open_to_unreserved': open_to_unreserved,
        'created_at': now,
    }
    connection.execute(sa.insert(_HOST).values(host))
    return int(made[0])


def update(
    session: orm.Session, host_id: int, unit: Mapping[str, Any], host: Mapping[str, Any]
) -> None:
    """Change columns of a host and of its unit.

    :raises climate_core.exceptions.HostNotFound: there is none any more
    """
    signal(session, calendar.FREED)
    now = sql.now(session)
    counted = {'generation': _UNIT.c.generation + 1, 'changed_at': now, **unit}
    mine = sa.update(_UNIT).where(_UNIT.c.id == host_id, _UNIT.c.kind == hosts.KIND)
    if not rows.change(session, mine.values(counted)):
        raise exceptions.HostNotFound(f'Host {host_id} was not found.')
    stamped = {'updated_at': now, **host}
    rows.change(session, sa.update(_HOST).where(_HOST.c.unit_id == host_id).values(stamped))


def refresh(session: orm.Session, host_id: int, known: unit_properties.Node) -> None:
    """Update a host to its description by Nova and Placement, if that differs."""
    host = get(session, host_id, lock=True)
    if host.knows(known):
        return
    unit = {'capacity': known.capacity, 'properties': known.properties(host.extra)}
    update(
        session,
        host_id,
        unit,
        {
            'hypervisor_hostname': known.hypervisor_hostname,
            'service_name': known.service_name,
            'details': known.details,
        },
    )


def mark_failed(session: orm.Session, host_id: int, reason: str) -> bool:
    """Set the state of a host to FAILED, unless it takes no allocations for another reason.

    :returns: whether anything was written
    """
    host = get(session, host_id, lock=True)
    if not host.available and (not host.failed or host.disabled_reason == reason):
        return False
    failed = {'state': hosts.State.FAILED, 'disabled_reason': reason}
    update(session, host_id, {'available': False}, failed)
    return True


def mark_recovered(session: orm.Session, host_id: int) -> bool:
    """Let a host that failed take allocations again; return whether anything was written."""
    host = get(session, host_id, lock=True)
    if not host.failed:
        return False
    enrolled = {'state': hosts.State.ENROLLED, 'disabled_reason': None}
    update(session, host_id, {'available': True}, enrolled)
    return True


def delete(session: orm.Session, host_id: int) -> None:
    """Delete a host with its unit and its allocations; it may be gone already."""
    mine = sa.delete(_UNIT).where(_UNIT.c.id == host_id, _UNIT.c.kind == hosts.KIND)
    rows.change(session, mine)


def is_isolated(session: orm.Session, provider_id: str) -> bool:
    """Return whether ordinary servers are to be kept off a host.

    :param provider_id: its root provider in Placement
    """
    found = session.execute(_ALL.where(_HOST.c.provider_id == provider_id)).mappings()
    return any(_read(row).is_isolated for row in found)


@dataclasses.dataclass(frozen=True, slots=True)
class HostQuery:
    """The filters and the page of a listing of hosts, which are in the order of their ids.

    :param marker: the id of the last host of the page before
    :param limit: the maximum number of hosts
    """

    pool: str | None = None
    available: bool | None = None
    hypervisor_hostname: str | None = None
    service_name: str | None = None
    marker: int = 0
    limit: int = 1000


def list_page(session: orm.Session, query: HostQuery) -> tuple[list[hosts.Host], bool]:
    """Read a page of hosts, and whether there are more; one statement."""
    wanted = {
        _UNIT.c.pool: query.pool,
        _UNIT.c.available: query.available,
        _HOST.c.hypervisor_hostname: query.hypervisor_hostname,
        _HOST.c.service_name: query.service_name,
    }
    where = [column == value for column, value in wanted.items() if value is not None]
    select = _ALL.where(_UNIT.c.id > query.marker, *where).order_by(_UNIT.c.id)
    found = session.execute(select.limit(query.limit + 1)).mappings().all()
    return [_read(row) for row in found[: query.limit]], len(found) > query.limit


def iterate_all(database: Database) -> Iterator[hosts.Host]:
    """Yield all hosts, page by page."""
    query = HostQuery()
    more = True
    while more:
        page, more = database.read(list_page, query)
        yield from page
        query = dataclasses.replace(query, marker=page[-1].id) if page else query


def exist(session: orm.Session) -> bool:
    """Return whether there is any host."""
    return session.execute(sa.select(_HOST.c.unit_id).limit(1)).first() is not None


@dataclasses.dataclass(frozen=True, slots=True)
class HostAllocation:
    """A live reservation that a host is allocated to, in the time of its lease."""

    host_id: int
    reservation_id: str
    lease_id: str
    lease_name: str
    start_date: datetime.datetime
    end_date: datetime.datetime


def list_allocations(
    session: orm.Session,
    host_ids: Collection[int],
    lease_id: str | None = None,
    reservation_id: str | None = None,
) -> list[HostAllocation]:
    """Read the live reservations that hosts are allocated to, by time; one statement."""
    query = (
        sa.select(
            _ALLOCATION.c.unit_id,
            _RESERVATION.c.id,
            _LEASE.c.id,
            _LEASE.c.name,
            _LEASE.c.start_date,
            _LEASE.c.end_date,
        )
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .join(_LEASE, _RESERVATION.c.lease_id == _LEASE.c.id)
        .where(
            _ALLOCATION.c.unit_id.in_(host_ids),
            _RESERVATION.c.status.in_(_LIVE),
            sa.not_(allocations.is_released()),
        )
        .order_by(_LEASE.c.start_date, _RESERVATION.c.id)
    )
    if lease_id is not None:
        query = query.where(_LEASE.c.id == lease_id)
    if reservation_id is not None:
        query = query.where(_RESERVATION.c.id == reservation_id)
    return [HostAllocation(*row) for row in session.execute(query)]


def lock_pool_access(session: orm.Session, pool: str) -> dict[str, Any] | None:
    """Return which projects may use a pool, and lock it until the end of the transaction.

    :raises climate_core.db.engine.Stale: another transaction has just created its row
    """
    found: dict[str, Any] | None = _lock_pool(session, pool).access
    return found


def _lock_pool(session: orm.Session, pool: str) -> sa.Row[Any]:
    """Return ``access`` and ``generation`` of a pool, whose row is locked."""
    query = sa.select(_POOL.c.access, _POOL.c.generation).where(_POOL.c.name == pool)
    row = session.execute(query.with_for_update()).first()
    if row is not None:
        return row
    try:
        rows.insert(session, _POOL, [{'name': pool, 'access': None, 'generation': 0}])
    except db_exc.DBDuplicateEntry as exc:
        raise Stale(f'pool {pool}') from exc
    return session.execute(query).one()


def set_pool_access(
    session: orm.Session,
    pool: str,
    value: Mapping[str, Any] | None,
    generation: int | None = None,
) -> None:
    """Set which projects may use a pool; allocations of its hosts stay.

    :param value: as :class:`climate_core.calendar.model.Access` dumps it; None: all projects
    :param generation: that the pool must have, 0 if access was never set; None: any
    :raises climate_core.exceptions.HostPoolChanged: it has another one
    """
    present = _lock_pool(session, pool).generation
    if generation not in (None, present):
        raise exceptions.HostPoolChanged(
            f'Pool {pool} has generation {present} by now, not {generation}. Read it again.',
            field='generation',
        )
    signal(session, calendar.FREED)
    changed = {'access': value, 'generation': present + 1}
    rows.change(session, sa.update(_POOL).where(_POOL.c.name == pool).values(changed))
    counted = {'generation': _UNIT.c.generation + 1, 'changed_at': sql.now(session)}
    units = sa.update(_UNIT).where(_UNIT.c.pool == pool, _UNIT.c.kind == hosts.KIND)
    rows.change(session, units.values(access=value, **counted))


def delete_pool(session: orm.Session, name: str) -> None:
    """Delete a pool that has no hosts, and its list of projects.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    :raises climate_core.exceptions.HostPoolInUse: it has hosts
    """
    # A host is added only by a transaction that has locked the row of the pool.
    query = sa.select(_POOL.c.name).where(_POOL.c.name == name).with_for_update()
    session.execute(query).first()
    found = get_pool(session, name)
    if found.hosts:
        raise exceptions.HostPoolInUse(
            f'Pool {name} has {words.counted(found.hosts, "host")}: put all into another pool, or '
            'take them out.'
        )
    rows.change(session, sa.delete(_POOL).where(_POOL.c.name == name))


def list_pools(session: orm.Session) -> list[hosts.Pool]:
    """Read all pools, in the order of their names, with the numbers of their hosts."""
    return _read_pools(session, sa.true(), sa.true())


def get_pool(session: orm.Session, name: str) -> hosts.Pool:
    """Read one pool.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    """
    found = _read_pools(session, _UNIT.c.pool == name, _POOL.c.name == name)
    if not found:
        raise exceptions.HostPoolNotFound(f'There is no pool {name}.')
    return found[0]


def _read_pools(
    session: orm.Session, unit: sa.ColumnElement[bool], pool: sa.ColumnElement[bool]
) -> list[hosts.Pool]:
    counted = sa.select(_UNIT.c.pool, sa.func.count()).where(_UNIT.c.kind == hosts.KIND, unit)
    numbers = {row[0]: row[1] for row in session.execute(counted.group_by(_UNIT.c.pool))}
    known = {row.name: row for row in session.execute(sa.select(_POOL).where(pool))}
    return [
        _read_pool(name, numbers.get(name, 0), known.get(name))
        for name in sorted({*numbers, *known})
    ]


def _read_pool(name: str, count: int, row: sa.Row[Any] | None) -> hosts.Pool:
    if row is None:
        return hosts.Pool(name, count)
    return hosts.Pool(name, count, generation=row.generation, **(row.access or {}))
