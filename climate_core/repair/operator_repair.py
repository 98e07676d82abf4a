# SPDX-License-Identifier: Apache-2.0
"""Repair what an operator found: stuck leases, lost resources, orphaned resources, lost trusts.

Without ``yes`` nothing is changed, and the results say what would be done. Changes of a lease are
recorded in its history.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.trusts import Trusts
from climate_core.db import held_resources, leases, monitoring, sql, store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import Database
from climate_core.db.monitoring import Stuck, StuckKind
from climate_core.lease import events, model, states, transitions
from climate_core.lease.history import DONE, Cause, HistoryEntry, describe_change
from climate_core.lease.model import Reservation
from climate_core.lease.transitions import Change
from climate_core.plugins.base import LeaseManaged, ResourcePlugin
from climate_core.repair import reconciliation

#: The action of a repair in the history.
REPAIR = 'operator.repair'
#: The repair of :func:`unstick`. An operator decides about an ERROR.
REMEDIES: Mapping[StuckKind, str] = {
    StuckKind.CLAIM_EXPIRED: 'make the event due now',
    StuckKind.NOT_TAKEN_UP: 'make the event due now',
    StuckKind.RETRIED: 'make the event due now',
    StuckKind.PAST_END: 'make the end due now',
    StuckKind.NO_END: 'add the end event to the lease',
    StuckKind.STARTING: 'make the start due now',
    StuckKind.TRUST_KEPT: 'release the trust',
}
#: The event that is made due for a lease that makes no progress.
_EVENT_DUE_NOW = {StuckKind.PAST_END: model.END, StuckKind.STARTING: model.START}

#: Seconds between two reads of the trusts that no lease has: a lease is committed right after its
#: trust is created, and Keystone does not report the age of a trust.
TRUST_PAUSE_SECONDS = 60.0

#: The errors that keep one thing from being repaired; the others are repaired nevertheless.
_REPAIR_ERRORS: tuple[type[Exception], ...] = (*errors.EXPECTED, store.Stale)


@dataclasses.dataclass(frozen=True, slots=True)
class RepairResult:
    """A problem, and its repair.

    :param what: the id of a lease, of a resource or of a trust
    :param action: the repair; None if an operator has to decide
    :param done: whether it was done
    :param trouble: why it could not be done
    """

    what: str
    wrong: str
    action: str | None
    done: bool = False
    trouble: str | None = None


def repair_remote(
    what: str, wrong: str, action: str, yes: bool, function: Callable[..., object], *args: object
) -> RepairResult:
    """Repair a problem in another service, or return its repair.

    :param yes: whether to do it
    """
    if not yes:
        return RepairResult(what, wrong, action)
    try:
        function(*args)
    except errors.EXPECTED as exc:
        return RepairResult(what, wrong, action, False, str(exc) or type(exc).__name__)
    return RepairResult(what, wrong, action, True)


class OperatorRepair:
    """Apply the repairs, or only return them.

    :ivar unseen: the titles of plugins, and why their resources were not checked

    :param yes: whether to do it
    :param user_id: the operator, for the history
    """

    def __init__(
        self,
        database: Database,
        plugins: Mapping[str, ResourcePlugin],
        yes: bool,
        user_id: str | None = None,
    ) -> None:
        self._database = database
        self._plugins = plugins
        self._yes = yes
        self._cause = Cause(REPAIR, user_id=user_id)
        self.unseen: dict[str, str] = {}

    def leases(
        self, thresholds: monitoring.StuckThresholds, lease_id: str | None = None
    ) -> Iterator[RepairResult]:
        """Continue stuck leases.

        :param lease_id: only this lease
        """
        by_lease: dict[str, list[Stuck]] = defaultdict(list)
        for finding in self._database.read(monitoring.find_stuck, thresholds, lease_id):
            by_lease[finding.lease_id].append(finding)
        for stuck_id, findings in by_lease.items():
            yield from self._unstick(stuck_id, findings)

    def _unstick(self, lease_id: str, findings: Sequence[Stuck]) -> Iterator[RepairResult]:
        done: list[str] = []

        def repair() -> None:
            user_id = self._cause.user_id
            done.extend(self._database.write(unstick, lease_id, findings, user_id))

        is_repairable = any(finding.kind in REMEDIES for finding in findings)
        trouble = self._do(repair) if is_repairable else None
        for finding in findings:
            action = REMEDIES.get(finding.kind)
            about = f'{finding.event_type}: ' if finding.event_type else ''
            wrong = f'{finding.kind}: {about}{finding.reason}'
            yield RepairResult(lease_id, wrong, action, bool(done and action), trouble)

    def lost(self, lease_id: str | None = None) -> Iterator[RepairResult]:
        """Mark the resources of leases that are gone.

        :param lease_id: only those of this lease
        """
        by_lease: dict[str, dict[str, str]] = defaultdict(dict)
        wrong: dict[str, list[str]] = defaultdict(list)
        for reservation, reason in self._lost(lease_id):
            by_lease[reservation.lease_id][reservation.id] = reason
            wrong[reservation.lease_id].append(
                f'{reservation.resource_type} {reservation.resource_id}: {reason}'
            )
        for losing_id, reasons in by_lease.items():
            trouble = self._do(
                reconciliation.mark_lost, self._database, losing_id, reasons, self._cause
            )
            description = '; '.join(wrong[losing_id])
            yield RepairResult(
                losing_id, description, 'mark it as lost', self._yes and not trouble, trouble
            )

    def _lost(self, lease_id: str | None) -> Iterator[tuple[Reservation, str]]:
        for plugin in self._plugins.values():
            with reconciliation.skip_unavailable(plugin.title, self.unseen):
                yield from reconciliation.find_lost(self._database, plugin, lease_id)

    def resources(self, now: datetime.datetime, safe_seconds: float) -> Iterator[RepairResult]:
        """Delete the resources that wait for a missing lease, or that a lease left behind.

        :param safe_seconds: resources that changed within this time are left: their lease may be
            in progress
        """
        for plugin in self._plugins.values():
            if isinstance(plugin, LeaseManaged):
                with reconciliation.skip_unavailable(plugin.title, self.unseen):
                    yield from self._resources(plugin, now, safe_seconds)

    def _resources(
        self, plugin: LeaseManaged, now: datetime.datetime, safe_seconds: float
    ) -> Iterator[RepairResult]:
        for resource_id in list(reconciliation.find_orphans(self._database, plugin)):
            since = plugin.unleased_since(resource_id)
            if since is None:
                continue
            age = (now - since).total_seconds()
            wrong = f'{plugin.title}: {plugin.orphaned}, since {age:.0f} s'
            if age < safe_seconds:
                yield RepairResult(resource_id, wrong, None)
                continue
            trouble = self._do(self._discard, plugin, resource_id)
            yield RepairResult(resource_id, wrong, 'delete it', self._yes and not trouble, trouble)

    def trusts(self, trusts: Trusts, pause: Callable[[float], None]) -> Iterator[RepairResult]:
        """Delete the trusts that are delegated to the service user and that no lease has.

        :param pause: sleeps for a number of seconds
        """
        stray = set(trusts.list_own()) - self._database.read(db_trusts.find_used)
        if stray and self._yes:
            pause(TRUST_PAUSE_SECONDS)
            stray -= self._database.read(db_trusts.find_used)
        for trust_id in sorted(stray):
            trouble = self._do(trusts.delete, trust_id)
            done = self._yes and not trouble
            yield RepairResult(trust_id, 'a trust that no lease has', 'delete it', done, trouble)
        for trust_id in self._database.read(db_trusts.find_rejected):
            trouble = self._do(self._delete_refused, trusts, trust_id)
            done = self._yes and not trouble
            wrong = 'a trust that no lease needs, and whose deletion Keystone rejected'
            yield RepairResult(trust_id, wrong, 'delete it', done, trouble)

    def _delete_refused(self, trusts: Trusts, trust_id: str) -> None:
        trusts.delete(trust_id)
        self._database.write(db_trusts.delete, trust_id)

    def _discard(self, plugin: LeaseManaged, resource_id: str) -> None:
        """Check again before something is deleted for good."""
        if not self._database.read(
            held_resources.find_unheld, plugin.resource_type, [resource_id]
        ):
            raise exceptions.Permanent('It belongs to a lease now.')
        plugin.discard(resource_id)

    def _do(self, function: Callable[..., object], *args: object) -> str | None:
        """Call a function if changes are allowed; return the error that prevented it."""
        if not self._yes:
            return None
        try:
            function(*args)
        except _REPAIR_ERRORS as exc:
            return str(exc) or type(exc).__name__
        return None


def unstick(
    session: orm.Session, lease_id: str, findings: Sequence[Stuck], user_id: str | None
) -> list[str]:
    """Repair a stuck lease, as far as it is still stuck.

    An event that a manager works on is not changed.

    :param user_id: the operator, for the history
    :returns: what was done, in sentences
    :raises climate_core.db.engine.Stale: the lease was changed concurrently
    """
    before = leases.find(session, lease_id, lock=True)
    if before is None:
        return []
    now = sql.read_time(session)
    after, done = before, []
    for each in findings:
        changed = _repair_finding(after, each, now)
        if changed != after:
            after = changed
            done.append(f'{each.kind}: {REMEDIES[each.kind]} ({each.event_type or "lease"})')
    if done:
        cause = Cause(REPAIR, user_id=user_id)
        store.save(session, before, Change(after), now, cause)
        note_repair(session, before, after, cause, now, '; '.join(done))
    return done


def note_repair(
    session: orm.Session,
    before: model.Lease,
    after: model.Lease,
    cause: Cause,
    now: datetime.datetime,
    reason: str,
) -> None:
    """Add a repair to the history, unless the change of the lease has added it."""
    if describe_change(before, after, cause, now) is None:
        repair = HistoryEntry(after.id, now, cause.action, DONE, reason, cause.user_id, None, {})
        store.add_history(session, repair)


def _repair_finding(lease: model.Lease, finding: Stuck, now: datetime.datetime) -> model.Lease:
    if finding.kind is StuckKind.TRUST_KEPT:
        return events.get_handler(model.RELEASE_TRUST).after_termination(lease, now)
    if finding.kind is StuckKind.NO_END:
        time = max(lease.end_date, now)
        end = lease.event(model.END)
        again = transitions.reschedule_event(end, time, now) if end else None
        return lease.with_events(again or model.new_event(lease.id, model.END, time, now))
    event_type = _EVENT_DUE_NOW.get(finding.kind)
    event = lease.event(event_type) if event_type else _event_of(lease, finding.event_id)
    return lease if event is None else _reschedule(lease, event, now)


def _event_of(lease: model.Lease, event_id: str | None) -> model.Event | None:
    return next((each for each in lease.events if each.id == event_id), None)


def _reschedule(lease: model.Lease, event: model.Event, now: datetime.datetime) -> model.Lease:
    is_claimed = event.status == states.EventStatus.IN_PROGRESS
    waits = event.next_at is not None and event.next_at > now
    if not event.open or (is_claimed and waits) or event.next_at == now:
        return lease
    return lease.with_events(transitions.reschedule_event(event, now, now))
