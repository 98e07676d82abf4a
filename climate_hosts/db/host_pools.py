# SPDX-License-Identifier: Apache-2.0
"""Pools of hosts in the database: which projects may use them, and how many hosts they have."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.db import calendar, rows, sql, tables
from climate_core.db.engine import Stale, signal
from climate_hosts.domain import hosts

_UNIT, _HOST, _POOL = tables.UNITS, tables.HOSTS, tables.HOST_POOLS


def access(session: orm.Session, pool: str) -> dict[str, Any] | None:
    """Return who may use a pool, and keep others from changing it until this transaction ends.

    :raises climate_core.db.engine.Stale: another transaction has just made its row
    """
    found: dict[str, Any] | None = _lock_pool(session, pool).access
    return found


def _lock_pool(session: orm.Session, pool: str) -> sa.Row[Any]:
    """Return ``access`` and ``generation`` of a pool, which others cannot change meanwhile."""
    query = sa.select(_POOL.c.access, _POOL.c.generation).where(_POOL.c.name == pool)
    row = session.execute(query.with_for_update()).first()
    if row is not None:
        return row
    try:
        rows.insert(session, _POOL, [{'name': pool, 'access': None, 'generation': 0}])
    except db_exc.DBDuplicateEntry as exc:
        raise Stale(f'pool {pool}') from exc
    return session.execute(query).one()


def set_access(
    session: orm.Session,
    pool: str,
    value: Mapping[str, Any] | None,
    generation: int | None = None,
) -> None:
    """Set which projects may use a pool; what is promised of its hosts already stays.

    :param value: as :class:`climate_core.calendar.model.Access` dumps it; None: everybody
    :param generation: that the pool must have, 0 if nobody has said that before; None: any
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


def delete(session: orm.Session, name: str) -> None:
    """Delete a pool that has no hosts, and its list of projects.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    :raises climate_core.exceptions.HostPoolInUse: it has hosts
    """
    # A host is added only by a transaction that has locked the row of the pool.
    query = sa.select(_POOL.c.name).where(_POOL.c.name == name).with_for_update()
    session.execute(query).first()
    found = get(session, name)
    if found.hosts:
        raise exceptions.HostPoolInUse(
            f'Pool {name} has {words.counted(found.hosts, "host")}: put all into another pool, or '
            'take them out.'
        )
    rows.change(session, sa.delete(_POOL).where(_POOL.c.name == name))


def list_all(session: orm.Session) -> list[hosts.Pool]:
    """Read all pools, in the order of their names, with the numbers of their hosts."""
    return _pools(session, sa.true(), sa.true())


def get(session: orm.Session, name: str) -> hosts.Pool:
    """Read one pool.

    :raises climate_core.exceptions.HostPoolNotFound: there is none
    """
    found = _pools(session, _UNIT.c.pool == name, _POOL.c.name == name)
    if not found:
        raise exceptions.HostPoolNotFound(f'There is no pool {name}.')
    return found[0]


def _pools(
    session: orm.Session, unit: sa.ColumnElement[bool], pool: sa.ColumnElement[bool]
) -> list[hosts.Pool]:
    counted = sa.select(_UNIT.c.pool, sa.func.count()).where(_UNIT.c.kind == hosts.KIND, unit)
    numbers = {row[0]: row[1] for row in session.execute(counted.group_by(_UNIT.c.pool))}
    known = {row.name: row for row in session.execute(sa.select(_POOL).where(pool))}
    return [
        _pool(name, numbers.get(name, 0), known.get(name)) for name in sorted({*numbers, *known})
    ]


def _pool(name: str, count: int, row: sa.Row[Any] | None) -> hosts.Pool:
    if row is None:
        return hosts.Pool(name, count)
    return hosts.Pool(name, count, generation=row.generation, **(row.access or {}))
