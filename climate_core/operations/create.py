# SPDX-License-Identifier: Apache-2.0
"""Create a lease, or add reservations to one: read, reserve, admit, provision, write.

A create reads the request, has plugins claim what it requests, checks limits, calendar and
forecast, creates the trust of the owner and the requested resources, and writes all of that in one
transaction or nothing. Equal requests give one lease, see
:mod:`climate_core.operations.idempotency`. A dry run takes the same steps up to the check, with an
:class:`~climate_core.lease.request.ErrorCollector` that collects all errors.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from oslo_db import exception as db_exc
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions, policies
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.concurrency import ItemResult, deadline
from climate_core.conf import secrets
from climate_core.conf.delivery import webhook_rules
from climate_core.context import RequestContext
from climate_core.db import leases, project_limits, store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import DATABASE_ERRORS, GroupWriter, Stale, retry
from climate_core.db.project_limits import Amounts
from climate_core.engine.scheduler import Wakeups
from climate_core.lease import changes, model, request, resources, states, views
from climate_core.lease.history import LIMITED, Cause, join_cause, user_cause
from climate_core.lease.request import RAISE_FIRST, ErrorCollector
from climate_core.lease.transitions import Change
from climate_core.operations import allocation, idempotency, pool_forecast, wait_queue
from climate_core.operations.draft import (
    Draft,
    Item,
    Reserver,
    choose_kind,
    creates_now,
    find_held,
    fit_items,
)
from climate_core.operations.preemption import Preemption
from climate_core.operations.provisioning import OwnerTrusts, Provisioned, Provisioner
from climate_core.operations.quota import Quota
from climate_core.operations.remote import check_allowed, check_generation, remote
from climate_core.operations.server_preemption import PREEMPTS
from climate_core.operations.services import HostEvacuation, Services
from climate_core.plugins import provisioned_plugin
from climate_core.plugins.base import Specified
from climate_core.webhooks import DEFAULT_RULES

#: Errors after which the lease may be committed. That includes rejections: an attempt that follows
#: a lost connection counts what the attempt before it committed.
_MAYBE_WRITTEN: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *DATABASE_ERRORS)

#: Maximum number of trusts of the owner to try; a new trust cannot be retired before its lease.
_TRUST_ATTEMPTS = 3

#: Maximum number of leases of one transaction: other leases of the project wait for its commit.
MAX_GROUP_SIZE: Final = 32

#: The reason of a lease that is queued although there is capacity for it.
_BEHIND = 'Leases that were queued earlier, or have a higher priority, come first.'


class WriteResult(NamedTuple):
    """The lease of a request, and its requested reservations; none for an equal lease.

    :param is_new: whether the request created the lease, which is then complete
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()
    is_new: bool = False


class DraftWrite(NamedTuple):
    """The input of the transaction.

    :param most: the limits of the project, which the transaction enforces; None: none
    """

    draft: Draft
    done: Provisioned
    most: Amounts | None
    cause: Cause


