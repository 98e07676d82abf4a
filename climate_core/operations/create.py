# SPDX-License-Identifier: Apache-2.0
"""Write the draft of a create: check the quota, provision, and persist, all or nothing.

New leases of a project that come at the same time and need no calendar share one transaction.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.concurrency import deadline
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.db import trusts as db_trusts
from climate_core.db import usage as db_limits
from climate_core.db.engine import DATABASE_ERRORS, Stale
from climate_core.db.rows import GroupWriter, Outcome
from climate_core.lease import changes, limits, model, states
from climate_core.lease.history import LIMITED, Cause, join_cause, user_cause
from climate_core.lease.transitions import Change
from climate_core.operations import pool_forecast, wait_queue
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.draft import Draft, Item, find_held
from climate_core.operations.draft_builder import check_generation
from climate_core.operations.idempotent_create import (
    DUPLICATE_ERRORS,
    detect_lease_appeared,
    find_equal_lease,
)
from climate_core.operations.preemption import PREEMPTS, Preemption
from climate_core.operations.provisioning import Provisioned, Provisioner
from climate_core.operations.quota import Quota
from climate_core.operations.services import EvacuationPlanner, Services
from climate_core.plugins import resource_spec
from climate_core.plugins.capabilities import Specified

#: Maximum number of leases of one transaction: the others of the project wait for its commit.
MAX_GROUP_SIZE: Final = 32

#: Errors after which the lease may be committed. That includes rejections: an attempt that follows
#: a lost connection counts what the attempt before it committed.
_MAYBE_WRITTEN: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *DATABASE_ERRORS)

#: Maximum number of trusts of the owner to try; a new trust cannot be retired before its lease.
_TRUST_ATTEMPTS = 3

#: The reason of a lease that waits although there is capacity for it.
_BEHIND = 'Leases that have waited for longer, or have a higher priority, come first.'


class WriteResult(NamedTuple):
    """The lease of a request, and its requested reservations; none for an equal lease.

    :param is_new: whether the request created the lease, which is then complete
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()
    is_new: bool = False


class DraftWrite(NamedTuple):
    """The input of the transaction that writes a draft.

    :param most: the limits of the project, which the transaction enforces; None: none
    """

    draft: Draft
    done: Provisioned
    most: limits.Amounts | None
    cause: Cause


