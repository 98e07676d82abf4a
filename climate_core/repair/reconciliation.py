# SPDX-License-Identifier: Apache-2.0
"""Compare the leases with the cloud periodically, and record and repair what differs.

It finds resources that were deleted while no manager listened, trusts that no lease has (a manager
died between creating the trust and committing the lease), and resources that wait for a lease
which does not exist; it verifies what services have reported of new resources; it deletes trusts
that leases shared when no lease needs them any more; and it undoes the locks that leases have left
on their resources. It marks servers that are deleted with a lease which their owner may not know.
Several managers may do it concurrently.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.trusts import Trusts
from climate_core.db import held_resources, leases, sql, store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.delivery.metrics import Metrics
from climate_core.lease import resources, states
from climate_core.lease.history import Cause
from climate_core.lease.model import REPORTED, Reservation
from climate_core.lease.transitions import Change
from climate_core.plugins.base import (
    HostBacked,
    LeaseManaged,
    Lockable,
    NotOfLease,
    Reported,
    ResourcePlugin,
)
from climate_core.repair import cleanup
from climate_core.threads import PeriodicWorker, Worker

_LOST_CAUSE = Cause('resource.lost')
#: A service has reported wrong amounts.
_CORRECTED_CAUSE = Cause('resource.corrected')


def group_by_lease(
    losses: Iterable[tuple[Reservation, str]],
) -> dict[str, dict[str, str]]:
    """Return what happened to resources, by leases and then by reservations."""
    by_lease: dict[str, dict[str, str]] = defaultdict(dict)
    for reservation, reason in losses:
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
    change = resources.record_lost(lease, reasons, now)
    if change.lease == lease:
        return False
    store.save(session, lease, change, now, cause)
    return True


def filter_lost(session: orm.Session, lease_id: str, ids: Collection[str]) -> set[str]:
    """Return the reservations with a deleted resource that :func:`mark_lost` would record."""
    lease = leases.find(session, lease_id)
    if lease is None or lease.status in states.ENDING:
        return set()
    return {reservation.id for reservation in resources.find_lost(lease, ids)}


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
        for each in held_resources.find_holding_reservations(session, resource_type, [resource_id])
    )


def can_be_moved(session: orm.Session, resource_type: str, resource_id: str) -> bool:
    """Return whether :func:`mark_moved` would record the change of a resource."""
    reservations = held_resources.find_holding_reservations(session, resource_type, [resource_id])
    return any(not each.resources_changed for each in reservations)


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
    reservations = held_resources.find_holding_reservations(
        session, right[0].resource_type, [each.resource_id for each in right]
    )
    as_read = [r for r in reservations if REPORTED in r.params and r.amounts == amounts.get(r.id)]
    store.update_reservations(
        session, [(each, _without_report(each, each.amounts)) for each in as_read]
    )


def _correct(session: orm.Session, reported: Reservation, amounts: Mapping[str, int]) -> bool:
    lease = leases.find(session, reported.lease_id, lock=True)
    reservations = () if lease is None else lease.live
    before = next((each for each in reservations if each.id == reported.id), None)
    if lease is None or before is None or REPORTED not in before.params:
        return False
    change = Change(lease.with_reservations(_without_report(before, amounts)))
    store.save(session, lease, change, sql.read_time(session), _CORRECTED_CAUSE)
    return True


def _without_report(reported: Reservation, amounts: Mapping[str, int]) -> Reservation:
    params = {name: each for name, each in reported.params.items() if name != REPORTED}
    return dataclasses.replace(reported, params=params, amounts=dict(amounts))


def _mark_moved(session: orm.Session, lease_id: str, reasons: Mapping[str, str]) -> bool:
    lease = leases.find(session, lease_id, lock=True)
    if lease is None:
        return False
    reservations = (r for r in lease.live if r.id in reasons and not r.resources_changed)
    changed = [
        dataclasses.replace(r, resources_changed=True, status_reason=reasons[r.id])
        for r in reservations
    ]
    if not changed:
        return False
    reason = ' '.join(sorted({str(each.status_reason) for each in changed}))
    after = Change(lease.with_reservations(*changed), {'lease.update': reason})
    store.save(session, lease, after, sql.read_time(session), _LOST_CAUSE)
    return True


LOG = log.getLogger(__name__)

#: Seconds for which a trust must be known to have no lease before it is deleted.
_STRAY_TRUST_SECONDS = 3600.0
#: Maximum number of seconds from the start to the first reconciliation.
_FIRST_SECONDS = 30.0

#: The errors that are logged in a sentence; any other is a bug and logged with its traceback.
_LOGGED_ERRORS: tuple[type[Exception], ...] = (*errors.EXPECTED, store.Stale, *DATABASE_ERRORS)


class Reconciler(PeriodicWorker):
    """Reconcile the leases with the cloud, in a dedicated thread.

    :param scheduler: of the engine, which is nudged when something was written
    :param metrics: count the trusts that Keystone does not let the service delete
    """

    name = 'reconcile'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        plugins: Mapping[str, ResourcePlugin],
        trusts: Trusts,
        scheduler: Worker | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(conf.reconcile.interval, _FIRST_SECONDS)
        self._conf = conf
        self._database = database
        self._plugins = plugins
        self._trusts = trusts
        self._scheduler = scheduler
        self._metrics = metrics
        #: Resources that are in the log already; no decision depends on it.
        self._reported: set[str] = set()
        #: Type of resource -> the marks that this process has set, by the ids of servers.
        self._marked: dict[str, dict[str, str]] = {}

    def poll(self) -> float:
        self.compare()
        return self.next_poll()

    def compare(self) -> None:
        """Reconcile everything once; an error of one step does not prevent the others."""
        for plugin in self._plugins.values():
            for step in _STEPS:
                if self.stopping:
                    return
                if isinstance(plugin, step.capability):
                    with _log_errors(step.what):
                        step.function(self, plugin)
        with _log_errors('trusts that no lease needs'):
            self._delete_retired()
        if self._conf.cloud.sweep_trusts:
            with _log_errors('trusts without a lease'):
                self._sweep_trusts()

    def _nudge(self) -> None:
        if self._scheduler is not None:
            self._scheduler.nudge()

    def record_lost(self, plugin: ResourcePlugin) -> None:
        """Record the resources of a type that are gone."""
        found = find_missing_resources(self._database, plugin)
        for lease_id, reasons in group_by_lease(found).items():
            if mark_lost(self._database, lease_id, reasons):
                LOG.warning('Lease %s lost resources: %s', lease_id, reasons)
                self._nudge()

    def verify_reported(self, plugin: Reported) -> None:
        """Correct what services reported wrong of new resources."""
        for correction in verify_reported(self._database, plugin):
            LOG.error('A service reported a wrong resource or wrong amounts: %s', correction)
            self._nudge()

    def log_orphans(self, plugin: LeaseManaged) -> None:
        """Log the resources of a type that have no lease."""
        orphans = set(find_orphans(self._database, plugin))
        for resource_id in sorted(orphans - self._reported):
            LOG.warning('%s %s has no lease: %s', plugin.title, resource_id, plugin.orphaned)
        self._reported = orphans

    def undo_locks(self, plugin: Lockable) -> None:
        """Undo the locks that leases have left on resources of a type."""
        for resource_id in undo_locks(self._database, plugin):
            LOG.warning('Unlocked %s %s, which no lease needs locked', plugin.title, resource_id)

    def update_marks(self, plugin: HostBacked) -> None:
        """Mark the servers that leases of a type end."""
        before = self._marked.get(plugin.resource_type, {})
        self._marked[plugin.resource_type] = update_marks(self._database, plugin, before)

    def _delete_retired(self) -> None:
        for trust_id in cleanup.find_retired_trusts(self._database):
            if not self.stopping:
                with _log_errors('trusts to delete'):
                    cleanup.delete_retired_trust(
                        self._database, self._trusts, trust_id, self._metrics
                    )

    def _sweep_trusts(self) -> None:
        own_ids = set(self._trusts.list_own())
        try:
            old = self._database.write(db_trusts.note_stray, own_ids, _STRAY_TRUST_SECONDS)
        except db_exc.DBDuplicateEntry:
            # Another manager does the same at this moment.
            return
        for trust_id in old:
            if not self.stopping:
                with _log_errors('trusts to delete'):
                    self._trusts.delete(trust_id)
                    LOG.warning('Deleted the trust %s, which no lease has', trust_id)


@contextlib.contextmanager
def _log_errors(what: str) -> Iterator[None]:
    try:
        yield
    except _LOGGED_ERRORS as exc:
        LOG.warning('Could not check for %s; the next reconciliation retries: %s', what, exc)


class _Step(NamedTuple):
    """A step of the reconciliation of a type of resource.

    :param what: what it checks for, for the log
    :param capability: the plugins for which it is done
    """

    what: str
    capability: type[Any]
    function: Callable[[Reconciler, Any], None]


#: The steps for each type of resource, in this order.
_STEPS: Final = (
    _Step('missing resources', ResourcePlugin, Reconciler.record_lost),
    _Step('wrong reports of services', Reported, Reconciler.verify_reported),
    _Step('resources without a lease', LeaseManaged, Reconciler.log_orphans),
    _Step('locks that leases have left', Lockable, Reconciler.undo_locks),
    _Step('servers that leases end', HostBacked, Reconciler.update_marks),
)

#: Reservations that are read per page.
_HELD_PAGE_SIZE = 10_000
_CHUNK_SIZE = 500


@contextlib.contextmanager
def skip_unavailable(title: str, noted: dict[str, str]) -> Iterator[None]:
    """Skip a service that does not answer.

    :param title: of the plugin, or of what else is checked
    :param noted: receives the title, and why its resources were not checked
    """
    try:
        yield
    except errors.EXPECTED as exc:
        noted[title] = str(exc) or type(exc).__name__


def find_orphans(database: Database, plugin: LeaseManaged) -> Iterator[str]:
    """Yield the resources that wait for a lease that does not exist, or that a lease left behind.

    A resource that was created a moment ago may still get its lease: see
    :meth:`.base.LeaseManaged.unleased_since`.
    """
    waiting = iter(plugin.list_unleased())
    while chunk := list(islice(waiting, _CHUNK_SIZE)):
        yield from sorted(database.read(held_resources.find_unheld, plugin.resource_type, chunk))
    created = iter(plugin.list_created())
    while part := list(islice(created, _CHUNK_SIZE)):
        reservation_ids = {(resource.reservation_id, resource.is_ours) for resource in part}
        left = database.read(
            held_resources.find_unheld_created, plugin.resource_type, reservation_ids
        )
        yield from sorted(
            resource.resource_id for resource in part if resource.reservation_id in left
        )


def find_lost(
    database: Database, plugin: ResourcePlugin, lease_id: str | None = None
) -> Iterator[tuple[Reservation, str]]:
    """Yield the reservations that have lost their resource, and what happened to it.

    By the rule of :func:`climate_core.repair.reconciliation.mark_lost`, as the reconciliation:
    what a lease has released itself, as a server without a host, is not lost.

    :param lease_id: only those of this lease
    """
    found = list(find_missing_resources(database, plugin, lease_id))
    for losing_id, reasons in group_by_lease(found).items():
        lost = database.read(filter_lost, losing_id, list(reasons))
        yield from (
            (reservation, reason) for reservation, reason in found if reservation.id in lost
        )


def find_missing_resources(
    database: Database, plugin: ResourcePlugin, lease_id: str | None = None
) -> Iterator[tuple[Reservation, str]]:
    """Yield the reservations whose resource is gone, lost or not, and what happened to it.

    :param lease_id: only those of this lease
    """
    yield from plugin.reconcile(_read_held_pages(database, plugin.resource_type, lease_id))


def _read_held_pages(
    database: Database, resource_type: str, lease_id: str | None
) -> Iterator[Sequence[Reservation]]:
    after = ''
    while page := database.read(
        held_resources.read_held_page, resource_type, after, _HELD_PAGE_SIZE
    ):
        yield [r for r in page if lease_id in (None, r.lease_id)]
        after = page[-1].id


#: Reservations that are read and verified per page. An outage repeats the requests of one page.
_REPORTED_PAGE_SIZE = 20
_REJECTED_CAUSE = Cause('resource.rejected')


def verify_reported(database: Database, plugin: Reported) -> Iterator[str]:
    """Correct wrong amounts, and remove what is not of its lease; yield a sentence for each.

    The API accepts the id and the amounts of a resource from any service, since a request to that
    service would block it. Each reservation is verified once. Until then the project is compared
    before each step, see :mod:`climate_core.plugins.own_service_plugin`.

    One request for each reservation that is not verified, and a few statements for each page.
    """
    after = ''
    while page := database.read(
        held_resources.read_reported_page, plugin.resource_type, after, _REPORTED_PAGE_SIZE
    ):
        yield from _verify_page(
            database,
            plugin,
            [reservation for reservation in page if REPORTED in reservation.params],
        )
        after = page[-1].id


def _verify_page(
    database: Database, plugin: Reported, page: Sequence[Reservation]
) -> Iterator[str]:
    """Verify reservations; yield what was wrong."""
    holders = database.read(
        held_resources.find_holding_leases, [reservation.key for reservation in page]
    )
    read = []
    for held in page:
        lease = holders.get(held.key)
        if lease is None or lease.id != held.lease_id:
            continue
        try:
            amounts = plugin.read_reported(lease, held)
        except errors.Gone:
            # It is found missing.
            continue
        except errors.Broken as exc:
            # A service may fail for one resource alone, which must not keep the others from it.
            LOG.warning('Could not verify %s %s: %s', plugin.title, held.resource_id, exc)
            continue
        except NotOfLease as exc:
            if mark_lost(database, lease.id, {held.id: str(exc)}, _REJECTED_CAUSE):
                yield f'Lease {lease.id}: {exc} It was removed.'
            continue
        if amounts is not None:
            read.append((held, amounts))
    for held, amounts in settle_reported(database, read):
        yield (
            f'Lease {held.lease_id}: {plugin.title} {held.resource_id} holds {dict(amounts)}, '
            f'not {dict(held.amounts)}. It was corrected.'
        )


def undo_locks(database: Database, plugin: Lockable) -> Iterator[str]:
    """Unlock the resources of one type whose locks no lease needs any more; yield their ids.

    What a preemptible lease releases is locked until it is started again, and unlocked at the end
    of the lease. But a manager that was suspended while it locked a resource may lock it after
    that end, or when the lease is active again, and die. A lock of the service is undone here as
    soon as no lease holds the resource any more, or the resource runs in a lease that is not
    preempted.

    Two statements for each 500 that are locked, none if there are none.

    A lease may be preempted between what is read here and the unlock. That does no harm: the
    manager that puts a resource out of use unlocks it itself before, and locks it only when it is
    inactive, which is checked again right before the unlock.
    """
    locked = iter(plugin.list_locked())
    while chunk := list(islice(locked, _CHUNK_SIZE)):
        for resource_id in sorted(
            database.read(held_resources.find_released, plugin.resource_type, chunk)
        ):
            plugin.unlock(resource_id)
            yield resource_id
        for resource_id in sorted(
            database.read(held_resources.find_in_use, plugin.resource_type, chunk)
        ):
            if plugin.unlock(resource_id, may_sleep=False):
                yield resource_id


def update_marks(
    database: Database, plugin: HostBacked, before: Mapping[str, str]
) -> dict[str, str]:
    """Mark servers that entered a reservation, and remove the marks of those that left it.

    These are servers that entered a reservation with open matching: the lease deletes or moves
    them at its end, and their owners may not know it. A mark that cannot be set or removed now, as
    that of a server that is being migrated, is set or removed next time.

    Every manager compares all reservations and so remembers all marks, whichever manager set them
    first. Setting a mark twice changes nothing, and a mark is removed only if it is still the one
    that the manager remembers. So managers need no common record. The mark of a server stays only
    if every manager that had the server in a reservation stopped before the server left it. No
    decision depends on a mark. It names the lease and its end, and the next mark replaces it.

    :param before: the marks that this process has set, by the ids of servers
    :returns: the marks that are set now, also those that could not be removed
    """
    marks: dict[str, str] = {}
    for reservation in _open_reservations(database, plugin.resource_type):
        lease = database.read(leases.find, reservation.lease_id)
        if lease is not None and lease.deleted_at is None:
            marks |= plugin.find_matched(lease, lease.get_reservation(reservation.id))
    marked = {
        server_id: mark for server_id, mark in marks.items() if before.get(server_id) == mark
    }
    for server_id in sorted(marks.keys() - marked.keys()):
        with contextlib.suppress(*errors.EXPECTED):
            plugin.set_mark(server_id, marks[server_id])
            marked[server_id] = marks[server_id]
    for server_id in sorted(before.keys() - marks.keys()):
        try:
            plugin.remove_mark(server_id, before[server_id])
        except errors.Gone:
            continue
        except errors.EXPECTED:
            marked[server_id] = before[server_id]
    return marked


def _open_reservations(database: Database, resource_type: str) -> Iterator[Reservation]:
    """Yield the active reservations of a type with open matching."""
    after = ''
    while page := database.read(held_resources.read_held_page, resource_type, after):
        for reservation in page:
            is_active = reservation.status == states.ReservationStatus.ACTIVE
            if is_active and reservation.params.get('matching') == lanes.OPEN:
                yield reservation
        after = page[-1].id