class LeaseCreator(GroupWriter[DraftWrite, model.Lease]):
    """Create leases and add reservations.

    New leases of one project that need no calendar share a transaction.
    """

    def __init__(
        self,
        services: Services,
        quota: Quota,
        preemption: Preemption,
        host_evacuation: HostEvacuation,
        owner_trusts: OwnerTrusts,
    ) -> None:
        super().__init__(services.database, MAX_GROUP_SIZE)
        self.services = services
        self.quota = quota
        self.preemption = preemption
        self.host_evacuation = host_evacuation
        self.owner_trusts = owner_trusts
        self.provisioner = Provisioner(services.database, services.plugins, owner_trusts)
        #: Notifies the engines for a lease that was created, joined or found, in a manager.
        self.wakeups: Wakeups | None = None

    @idempotency.retry_if_lease_appeared
    @remote(policies.CREATE_LEASE, reserves=True)
    def create_lease(
        self, context: RequestContext, values: Mapping[str, Any]
    ) -> views.CreatedLease:
        """Create a lease with its reservations, all or nothing.

        With an ``idempotency_key`` of an earlier equal request, return its lease unchanged. With
        the ``id`` of an equal lease of the same project, add the reservations that it does not
        have yet. Without either, return an equal lease that holds the requested resources.

        :param values: ``name``, ``end_date`` or ``duration``; perhaps ``id`` or
            ``idempotency_key``, ``may_join``, ``start_date`` (default now), ``before_end_date``,
            ``reservations`` (each ``resource_type`` and what its plugin takes), ``events`` (each
            ``event_type`` and ``time``), ``start_policy``, ``before_start``, ``webhook``,
            ``kind``, ``max_retries``, ``priority``, ``best_effort_timeout``, ``preemptible``
        :returns: a new lease as the API shows it, unless it is queued; else its id
        """
        draft = self.read_lease(context, values)
        written = self.write_draft(context, draft)
        if self.wakeups is not None:
            self.wakeups.wake_for_lease(written.lease, draft.now)
        waits = written.lease.status == states.LeaseStatus.WAITING
        if written.is_new and not waits:
            return views.lease_view(written.lease, viewer_id=context.user_id)
        return written.lease.id

    @idempotency.retry_if_lease_appeared
    @remote(reserves=True)
    def add_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Add a resource to a lease of the same project.

        :param values: ``resource_type`` and what its plugin takes
        :returns: the id of the reservation, of several that of the first; also if the lease has
            it already, with any generation
        :raises climate_core.exceptions.ResourceReserved: another lease holds the resource
        """
        draft = self.read_reservation(context, lease_id, values, generation)
        written = self.write_draft(context, draft)
        if self.wakeups is not None:
            self.wakeups.wake_for_lease(written.lease, draft.now)
        return written.reservations[0].id

    # Read the request, and reserve: nothing is written.

    def read_lease(
        self,
        context: RequestContext,
        values: Mapping[str, Any],
        errors: ErrorCollector = RAISE_FIRST,
    ) -> Draft:
        """Read the request for a lease, or for what joins the lease that has its id already."""
        conf, database = self.services.conf, self.services.database
        now = self.services.clock.now()
        chosen = idempotency.chosen_id(context.project_id, values)
        digests: Sequence[str] = ()
        if chosen and 'idempotency_key' in values:
            digests = idempotency.request_digests(values, chosen, secrets.read_keys(conf))
        present = database.read(leases.find, chosen) if chosen else None
        if present is not None and digests:
            with errors.collected():
                idempotency.check_repeated_request(present, digests)
            return Draft(present, (), now, present)
        lease_request = request.read_lease_request(
            values, now, self._read_rules(values), errors, new=present is None
        )
        if present is not None:
            with errors.collected():
                idempotency.check_same_lease(lease_request, present, context.project_id)
            if present.project_id != context.project_id:
                # Nothing of the lease of another project may be shown.
                return Draft(present, (), now, present, request=lease_request)
        lease_id = chosen or uuidutils.generate_uuid()
        dated = (
            (present.kind, present.start_date)
            if present
            else (lease_request.kind, lease_request.start)
        )
        is_now = creates_now(*dated, now)
        reserver = Reserver(self.services.plugins, context, lease_id, now, conf, present, is_now)
        with idempotency.detect_lease_appeared(database, lease_id, present):
            items, found = reserver.reserve_items(values.get('reservations') or (), errors)
        if present is not None:
            items = fit_items(present.kind, items)
            new = [each.reservation for each in items]
            after = present
            with errors.collected():
                after = resources.add_reservations(present, new, now).lease
            return Draft(after, items, now, present, found, lease_request)
        kind: str = states.LeaseKind.IMMEDIATE
        # If all reservations are rejected, whether they suit the kind is not known.
        if items or not errors.found or not values.get('reservations'):
            with errors.collected():
                kind = choose_kind(lease_request.kind, items)
        items = fit_items(kind, items)
        lease = changes.new_lease(
            lease_id,
            lease_request,
            digests[0] if digests else None,
            context,
            [each.reservation for each in items],
            now,
            conf.manager.before_start_seconds,
            self.quota.external.on_end,
            kind,
        )
        return Draft(lease, items, now, request=lease_request)

    def read_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None,
    ) -> Draft:
        """Read the request for a reservation of a lease of the same project."""
        database, now = self.services.database, self.services.clock.now()
        lease = database.read(leases.get, lease_id)
        check_allowed(context, policies.CREATE_RESERVATION, lease)
        if lease.project_id != context.project_id:
            raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
        is_now = creates_now(lease.kind, lease.start_date, now)
        reserver = Reserver(
            self.services.plugins, context, lease_id, now, self.services.conf, lease, is_now
        )
        with idempotency.detect_lease_appeared(database, lease_id, lease):
            items, found = reserver.reserve_items([values], field='')
        if items:
            check_generation(lease, generation)
        new = [each.reservation for each in items]
        after = resources.add_reservations(lease, new, now).lease
        return Draft(after, items, now, lease, found, generation=generation)

    def _read_rules(self, values: Mapping[str, Any]) -> request.RequestRules:
        conf = self.services.conf
        manager, queue = conf.manager, conf.queue
        return request.RequestRules(
            manager.minutes_before_end_lease,
            webhook_rules(conf) if values.get('webhook') is not None else DEFAULT_RULES,
            manager.late_start_seconds,
            queue.max_retries,
            queue.best_effort_timeout,
        )

    # Write what was read: admit, provision, persist.

    def write_draft(self, context: RequestContext, draft: Draft) -> WriteResult:
        """Write what a request adds, or find the lease of an equal request.

        :raises climate_core.exceptions.LeaseAppeared: an equal request may have committed first
        """
        database = self.services.database
        if draft.before is not None and not draft.items:
            lease = self._record_created(context, draft, draft.before)
            return WriteResult(lease, draft.already_reserved)
        if draft.lease.preemptible:
            self.preemption.check(draft)
        try:
            with idempotency.detect_lease_appeared(database, draft.lease.id, draft.before):
                return self._admit_and_write(context, draft)
        except idempotency.DUPLICATE_ERRORS as exc:
            return WriteResult(idempotency.find_equal_lease(database, context, draft, exc))

    def _record_created(
        self, context: RequestContext, draft: Draft, before: model.Lease
    ) -> model.Lease:
        """Record the resource that a service has created for a reservation.

        So its limits, usage and end are known although the manager that requested it died.

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
            return self.services.database.write(
                _write_created_resources, before.id, created, draft.now, cause
            )
        except db_exc.DBDuplicateEntry as exc:
            raise exceptions.ResourceReserved(field='resource_id') from exc

    def _admit_and_write(self, context: RequestContext, draft: Draft) -> WriteResult:
        # Nothing is created before the transaction counts, so its count is sufficient.
        creates_nothing = draft.needs_no_calendar and all(
            item.reservation.is_made for item in draft.items
        )
        most = self.quota.check_quota(
            draft.lease, draft.now, draft.before, creates_nothing=creates_nothing
        )
        draft = self._admit(context, draft)
        self.quota.check_external(draft.lease, draft.before)
        done = self.provisioner.provision(context, draft)
        is_new = draft.before is None
        cause = user_cause(context, 'lease.create') if is_new else join_cause(context)
        try:
            # Created resources belong to a lease or are discarded, so there is no deadline.
            with deadline(None):
                lease = self._commit_with_trust(context, DraftWrite(draft, done, most, cause))
        except _MAYBE_WRITTEN:
            committed = self.provisioner.discard(done, draft)
            if committed is None:
                raise
            lease = committed
        self.quota.external.commit(draft.before, lease)
        present = {reservation.key: reservation for reservation in lease.live}
        added = tuple(present[item.reservation.key] for item in done.items)
        return WriteResult(lease, draft.already_reserved + added, is_new)

    def _admit(self, context: RequestContext, draft: Draft) -> Draft:
        """Check the calendar and the forecast; return the draft, perhaps of a queued lease.

        A lease that may be queued is also queued if capacity is sufficient but leases are queued.
        """
        services = self.services
        try:
            draft = self._admit_allocated(draft)
            if draft.needs_forecast:
                pool_forecast.check_draft(services, context, draft)
        except exceptions.NotEnough as exc:
            choice = self.preemption.find_servers(draft)
            if choice is not None:
                draft = draft.with_preemption(choice)
            elif not draft.may_wait:
                raise
            if not draft.may_wait:
                return draft
            reason = exc.message if choice is None else PREEMPTS
            return dataclasses.replace(draft, wait_reason=reason)
        behind = draft.may_wait and services.database.read(
            leases.is_any_waiting, draft.lease.priority
        )
        return dataclasses.replace(draft, wait_reason=_BEHIND) if behind else draft

    @retry
    def _admit_allocated(self, draft: Draft) -> Draft:
        """Check the calendar; return the draft, perhaps with the leases that it preempts.

        The index in memory is sufficient where an error of it only costs an unused trust: the
        transaction decides. If preemptible leases change between two reads, there may be capacity
        without preemption: all is checked again.

        :raises climate_core.exceptions.NotEnough: there is no capacity with preemption either
        """
        best_effort = draft.lease.kind == states.LeaseKind.BEST_EFFORT
        proposed = None if best_effort else allocation.propose_units(self.services, draft)
        try:
            if proposed is None:
                allocation.check_capacity(self.services, draft)
        except exceptions.NotEnough as exc:
            if draft.before is None and best_effort:
                hosts = self.host_evacuation.choose_hosts(draft, exc)
                reason = f'{words.counted(len(hosts), "shared host")} must be drained for it.'
                return dataclasses.replace(draft, wait_reason=reason, hosts_to_evacuate=hosts)
            choice = self.preemption.find(draft)
            if choice is None:
                raise
            return draft.with_preemption(choice)
        return dataclasses.replace(draft, proposed=proposed or frozenset())

    def _commit_with_trust(self, context: RequestContext, writing: DraftWrite) -> model.Lease:
        """Persist a draft, with another trust if the shared trust has been retired."""
        for _ in range(_TRUST_ATTEMPTS):
            try:
                return self._commit_or_queue(writing)
            except db_trusts.TrustRetired:
                self.provisioner.replace_trust(context, writing.done)
        raise exceptions.ServiceUnavailable(
            'The trust of the owner was retired several times while the lease was saved: try '
            'again.'
        )

    def _commit_or_queue(self, writing: DraftWrite) -> model.Lease:
        """Persist a draft; if its capacity is lost by now it is queued or preempts, if allowed."""
        draft = writing.draft
        try:
            return self._run_transaction(writing)
        except exceptions.NotEnough as exc:
            if draft.may_wait:
                draft = dataclasses.replace(draft, wait_reason=exc.message, preempted=())
            else:
                choice = self.preemption.find(draft)
                if choice is None:
                    raise
                draft = draft.with_preemption(choice)
        return self._run_transaction(writing._replace(draft=draft))

    def _run_transaction(self, writing: DraftWrite) -> model.Lease:
        """Write a draft in a transaction, perhaps with others of its project.

        :raises oslo_db.exception.DBDuplicateEntry: its id, or a resource, is taken
        :raises climate_core.exceptions.NotEnough: the calendar has no capacity for it
        :raises climate_core.db.trusts.TrustRetired: its trust is not to be shared any more
        """
        if not writing.draft.needs_no_calendar:
            return self.services.database.write(self.write_one, writing)
        lease = writing.draft.lease
        try:
            return self.run(writing, key=lease.id, line=lease.project_id)
        except exceptions.LimitExceeded:
            # The limits that the draft was checked with may have been raised since.
            most = self.quota.check_limits(lease, None)
            return self.run(writing._replace(most=most), key=lease.id, line=lease.project_id)

    # The transaction: all or nothing.

    def write_one(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        """Write a new lease, or add reservations to an existing lease, which is locked first."""
        project_id = writing.draft.lease.project_id
        project_limits.lock_project(session, project_id, writing.most)
        if writing.draft.before is None:
            return self._insert_lease(session, writing)
        return self._add_reservations(session, writing)

    def _insert_lease(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        draft, done, most, cause = writing
        lease, project_id = done.new_lease(draft), draft.lease.project_id
        if draft.hosts_to_evacuate:
            lease = self.host_evacuation.take_hosts(session, draft, lease)
        elif draft.wait_reason or draft.may_wait:
            lease = wait_queue.add(self.services.conf, draft, lease)
        adding = project_limits.sum_amounts(lease.live, leases=1)
        self.quota.note(project_id, project_limits.check_limits(session, project_id, adding, most))
        self.owner_trusts.keep(session, done.owner_trust)
        store.create(session, lease, draft.now, cause, not done.owner_trust.is_new)
        transaction = self.services.calendar.transaction(session)
        if draft.preempted:
            time = draft.preempt_at or draft.lease.start_date
            self.preemption.preempt(transaction, lease.id, draft.preempted, time, draft.now)
        if lease.status in states.UNGRANTED:
            return lease
        return self._allocate(transaction, draft, lease, lease.reservations)

    def _add_reservations(self, session: orm.Session, writing: DraftWrite) -> model.Lease:
        draft, done, most, cause = writing
        lease = leases.get(session, draft.lease.id, lock=True)
        missing = self._find_missing(lease, done)
        if not missing:
            return lease
        check_generation(lease, draft.generation)
        if cause.action in LIMITED:
            self.quota.check_changes(session, lease)
        project_limits.check_limits(
            session, lease.project_id, project_limits.sum_amounts(missing), most
        )
        joining = {reservation.id for reservation in missing}
        preparing = {key: done.preparing[key] for key in joining & done.preparing.keys()}
        change = resources.add_reservations(lease, missing, draft.now, preparing)
        self.quota.check_reservations(change.lease)
        after = store.save(session, lease, change, draft.now, cause)
        transaction = self.services.calendar.transaction(session)
        return self._allocate(transaction, draft, after, missing)

    def _allocate(
        self,
        transaction: CalendarTransaction,
        draft: Draft,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
    ) -> model.Lease:
        demands = allocation.read_demands(self.services.plugins, reservations, draft.fields)
        return allocation.allocate(
            self.services, transaction, lease, demands, draft.now, proposed=draft.proposed
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
        plugin = self.services.plugins[present.resource_type]
        keys = plugin.request_keys(present.lease_id, item.values)
        if set(keys).isdisjoint(plugin.reservation_keys(present)):
            raise exceptions.NameTaken(
                f'{present.resource_type} {present.resource_id} of this name could not be '
                'reserved and is being released; retry when it is deleted.',
                field='name',
            )
        if isinstance(plugin, Specified):
            plugin.check_match(present, item.values)

    def write_all(
        self, session: orm.Session, group: Sequence[DraftWrite]
    ) -> list[ItemResult[model.Lease]]:
        """Write new leases of one project; each is granted or rejected alone."""
        project_id = group[0].draft.lease.project_id
        most = next((writing.most for writing in group if writing.most is not None), None)
        project_limits.lock_project(session, project_id, most)
        used: Amounts = {} if most is None else project_limits.count_used(session, project_id)
        trusts = [writing.done.owner_trust for writing in group]
        live = db_trusts.lock_live(session, {trust.id for trust in trusts if not trust.is_new})
        outcomes: list[ItemResult[model.Lease]] = []
        new: list[store.NewLease] = []
        for writing, trust in zip(group, trusts, strict=True):
            lease = writing.done.new_lease(writing.draft)
            try:
                if not trust.is_new and trust.id not in live:
                    raise db_trusts.TrustRetired
                adding = project_limits.sum_amounts(lease.live, leases=1)
                used = project_limits.add_usage(writing.most, used, adding)
            except (exceptions.LimitExceeded, db_trusts.TrustRetired) as exc:
                outcomes.append((None, exc))
                continue
            self.owner_trusts.keep(session, trust)
            new.append(store.NewLease(lease, writing.draft.now, writing.cause))
            outcomes.append((lease, None))
        store.create_all(session, new)
        if most is not None:
            self.quota.note(project_id, used)
        return outcomes


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
                field=provisioned_plugin.MADE_FOR,
            )
        changed.append(dataclasses.replace(present, resource_id=reservation.resource_id))
    change = Change(lease.with_reservations(*changed))
    return store.save(session, lease, change, now, cause)
