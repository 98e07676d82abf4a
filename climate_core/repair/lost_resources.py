# SPDX-License-Identifier: Apache-2.0
"""Record what happened to resources outside of their lease, as a deletion by their user."""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import orm

from climate_core.db import due_events, leases, reservations, sql, store
from climate_core.db.engine import Database, signal
from climate_core.lease import failures, states
from climate_core.lease.history import Cause
from climate_core.lease.model import REPORTED, Reservation
from climate_core.lease.transitions import Change

_LOST_CAUSE = Cause('resource.lost')
#: A service has reported wrong amounts.
_CORRECTED_CAUSE = Cause('resource.corrected')


def group_by_lease(
    found: Iterable[tuple[Reservation, str]],
) -> dict[str, dict[str, str]]:
    """Return what happened to resources, by leases and then by reservations."""
    by_lease: dict[str, dict[str, str]] = defaultdict(dict)
    for reservation, reason in found:
        by_lease[reservation.lease_id][reservation.id] = reason
    return by_lease


def mark_lost(
    database: Database, lease_id: str, reasons: Mapping[str, str], cause: Cause = _LOST_CAUSE
) -> bool:
    """Record that resources of a lease were deleted, unless it is ending: the end finds them.

    :param reasons: reservation id -> what happened to its resource
    :returns: whether anything was written
    """
    return database.write(_mark_lost, lease_id, reasons, cause)


def _mark_lost(
    session: orm.Session, lease_id: str, reasons: Mapping[str, str], cause: Cause
) -> bool:
    lease = leases.find(session, lease_id, lock=True)
    if lease is None or lease.status in states.ENDING:
        return False
    now = sql.read_time(session)
    change = failures.record_lost(lease, reasons, now)
    if change.lease == lease:
        return False
    store.save(session, lease, change, now, cause)
    signal(session, due_events.DUE)
    return True


def filter_lost(session: orm.Session, lease_id: str, ids: Collection[str]) -> set[str]:
    """Return the reservations with a deleted resource that :func:`mark_lost` would record."""
    lease = leases.find(session, lease_id)
    if lease is None or lease.status in states.ENDING:
        return set()
    return {reservation.id for reservation in failures.find_lost(lease, ids)}


def mark_moved(database: Database, lease_id: str, reasons: Mapping[str, str]) -> bool:
    """Record that resources of a lease have changed.

    :param reasons: reservation id -> what happened to its resource
    :returns: whether anything was written
    """
    return database.write(_mark_moved, lease_id, reasons)


def can_be_lost(session: orm.Session, resource_type: str, resource_id: str) -> bool:
    """Return whether :func:`mark_lost` would record the deletion of a resource."""
    return any(
        filter_lost(session, each.lease_id, [each.id])
        for each in reservations.find_holders(session, resource_type, [resource_id])
    )


def can_be_moved(session: orm.Session, resource_type: str, resource_id: str) -> bool:
    """Return whether :func:`mark_moved` would record the change of a resource."""
    held = reservations.find_holders(session, resource_type, [resource_id])
    return any(not each.resources_changed for each in held)


def settle_reported(
    database: Database, read: Sequence[tuple[Reservation, Mapping[str, int]]]
) -> list[tuple[Reservation, Mapping[str, int]]]:
    """Record the amounts of resources whose amounts were only reported until now.

    One transaction records all correct reports: nothing that users see changes.

    :param read: reservations of one type, and the amounts of their resources
    :returns: those that were reported wrong, and are corrected now
    """
    right = [each for each, amounts in read if each.amounts == amounts]
    if right:
        database.write(_settle_right, right)
    wrong = [(each, amounts) for each, amounts in read if each.amounts != amounts]
    return [each for each in wrong if database.write(_correct, *each)]


def _settle_right(session: orm.Session, right: Sequence[Reservation]) -> None:
    # Without their contents: a lease may have many reservations.
    leases.lock_all(session, {each.lease_id for each in right}, ())
    amounts = {each.id: each.amounts for each in right}
    held = reservations.find_holders(
        session, right[0].resource_type, [each.resource_id for each in right]
    )
    as_read = [r for r in held if REPORTED in r.params and r.amounts == amounts.get(r.id)]
    reservations.update(session, [(each, _without_report(each, each.amounts)) for each in as_read])


def _correct(session: orm.Session, reported: Reservation, amounts: Mapping[str, int]) -> bool:
    lease = leases.find(session, reported.lease_id, lock=True)
    held = () if lease is None else lease.live
    before = next((each for each in held if each.id == reported.id), None)
    if lease is None or before is None or REPORTED not in before.params:
        return False
    change = Change(lease.with_reservations(_without_report(before, amounts)))
    store.save(session, lease, change, sql.read_time(session), _CORRECTED_CAUSE)
    signal(session, due_events.DUE)
    return True


def _without_report(reported: Reservation, amounts: Mapping[str, int]) -> Reservation:
    params = {name: each for name, each in reported.params.items() if name != REPORTED}
    return dataclasses.replace(reported, params=params, amounts=dict(amounts))


def _mark_moved(session: orm.Session, lease_id: str, reasons: Mapping[str, str]) -> bool:
    lease = leases.find(session, lease_id, lock=True)
    if lease is None:
        return False
    held = (r for r in lease.live if r.id in reasons and not r.resources_changed)
    changed = [
        dataclasses.replace(r, resources_changed=True, status_reason=reasons[r.id]) for r in held
    ]
    if not changed:
        return False
    reason = ' '.join(sorted({str(each.status_reason) for each in changed}))
    after = Change(lease.with_reservations(*changed), {'lease.update': reason})
    store.save(session, lease, after, sql.read_time(session), _LOST_CAUSE)
    signal(session, due_events.DUE)
    return True
