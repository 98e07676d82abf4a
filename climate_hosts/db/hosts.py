# SPDX-License-Identifier: Apache-2.0
"""Read and write the hosts of the pools, and the pools."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.db import calendar, sql
from climate_core.db.engine import Stale, signal
from climate_core.db.registered_units import UnitTable
from climate_core.db.tables import UNITS
from climate_hosts import hosts, nodes
from climate_hosts.db import tables

_HOST, _POOL = tables.HOSTS, tables.HOST_POOLS

HOSTS: Final = UnitTable(
    kind=hosts.KIND,
    record=hosts.Host,
    table=tables.HOSTS,
    unit_columns=('pool', 'available', 'capacity'),
    allocation_columns=(
        'hypervisor_hostname',
        'service_name',
        'provider_id',
        'lane_ids',
        'power',
    ),
    unknown_unit=exceptions.HostNotFound,
    properties=tables.HOST_PROPERTIES,
    unknown_property=exceptions.HostPropertyNotFound,
)


def find(session: orm.Session, hypervisor_hostname: str) -> hosts.Host | None:
    """Read the host with a name; None if there is none."""
    found = HOSTS.find(session, _HOST.c.hypervisor_hostname == hypervisor_hostname)
    return found[0] if found else None


def insert(
    session: orm.Session,
    pool: str,
    provider_id: str,
    lane_ids: tuple[str, ...],
    known: nodes.Node,
    extra: Mapping[str, Any],
    state: hosts.State = hosts.State.ENROLLED,
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
        'capacity': known.capacity,
        'lanes': len(lane_ids),
        'properties': known.properties(extra),
    }
    row = {
        'hypervisor_hostname': known.hypervisor_hostname,
        'service_name': known.service_name,
        'provider_id': provider_id,
        'lane_ids': list(lane_ids),
        'details': known.details,
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
    query = sa.select(_POOL.c.access, _POOL.c.generation).where(_POOL.c.name == pool)
    row = session.execute(query.with_for_update()).first()
    if row is not None:
        return row
    try:
        sql.insert(session, _POOL, [{'name': pool, 'access': None, 'generation': 0}])
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
    sql.change(session, sa.update(_POOL).where(_POOL.c.name == pool).values(changed))
    counted = {'generation': UNITS.c.generation + 1, 'changed_at': sql.now(session)}
    units = sa.update(UNITS).where(UNITS.c.pool == pool, UNITS.c.kind == hosts.KIND)
    sql.change(session, units.values(access=value, **counted))


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
    sql.change(session, sa.delete(_POOL).where(_POOL.c.name == name))


def list_pools(session: orm.Session) -> list[hosts.Pool]:
    """Read all pools, in the order of their names, with the numbers of their hosts."""
    return _read_pools(session, sa.true(), sa.true())


def get_pool(session: orm.Session, name: str) -> hosts.Pool:
    """Read one pool.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    """
    found = _read_pools(session, UNITS.c.pool == name, _POOL.c.name == name)
    if not found:
        raise exceptions.HostPoolNotFound(f'There is no pool {name}.')
    return found[0]


def _read_pools(
    session: orm.Session, unit: sa.ColumnElement[bool], pool: sa.ColumnElement[bool]
) -> list[hosts.Pool]:
    counted = sa.select(UNITS.c.pool, sa.func.count()).where(UNITS.c.kind == hosts.KIND, unit)
    numbers = {row[0]: row[1] for row in session.execute(counted.group_by(UNITS.c.pool))}
    known = {row.name: row for row in session.execute(sa.select(_POOL).where(pool))}
    return [
        _read_pool(name, numbers.get(name, 0), known.get(name))
        for name in sorted({*numbers, *known})
    ]


def _read_pool(name: str, count: int, row: sa.Row[Any] | None) -> hosts.Pool:
    if row is None:
        return hosts.Pool(name, count)
    return hosts.Pool(name, count, generation=row.generation, **(row.access or {}))
