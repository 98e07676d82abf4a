# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools in the database: each is a unit of the calendar and what is known of it.

Each change of a unit counts its generation up and sets ``changed_at``, so that no promise is made
of what it was before, and the indexes of all managers read it again.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import rows, tables, utcnow
from climate_core.lease import hosts, states

_UNIT, _HOST, _ALLOCATION = tables.UNITS, tables.HOSTS, tables.ALLOCATIONS
_RESERVATION = tables.RESERVATIONS

_OF_UNIT = ('id', 'pool', 'available', 'capacity')
_OF_HOST = (
    'hypervisor_hostname',
    'service_name',
    'provider_id',
    'lane_ids',
    'details',
    'extra',
    'disabled_reason',
    'created_at',
    'updated_at',
)
_COLUMNS = (*(_UNIT.c[name] for name in _OF_UNIT), *(_HOST.c[name] for name in _OF_HOST))
_ALL = sa.select(*_COLUMNS).join_from(_HOST, _UNIT, _HOST.c.unit_id == _UNIT.c.id)


def get(session: orm.Session, host_id: int, lock: bool = False) -> hosts.Host:
    """Read one host.

    :param lock: keep other transactions from changing it until the end of this one
    :raises climate_core.exceptions.HostNotFound: there is none
    """
    query = _ALL.where(_UNIT.c.id == host_id)
    row = session.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise exceptions.HostNotFound(f'Host {host_id} was not found.')
    return _read(row)


def find(session: orm.Session, hypervisor_hostname: str) -> hosts.Host | None:
    """Read the host with this name; None when there is none."""
    query = _ALL.where(_HOST.c.hypervisor_hostname == hypervisor_hostname)
    row = session.execute(query).mappings().first()
    return None if row is None else _read(row)


def _read(row: Mapping[Any, Any]) -> hosts.Host:
    return hosts.Host(**{**row, 'lane_ids': tuple(row['lane_ids'])})


def insert(
    session: orm.Session,
    pool: str,
    provider_id: str,
    lane_ids: tuple[str, ...],
    known: hosts.Known,
    extra: Mapping[str, Any],
    disabled_reason: str | None = None,
    available: bool = True,
) -> int:
    """Write a new host and its unit; return its id.

    :raises oslo_db.exception.DBDuplicateEntry: there is a host with this name
    """
    now = utcnow.now(session)
    unit = {
        'kind': hosts.KIND,
        'pool': pool,
        'available': available,
        'capacity': known.capacity,
        'lanes': len(lane_ids),
        'properties': known.properties(extra),
        'generation': 0,
        'changed_at': now,
    }
    connection = session.connection()
    made = connection.execute(sa.insert(_UNIT).values(unit)).inserted_primary_key
    assert made is not None
    host = {
        'unit_id': made[0],
        'hypervisor_hostname': known.hypervisor_hostname,
        'service_name': known.service_name,
        'provider_id': provider_id,
        'lane_ids': list(lane_ids),
        'details': known.details,
        'extra': dict(extra),
        'disabled_reason': disabled_reason,
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
    now = utcnow.now(session)
    counted = {'generation': _UNIT.c.generation + 1, 'changed_at': now, **unit}
    mine = sa.update(_UNIT).where(_UNIT.c.id == host_id, _UNIT.c.kind == hosts.KIND)
    if not rows.change(session, mine.values(counted)):
        raise exceptions.HostNotFound(f'Host {host_id} was not found.')
    stamped = {'updated_at': now, **host}
    rows.change(session, sa.update(_HOST).where(_HOST.c.unit_id == host_id).values(stamped))


def refresh(session: orm.Session, host_id: int, known: hosts.Known) -> bool:
    """Write what Nova and Placement know of a host; tell whether that was something new."""
    host = get(session, host_id, lock=True)
    if host.knows(known):
        return False
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
    return True


def delete(session: orm.Session, host_id: int) -> None:
    """Delete a host with its unit and what was promised of it; one that is gone is fine."""
    mine = sa.delete(_UNIT).where(_UNIT.c.id == host_id, _UNIT.c.kind == hosts.KIND)
    rows.change(session, mine)


def last_promise(session: orm.Session, host_id: int) -> tuple[int, datetime.datetime] | None:
    """Count the live reservations that a host is promised to, and tell when the last one ends.

    :returns: None if there is none
    """
    live = [str(status) for status in states.LIVE]
    query = (
        sa.select(sa.func.count(_RESERVATION.c.id.distinct()), sa.func.max(_ALLOCATION.c.end))
        .join_from(_ALLOCATION, _RESERVATION, _ALLOCATION.c.reservation_id == _RESERVATION.c.id)
        .where(_ALLOCATION.c.unit_id == host_id, _RESERVATION.c.status.in_(live))
    )
    count, end = session.execute(query).one()
    return (count, end) if count else None