class LeaseWriter:
    """Write drafts: check the quota, admit, provision and persist them, all or nothing."""

    def __init__(
        self,
        services: Services,
        quota: Quota,
        provisioner: Provisioner,
        allocation_service: AllocationService,
        evacuation_planner: EvacuationPlanner,
        preemption: Preemption,
    ) -> None:
        self._conf = services.conf
        self._database = services.database
        self._plugins = services.plugins
        self.cloud = services.cloud
        self.quota = quota
        self.provisioner = provisioner
        self.allocation_service = allocation_service
        self.evacuation_planner = evacuation_planner
        self.preemption = preemption
        #: New leases of one project that need no calendar share a transaction.
        self.groups = GroupWriter[DraftWrite, model.Lease](
            self._database,
            self.persist,
            self._persist_group,
            lambda writing: writing.draft.lease.id,
            MAX_GROUP_SIZE,
            line=lambda writing: writing.draft.lease.project_id,
        )

    def write_draft(self, context: RequestContext, draft: Draft) -> WriteResult:
        """Write what a request adds, or find the lease of an equal request.

        :raises climate_core.exceptions.LeaseAppeared: an equal request may have committed first
        """
        if draft.before is not None and not draft.items:
            return WriteResult(
                self._record_created(context, draft, draft.before), draft.already_reserved
            )
        self.preemption.check(draft)
        try:
            with detect_lease_appeared(self._database, draft.lease.id, draft.before):
                return self._write(context, draft)
        except DUPLICATE_ERRORS as exc:
            return WriteResult(find_equal_lease(self._database, context, draft, exc))

    def _record_created(
        self, context: RequestContext, draft: Draft, before: model.Lease
    ) -> model.Lease:
        """Record the resource that a service has created for a reservation.

        So its limits, usage and end are known although the manager that asked for it died.

        :raises climate_core.exceptions.InvalidState: the reservation has another resource
        """
        known = {reservation.id: reservation.resource_id for reservation in before.reservations}
        created = [
            reservation
            for reservation in draft.already_reserved
            if reservation.resource_id != known[reservation.id]
        ]
        if not created:
            return before
        cause = join_cause(context)
        try:
            return self._database.write(
                _write_created_resources, before.id, created, draft.now, cause
            )
        except db_exc.DBDuplicateEntry as exc:
            raise exceptions.ResourceReserved(field='resource_id') from exc

    def _write(self, context: RequestContext, draft: Draft) -> WriteResult:
        # Nothing is created before the transaction counts, so its count is sufficient.
        creates_nothing = needs_no_calendar(draft) and all(
            item.reservation.is_made for item in draft.items
        )
        most = self.quota.check_quota(
            draft.lease, draft.now, draft.before, creates_nothing=creates_nothing
        )
        draft = self._admit(context, draft)
        done = self.provisioner.provision(context, draft)
        is_new = draft.before is None
        cause = user_cause(context, 'lease.create') if is_new else join_cause(context)
        try:
            # Created resources belong to a lease or are discarded, so there is no deadline.
            with deadline(None):
                lease = self._persist_with_trust(context, DraftWrite(draft, done, most, cause))
        except _MAYBE_WRITTEN:
            committed = self.provisioner.discard(done, draft)
            if committed is None:
                raise
            lease = committed
        present = {reservation.key: reservation for reservation in lease.live}
        added = tuple(present[item.reservation.key] for item in done.items)
        return WriteResult(lease, draft.already_reserved + added, is_new)

    def _admit(self, context: RequestContext, draft: Draft) -> Draft:
        """Check the calendar and the forecast; return the draft, perhaps of a queued lease.

        A lease that may wait is also queued while there is capacity for it, if others are queued.
        """
        try:
            draft = self._admit_allocated(draft)
            pool_forecast.check_draft(self._database, self.cloud, context, draft)
        except exceptions.NotEnough as exc:
            preempting = self.preemption.find_servers(draft)
            if draft.may_wait:
                reason = exc.message if preempting is None else PREEMPTS
                return dataclasses.replace(preempting or draft, wait_reason=reason)
            if preempting is None:
                raise
            return preempting
        behind = draft.may_wait and self._database.read(
            leases.is_any_waiting, draft.lease.priority
        )
        return dataclasses.replace(draft, wait_reason=_BEHIND) if behind else draft

    def _admit_allocated(self, draft: Draft) -> Draft:
        """Check the calendar; return the draft, perhaps with the leases that it preempts.

        The index in memory is sufficient where an error of it only costs an unused trust: the
        transaction decides.

        :raises climate_core.exceptions.NotEnough: there is no capacity with preemption either
        """
        best_effort = draft.lease.kind == states.LeaseKind.BEST_EFFORT
        proposed = None if best_effort else self.allocation_service.propose_units(draft)
        try:
            if proposed is None:
                self.allocation_service.check_capacity(draft)
        except exceptions.NotEnough as exc:
            if draft.before is None and best_effort:
                hosts = self.evacuation_planner.choose_hosts(draft, exc)
                reason = f'{words.counted(len(hosts), "shared host")} must be emptied for it.'
                return dataclasses.replace(draft, wait_reason=reason, hosts_to_evacuate=hosts)
            preempting = self.preemption.find(draft)
            if preempting is None:
                raise
            return preempting
        return dataclasses.replace(draft, proposed=proposed or frozenset())

    def _persist_with_trust(self, context: RequestContext, writing: DraftWrite) -> model.Lease:
        """Persist a draft, with another trust if the shared trust has been retired."""
        for _ in range(_TRUST_ATTEMPTS):
            try:
                return self._persist(writing)
            except db_trusts.TrustRetired:
                self.provisioner.replace_trust(context, writing.done)
        raise exceptions.ServiceUnavailable(
            'The trust of the owner was retired while the lease was written, several times: try '
            'again.'
        )

    def _persist(self, writing: DraftWrite) -> model.Lease:
        """Persist a draft; if its capacity is lost by now it waits or preempts, if it may."""
        draft = writing.draft
        if needs_no_calendar(draft):
            return self._persist_grouped(writing)
        try:
            return self._database.write(self.persist, writing)
        except exceptions.NotEnough as exc:
            second = (
                dataclasses.replace(draft, wait_reason=exc.message, preempted=())
                if draft.may_wait
                else self.preemption.find(draft)
            )
            if second is None:
                raise
            return self._database.write(self.persist, writing._replace(draft=second))

    def persist(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        """Write a new lease, or add reservations to an existing lease, which is locked first.

        :raises oslo_db.exception.DBDuplicateEntry: its id, or a resource, is taken
        :raises climate_core.exceptions.NotEnough: the calendar has no capacity for it
        """
        draft, done, most, cause = writing
        project_id = draft.lease.project_id
        db_limits.lock_project(session, project_id, most)
        if draft.before is None:
            lease = done.new_lease(draft)
            if draft.hosts_to_evacuate:
                lease = self.evacuation_planner.take_hosts(session, draft, lease)
            elif draft.wait_reason or draft.may_wait:
                lease = wait_queue.add(self._conf, draft, lease)
            adding = limits.sum_amounts(lease.live, leases=1)
            self.quota.note(project_id, db_limits.check_limits(session, project_id, adding, most))
            shares = self._keep_trust(session, done)
            store.create(session, lease, draft.now, cause, shares)
            calendar = self.allocation_service.calendar.transaction(session)
            self.preemption.preempt(calendar, draft)
            if lease.status in states.UNGRANTED:
                return lease
            return self._allocate(calendar, draft, lease, lease.reservations)
        lease = leases.get(session, draft.lease.id, lock=True)
        missing = self._find_missing(lease, done)
        if not missing:
            return lease
        check_generation(lease, draft.generation)
        if cause.action in LIMITED:
            self.quota.check_changes(session, lease)
        db_limits.check_limits(session, project_id, limits.sum_amounts(missing), most)
        joining = {reservation.id for reservation in missing}
        preparing = {key: done.preparing[key] for key in joining & done.preparing.keys()}
        change = changes.add_reservations(lease, missing, draft.now, preparing)
        self.quota.check_reservations(change.lease)
        after = store.save(session, lease, change, draft.now, cause)
        calendar = self.allocation_service.calendar.transaction(session)
        return self._allocate(calendar, draft, after, missing)

    def _keep_trust(self, session: orm.Session, done: Provisioned) -> bool:
        """Let other leases share a new trust; return whether the lease shares an earlier one."""
        assert done.trust is not None  # nosec B101 # for mypy: a new lease has a trust
        self.provisioner.owner_trusts.keep(session, done.trust)
        return _shares(done)

    def _allocate(
        self,
        calendar: CalendarTransaction,
        draft: Draft,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
    ) -> model.Lease:
        fields = {item.reservation.id: item.field for item in draft.items}
        return self.allocation_service.allocate(
            calendar, lease, reservations, fields, draft.now, proposed=draft.proposed
        )

    def _find_missing(self, lease: model.Lease, done: Provisioned) -> Sequence[model.Reservation]:
        """Return the reservations that the lease does not have: another request may add them."""
        missing, held = [], {reservation.key: reservation for reservation in lease.live}
        for item in done.items:
            present = find_held(held, item.reservation.key)
            if present is None:
                missing.append(item.reservation)
            elif item.reservation.id in done.reused:
                self._check_reused(present, item)
        return missing

    def _check_reused(self, present: model.Reservation, item: Item) -> None:
        """Reject a resource of an earlier request that the lease has in another form."""
        plugin = self._plugins[present.resource_type]
        keys = plugin.request_keys(present.lease_id, item.values)
        if set(keys).isdisjoint(plugin.reservation_keys(present)):
            raise exceptions.NameTaken(
                f'{present.resource_type} {present.resource_id} of this name could not be held '
                'and is being given back; the name is free when that is done.',
                field='name',
            )
        if isinstance(plugin, Specified):
            plugin.check_match(present, item.values)

    def _persist_grouped(self, writing: DraftWrite) -> model.Lease:
        """Persist a new lease that needs no calendar, perhaps with others of its project."""
        try:
            return self.groups.write(writing)
        except exceptions.LimitExceeded:
            # The limits that the draft was checked with may have been raised since.
            most = self.quota.check_limits(writing.draft.lease, None)
            return self.groups.write(writing._replace(most=most))

    def _persist_group(
        self, session: orm.Session, group: Sequence[DraftWrite]
    ) -> list[Outcome[model.Lease]]:
        """Persist new leases of one project; each is granted or rejected alone."""
        project_id = group[0].draft.lease.project_id
        most = next((writing.most for writing in group if writing.most is not None), None)
        db_limits.lock_project(session, project_id, most)
        used: limits.Amounts = {} if most is None else db_limits.count_used(session, project_id)
        shared = {_trust_id(writing) for writing in group if _shares(writing.done)}
        live = db_trusts.lock_live(session, shared)
        outcomes: list[Outcome[model.Lease]] = []
        new: list[store.NewLease] = []
        for writing in group:
            lease = writing.done.new_lease(writing.draft)
            try:
                used = _check_grouped(writing, lease, used, live)
            except (exceptions.LimitExceeded, db_trusts.TrustRetired) as exc:
                outcomes.append((None, exc))
                continue
            self._keep_trust(session, writing.done)
            new.append(store.NewLease(lease, writing.draft.now, writing.cause))
            outcomes.append((lease, None))
        store.create_all(session, new)
        if most is not None:
            self.quota.note(project_id, used)
        return outcomes


def needs_no_calendar(draft: Draft) -> bool:
    """Return whether a draft is a new lease that writes only its own rows."""
    return (
        draft.before is None
        and not (draft.wait_reason or draft.hosts_to_evacuate or draft.preempted)
        and not draft.may_wait
        and all(item.reservation.unit_kind is None for item in draft.items)
    )


def _shares(done: Provisioned) -> bool:
    return done.trust is not None and not done.trust.is_new


def _trust_id(writing: DraftWrite) -> str:
    assert writing.done.trust is not None  # nosec B101 # for mypy: it holds already
    return writing.done.trust.id


def _check_grouped(
    writing: DraftWrite, lease: model.Lease, used: limits.Amounts, live: set[str]
) -> limits.Amounts:
    """Check a lease before anything of it is written.

    :param used: what its project holds, with those before it
    :param live: the ids of the trusts that may be shared
    :returns: what the project holds with it
    :raises climate_core.exceptions.LimitExceeded: that is too much
    :raises climate_core.db.trusts.TrustRetired: its trust is not to be shared any more
    """
    if _shares(writing.done) and _trust_id(writing) not in live:
        raise db_trusts.TrustRetired
    return limits.add_usage(writing.most, used, limits.sum_amounts(lease.live, leases=1))


def _write_created_resources(
    session: orm.Session,
    lease_id: str,
    created: Sequence[model.Reservation],
    now: datetime.datetime,
    cause: Cause,
) -> model.Lease:
    lease = leases.get(session, lease_id, lock=True)
    held = {reservation.id: reservation for reservation in lease.live}
    changed = []
    for reservation in created:
        present = held.get(reservation.id)
        if present is None or (present.is_made and present.resource_id != reservation.resource_id):
            raise exceptions.InvalidState(
                'made_for: another resource was created for the reservation, or it has ended.',
                field=resource_spec.MADE_FOR,
            )
        changed.append(dataclasses.replace(present, resource_id=reservation.resource_id))
    change = Change(lease.with_reservations(*changed))
    return store.save(session, lease, change, now, cause)
