# SPDX-License-Identifier: Apache-2.0
"""The transaction that writes a new lease, or reservations that join a lease: all or nothing.

New leases of a project that come at the same time and need no calendar share one transaction.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.concurrency import Outcome
from climate_core.db import leases, store
from climate_core.db import trusts as db_trusts
from climate_core.db import usage as db_limits
from climate_core.db.rows import GroupWriter
from climate_core.lease import limits, model, resources, states
from climate_core.lease.history import LIMITED, Cause
from climate_core.operations.draft import Draft, Item, find_held
from climate_core.operations.idempotency import check_generation
from climate_core.operations.preemption.leases import Preemption
from climate_core.operations.provisioning import OwnerTrusts, Provisioned
from climate_core.operations.queue import wait_queue
from climate_core.operations.quota import Quota
from climate_core.operations.services import EvacuationPlanner, Services
from climate_core.plugins.base import Specified

#: Maximum number of leases of one transaction: the others of the project wait for its commit.
MAX_GROUP_SIZE: Final = 32


class DraftWrite(NamedTuple):
    """The input of the transaction.

    :param most: the limits of the project, which the transaction enforces; None: none
    """

    draft: Draft
    done: Provisioned
    most: limits.Amounts | None
    cause: Cause


class CreateTransaction(GroupWriter[DraftWrite, model.Lease]):
    """Write drafts whose resources are provisioned.

    New leases of one project that need no calendar share a transaction.
    """

    def __init__(
        self,
        services: Services,
        quota: Quota,
        preemption: Preemption,
        planner: EvacuationPlanner,
        owner_trusts: OwnerTrusts,
    ) -> None:
        super().__init__(services.database, MAX_GROUP_SIZE)
        self._conf = services.conf
        self._plugins = services.plugins
        self._allocation_service = services.allocation_service
        self._quota = quota
        self._preemption = preemption
        self._planner = planner
        self._owner_trusts = owner_trusts

    def write(self, writing: DraftWrite) -> model.Lease:
        """Write a draft, perhaps with others of its project.

        :raises oslo_db.exception.DBDuplicateEntry: its id, or a resource, is taken
        :raises climate_core.exceptions.NotEnough: the calendar has no capacity for it
        :raises climate_core.db.trusts.TrustRetired: its trust is not to be shared any more
        """
        if not writing.draft.needs_no_calendar:
            return self._database.write(self.write_one, writing)
        lease = writing.draft.lease
        try:
            return self.run(writing, key=lease.id, line=lease.project_id)
        except exceptions.LimitExceeded:
            # The limits that the draft was checked with may have been raised since.
            most = self._quota.check_limits(lease, None)
            return self.run(writing._replace(most=most), key=lease.id, line=lease.project_id)

    def write_one(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        """Write a new lease, or add reservations to an existing lease, which is locked first."""
        draft, done, most, cause = writing
        project_id = draft.lease.project_id
        db_limits.lock_project(session, project_id, most)
        if draft.before is None:
            lease = done.new_lease(draft)
            if draft.hosts_to_evacuate:
                lease = self._planner.take_hosts(session, draft, lease)
            elif draft.wait_reason or draft.may_wait:
                lease = wait_queue.add(self._conf, draft, lease)
            adding = limits.sum_amounts(lease.live, leases=1)
            self._quota.note(project_id, db_limits.check_limits(session, project_id, adding, most))
            self._owner_trusts.keep(session, done.owner_trust)
            store.create(session, lease, draft.now, cause, not done.owner_trust.is_new)
            time = draft.preempt_at or draft.lease.start_date
            calendar = self._allocation_service.calendar.transaction(session)
            self._preemption.preempt(calendar, lease.id, draft.preempted, time, draft.now)
            if lease.status in states.UNGRANTED:
                return lease
            return self._allocate(calendar, draft, lease, lease.reservations)
        lease = leases.get(session, draft.lease.id, lock=True)
        missing = self._find_missing(lease, done)
        if not missing:
            return lease
        check_generation(lease, draft.generation)
        if cause.action in LIMITED:
            self._quota.check_changes(session, lease)
        db_limits.check_limits(session, project_id, limits.sum_amounts(missing), most)
        joining = {reservation.id for reservation in missing}
        preparing = {key: done.preparing[key] for key in joining & done.preparing.keys()}
        change = resources.add_reservations(lease, missing, draft.now, preparing)
        self._quota.check_reservations(change.lease)
        after = store.save(session, lease, change, draft.now, cause)
        calendar = self._allocation_service.calendar.transaction(session)
        return self._allocate(calendar, draft, after, missing)

    def _allocate(
        self,
        calendar: CalendarTransaction,
        draft: Draft,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
    ) -> model.Lease:
        fields = {item.reservation.id: item.field for item in draft.items}
        return self._allocation_service.allocate(
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

    def write_all(
        self, session: orm.Session, group: Sequence[DraftWrite]
    ) -> list[Outcome[model.Lease]]:
        """Write new leases of one project; each is granted or rejected alone."""
        project_id = group[0].draft.lease.project_id
        most = next((writing.most for writing in group if writing.most is not None), None)
        db_limits.lock_project(session, project_id, most)
        used: limits.Amounts = {} if most is None else db_limits.count_used(session, project_id)
        trusts = [writing.done.owner_trust for writing in group]
        live = db_trusts.lock_live(session, {trust.id for trust in trusts if not trust.is_new})
        outcomes: list[Outcome[model.Lease]] = []
        new: list[store.NewLease] = []
        for writing, trust in zip(group, trusts, strict=True):
            lease = writing.done.new_lease(writing.draft)
            try:
                if not trust.is_new and trust.id not in live:
                    raise db_trusts.TrustRetired
                adding = limits.sum_amounts(lease.live, leases=1)
                used = limits.add_usage(writing.most, used, adding)
            except (exceptions.LimitExceeded, db_trusts.TrustRetired) as exc:
                outcomes.append((None, exc))
                continue
            self._owner_trusts.keep(session, trust)
            new.append(store.NewLease(lease, writing.draft.now, writing.cause))
            outcomes.append((lease, None))
        store.create_all(session, new)
        if most is not None:
            self._quota.note(project_id, used)
        return outcomes
