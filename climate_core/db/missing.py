# SPDX-License-Identifier: Apache-2.0
"""Write down what happened to resources behind the back of their lease."""

import dataclasses
from collections.abc import Callable, Collection, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import leases, reservations, store, tables, utcnow
from climate_core.db.engine import Database
from climate_core.lease import changes, states
from climate_core.lease.history import Cause
from climate_core.lease.results import Change

_ATTEMPTS = 10


_FOUND = Cause('resource.lost')


def mark_lost(
    database: Database, lease_id: str, reasons: Mapping[str, str], cause: Cause = _FOUND
) -> bool:
    """Note that resources of a lease are gone.

    A lease that is ending is left alone: its end finds out by itself.

    :param reasons: reservation id -> what happened to its resource
    :param cause: who found it, for the history
    :returns: whether anything was written
    :raises climate_core.db.store.Stale: others keep changing the lease
    """
    return _again(database, _mark_lost, lease_id, reasons, cause)


def mark_resource_lost(
    database: Database, resource_type: str, resource_id: str, reason: str
) -> bool:
    """Note that a resource is gone, if a lease holds it."""
    held = database.read(reservations.holder, resource_type, resource_id)
    return held is not None and mark_lost(database, held.lease_id, {held.id: reason})


def change_resource(database: Database, resource_type: str, resource_id: str, reason: str) -> bool:
    """Note that a resource is not what it was, if a lease holds it."""
    held = database.read(reservations.holder, resource_type, resource_id)
    return held is not None and _again(database, _change, held.lease_id, held.id, reason)


def unheld(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return those resources that no lease holds."""
    table = tables.RESERVATIONS
    query = sa.select(table.c.resource_id).where(
        table.c.resource_type == resource_type,
        table.c.resource_id.in_(ids),
        table.c.hold == 1,
    )
    return set(ids) - set(session.scalars(query))


def trusts(session: orm.Session) -> set[str]:
    """Return the ids of all trusts that leases still have."""
    table = tables.LEASES
    return set(session.scalars(sa.select(table.c.trust_id).where(table.c.trust_id.is_not(None))))


def stray_trusts(session: orm.Session, mine: Collection[str], seconds: float) -> list[str]:
    """Note the trusts that no lease has, and forget the others.

    Keystone does not say how old a trust is, and a lease is written after its trust is made.

    :param mine: the ids of all trusts that are delegated to the service user
    :returns: the ids of those that were noted so many seconds ago or earlier
    :raises oslo_db.exception.DBDuplicateEntry: another manager notes the same ones now
    """
    table, run = tables.STRAY_TRUSTS, session.connection().execute
    stray = set(mine) - trusts(session)
    noted = set(session.scalars(sa.select(table.c.id)))
    if found := noted - stray:
        run(sa.delete(table).where(table.c.id.in_(found)))
    if new := stray - noted:
        run(sa.insert(table), [{'id': each, 'since': utcnow.read(session)} for each in new])
    old = sa.select(table.c.id).where(table.c.since <= utcnow.now(session, -seconds))
    return sorted(session.scalars(old))


def _again(database: Database, function: Callable[..., bool], *args: object) -> bool:
    """Write, once more if an event was claimed between reading and writing."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return database.write(function, *args)
        except store.Stale:
            continue
    return database.write(function, *args)


def _mark_lost(
    session: orm.Session, lease_id: str, reasons: Mapping[str, str], cause: Cause
) -> bool:
    lease = leases.find(session, lease_id, lock=True)
    if lease is None or lease.status in states.ENDING:
        return False
    now = utcnow.read(session)
    change = changes.lost_resources.apply(lease, reasons, now)
    if change.lease == lease:
        return False
    store.save(session, lease, change, now, cause)
    return True


def _change(session: orm.Session, lease_id: str, reservation_id: str, reason: str) -> bool:
    lease = leases.find(session, lease_id, lock=True)
    if lease is None:
        return False
    after = tuple(
        dataclasses.replace(r, resources_changed=True, status_reason=reason)
        if r.id == reservation_id and r.live and not r.resources_changed
        else r
        for r in lease.reservations
    )
    if after == lease.reservations:
        return False
    told = Change(dataclasses.replace(lease, reservations=after), {'lease.update': reason})
    store.save(session, lease, told, utcnow.read(session), _FOUND)
    return True
