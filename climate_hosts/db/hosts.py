# SPDX-License-Identifier: Apache-2.0
"""The tables of hosts and their pools; read and write hosts and pools."""

import dataclasses
import datetime
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_common.limits import NAME_LENGTH
from climate_core import exceptions
from climate_core.db import calendar, sql, tables
from climate_core.db.engine import Stale, signal
from climate_core.db.registered_units import UnitTable
from climate_core.db.tables import ALLOCATIONS, LEASES, RESERVATIONS, UNITS
from climate_hosts import hosts, nodes
from climate_hosts.hosts import State

#: A host of a pool: its unit, as Nova and Placement report it. ``details`` is what they report,
#: ``extra`` what the operator adds.
_HOST = tables.define_table(
    'hosts',
    tables.unit_id_column('hosts', primary_key=True),
    tables.required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    tables.required('service_name', sa.String(NAME_LENGTH)),
    tables.required('provider_id', tables.Uuid),
    tables.required('lane_ids', tables.Json),
    tables.required('details', tables.Json),
    tables.required('extra', tables.Json),
    # See climate_hosts.hosts.State.
    tables.required('state', sa.String(16), server_default='enrolled'),
    sa.Column('disabled_reason', sa.Text),
    # The lease for which a shared host is drained.
    sa.Column('emptied_for', tables.Uuid),
    # Whether ordinary servers may run there until a lease needs it; NULL: never.
    sa.Column('open_to_unreserved', sa.Boolean),
    # See climate_hosts.power.states: the state, since when, when it was last powered off, whether
    # an operator keeps it on, and how many seconds it took to power on.
    sa.Column('power', sa.String(16)),
    sa.Column('power_since', tables.Time),
    sa.Column('slept_at', tables.Time),
    tables.required('kept_on', sa.Boolean, server_default='0'),
    sa.Column('wake_seconds', sa.Integer),
    tables.required('created_at', tables.Time),
    sa.Column('updated_at', tables.Time),
    sa.UniqueConstraint('hypervisor_hostname', name='hosts_hypervisor_hostname_key'),
    # Whether ordinary servers are to be kept off a host: each time that its aggregate is written.
    sa.Index('hosts_provider_idx', 'provider_id'),
)

#: The time for which a host was off; ``end`` is NULL while it is. It is retained when the host is
#: deleted: the saved energy still counts.
HOST_SLEEPS = tables.define_table(
    'host_sleeps',
    tables.required('id', tables.Serial, primary_key=True),
    tables.required('unit_id', tables.Serial),
    tables.required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    tables.required('start', tables.Time),
    sa.Column('end', tables.Time),
    # The time of a host that is powered on.
    sa.Index('host_sleeps_unit_idx', 'unit_id', 'start'),
    # How long hosts were off in a period.
    sa.Index('host_sleeps_end_idx', 'end', 'start'),
)

#: A pool of hosts, and who may use it; NULL: all projects. Its units have the same. ``generation``
#: counts the changes.
HOST_POOLS = tables.define_table(
    'host_pools',
    tables.required('name', tables.Name, primary_key=True),
    sa.Column('access', tables.Json),
    tables.required('generation', sa.Integer, server_default='0'),
)

#: A property of hosts that users may not see, or may.
_PROPERTIES = tables.define_table(
    'host_properties',
    tables.required('name', tables.Name, primary_key=True),
    tables.required('private', sa.Boolean),
)

HOSTS: Final = UnitTable(
    kind=hosts.KIND,
    record=hosts.Host,
    table=_HOST,
    unit_columns=('pool', 'available', 'capacity'),
    allocation_columns=(
        'hypervisor_hostname',
        'service_name',
        'provider_id',
        'lane_ids',
        'power',
    ),
    unknown_unit=exceptions.HostNotFound,
    properties=_PROPERTIES,
    unknown_property=exceptions.HostPropertyNotFound,
    groups_capacity=True,
)


def find(session: orm.Session, hypervisor_hostname: str) -> hosts.Host | None:
    """Read the host with a name; None if there is none."""
    found = HOSTS.find(session, _HOST.c.hypervisor_hostname == hypervisor_hostname)
    return found[0] if found else None


def lock(session: orm.Session, host_id: int, *states: State) -> hosts.Host | None:
    """Return a host with its row locked; None: it is gone, or in none of the states.

    :param states: none for any state
    """
    found = HOSTS.find(session, _HOST.c.unit_id == host_id, lock=True)
    return found[0] if found and (not states or found[0].state in states) else None


def change_state(
    session: orm.Session,
    host_id: int,
    states: Collection[State],
    state: State,
    available: bool | None = None,
    **columns: Any,
) -> bool:
    """Change the state of a host; return whether it was in one of the states before.

    :param available: whether it takes allocations from now on; None: as before
    :param columns: further columns of its row
    """
    if lock(session, host_id, *states) is None:
        return False
    unit = {} if available is None else {'available': available}
    HOSTS.update(session, host_id, unit, {'state': state, **columns})
    return True


def mark_failed(session: orm.Session, host_id: int, reason: str) -> bool:
    """Set the state of a host to FAILED, unless it takes no allocations for another reason.

    :returns: whether anything was written
    """
    host = lock(session, host_id)
    if host is None or not (host.available or (host.failed and host.disabled_reason != reason)):
        return False
    failed = {'state': State.FAILED, 'disabled_reason': reason}
    HOSTS.update(session, host_id, {'available': False}, failed)
    return True


def insert(
    session: orm.Session,
    pool: str,
    provider_id: str,
    lane_ids: tuple[str, ...],
    node: nodes.Node,
    extra: Mapping[str, Any],
    state: State = State.ENROLLED,
    available: bool = True,
    open_to_unreserved: bool | None = None,
) -> int:
    """Write a new host and its unit; return its id.

    :raises oslo_db.exception.DBDuplicateEntry: there is a host with this name
    """
    unit = {
        'pool': pool,
        'access': lock_pool_access(session, pool),
        'available': available,
        'capacity': node.capacity,
        'lanes': len(lane_ids),
        'properties': node.properties(extra),
    }
    row = {
        'hypervisor_hostname': node.hypervisor_hostname,
        'service_name': node.service_name,
        'provider_id': provider_id,
        'lane_ids': list(lane_ids),
        'details': node.details,
        'extra': dict(extra),
        'state': state,
        'open_to_unreserved': open_to_unreserved,
    }
    return HOSTS.insert(session, unit, row)


def lock_pool_access(session: orm.Session, pool: str) -> dict[str, Any] | None:
    """Return which projects may use a pool, and lock it until the end of the transaction.

    :raises climate_core.db.engine.Stale: another transaction has just created its row
    """
    found: dict[str, Any] | None = _lock_pool(session, pool).access
    return found


def _lock_pool(session: orm.Session, pool: str) -> sa.Row[Any]:
    """Return ``access`` and ``generation`` of a pool, whose row is locked."""
    query = sa.select(HOST_POOLS.c.access, HOST_POOLS.c.generation).where(
        HOST_POOLS.c.name == pool
    )
    row = session.execute(query.with_for_update()).first()
    if row is not None:
        return row
    try:
        sql.insert(session, HOST_POOLS, [{'name': pool, 'access': None, 'generation': 0}])
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
    sql.change(session, sa.update(HOST_POOLS).where(HOST_POOLS.c.name == pool).values(changed))
    counted = {'generation': UNITS.c.generation + 1, 'changed_at': sql.now(session)}
    units = sa.update(UNITS).where(UNITS.c.pool == pool, UNITS.c.kind == hosts.KIND)
    sql.change(session, units.values(access=value, **counted))


def delete_pool(session: orm.Session, name: str) -> None:
    """Delete a pool that has no hosts, and its list of projects.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    :raises climate_core.exceptions.HostPoolInUse: it has hosts
    """
    # A host is added only by a transaction that has locked the row of the pool.
    query = sa.select(HOST_POOLS.c.name).where(HOST_POOLS.c.name == name).with_for_update()
    session.execute(query).first()
    found = get_pool(session, name)
    if found.hosts:
        raise exceptions.HostPoolInUse(
            f'Pool {name} has {words.counted(found.hosts, "host")}: move all to another pool, or '
            'remove them.'
        )
    sql.change(session, sa.delete(HOST_POOLS).where(HOST_POOLS.c.name == name))


def list_pools(session: orm.Session) -> list[hosts.Pool]:
    """Read all pools, in the order of their names, with the numbers of their hosts."""
    return _read_pools(session, sa.true(), sa.true())


def get_pool(session: orm.Session, name: str) -> hosts.Pool:
    """Read one pool.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    """
    found = _read_pools(session, UNITS.c.pool == name, HOST_POOLS.c.name == name)
    if not found:
        raise exceptions.HostPoolNotFound(f'There is no pool {name}.')
    return found[0]


def _read_pools(
    session: orm.Session, unit: sa.ColumnElement[bool], pool: sa.ColumnElement[bool]
) -> list[hosts.Pool]:
    counted = sa.select(UNITS.c.pool, sa.func.count()).where(UNITS.c.kind == hosts.KIND, unit)
    numbers = {row[0]: row[1] for row in session.execute(counted.group_by(UNITS.c.pool))}
    known = {row.name: row for row in session.execute(sa.select(HOST_POOLS).where(pool))}
    return [
        _read_pool(name, numbers.get(name, 0), known.get(name))
        for name in sorted({*numbers, *known})
    ]


def _read_pool(name: str, count: int, row: sa.Row[Any] | None) -> hosts.Pool:
    if row is None:
        return hosts.Pool(name, count)
    return hosts.Pool(name, count, generation=row.generation, **(row.access or {}))


#: Maximum number of allocations that are read; a page with more ends before.
MAX_BARS: Final = 20_000


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


def read_timeline(
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
    page = (
        sa.select(UNITS.c.id, _HOST.c.hypervisor_hostname, UNITS.c.pool, UNITS.c.available)
        .join_from(_HOST, UNITS, _HOST.c.unit_id == UNITS.c.id)
        .where(UNITS.c.id > marker)
        .order_by(UNITS.c.id)
        .limit(limit + 1)
        .subquery()
    )
    is_allocated = sa.and_(
        ALLOCATIONS.c.unit_id == page.c.id,
        ALLOCATIONS.c.end > since,
        ALLOCATIONS.c.start < until,
    )
    query = (
        sa.select(
            *page.c,
            RESERVATIONS.c.id.label('reservation_id'),
            LEASES.c.id.label('lease_id'),
            LEASES.c.name,
            LEASES.c.project_id,
            LEASES.c.status,
            ALLOCATIONS.c.start,
            ALLOCATIONS.c.end,
        )
        .select_from(page)
        .outerjoin(ALLOCATIONS, is_allocated)
        .outerjoin(RESERVATIONS, ALLOCATIONS.c.reservation_id == RESERVATIONS.c.id)
        .outerjoin(LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .order_by(page.c.id, ALLOCATIONS.c.start, RESERVATIONS.c.id)
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
