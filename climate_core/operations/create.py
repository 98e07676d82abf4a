# SPDX-License-Identifier: Apache-2.0
"""Create a lease, or add reservations to one: read, reserve, admit, provision, write.

A create reads the request, has plugins claim what it asks for, checks limits, calendar and
forecast, creates the trust of the owner and the requested resources, and writes all of that in one
transaction or nothing. Equal requests give one lease, see
:mod:`climate_core.operations.idempotency`. A dry run takes the same steps up to the check, with an
:class:`~climate_core.lease.request.ErrorCollector` that collects all errors.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from oslo_db import exception as db_exc
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions, policies
from climate_core.concurrency import deadline
from climate_core.conf.delivery import webhook_rules
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import DATABASE_ERRORS, Stale
from climate_core.lease import changes, model, request, resources, states, views
from climate_core.lease.history import Cause, join_cause, user_cause
from climate_core.lease.request import RAISE_FIRST, ErrorCollector
from climate_core.lease.transitions import Change
from climate_core.operations import idempotency, lease_kinds, pool_forecast
from climate_core.operations.create_transaction import CreateTransaction, DraftWrite
from climate_core.operations.draft import Draft, Reserver
from climate_core.operations.preemption.leases import PREEMPTS, Preemption, PreemptionChoice
from climate_core.operations.provisioning import OwnerTrusts, Provisioner
from climate_core.operations.quota import Quota
from climate_core.operations.remote import check_allowed, remote
from climate_core.operations.services import EvacuationPlanner, Services
from climate_core.plugins import provisioned_plugin

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


class LeaseCreator:
    """Create leases and add reservations.

    :param on_write: called with a lease that was created, joined or found, and the time
    """

    def __init__(
        self,
        services: Services,
        quota: Quota,
        preemption: Preemption,
        planner: EvacuationPlanner,
        owner_trusts: OwnerTrusts,
        on_write: Callable[[model.Lease, datetime.datetime], None],
    ) -> None:
        self.services = services
        self.quota = quota
        self.preemption = preemption
        self.planner = planner
        self.provisioner = Provisioner(services.database, services.plugins, owner_trusts)
        self.transaction = CreateTransaction(services, quota, preemption, planner, owner_trusts)
        self.on_write = on_write

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
        self.on_write(written.lease, draft.now)
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
        self.on_write(written.lease, draft.now)
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
        chosen = request.chosen_id(context.project_id, values)
        digests = request.request_digests(
            values, chosen, provisioned_plugin.read_digest_keys(conf)
        )
        present = database.read(leases.find, chosen) if chosen else None
        if present is not None and digests:
            with errors.collected():
                request.check_repeated_request(present, digests)
            return Draft(present, (), now, present)
        asked = request.read_lease_request(values, now, self._rules(), errors, new=present is None)
        if present is not None:
            with errors.collected():
                idempotency.check_same_lease(asked, present, context.project_id)
            if present.project_id != context.project_id:
                # Nothing of the lease of another project may be shown.
                return Draft(present, (), now, present, request=asked)
        lease_id = chosen or uuidutils.generate_uuid()
        dated = (present.kind, present.start_date) if present else (asked.kind, asked.start)
        is_now = lease_kinds.creates_now(*dated, now)
        reserver = Reserver(self.services.plugins, context, lease_id, now, conf, present, is_now)
        with idempotency.detect_lease_appeared(database, lease_id, present):
            items, found = reserver.reserve_items(values.get('reservations') or (), errors)
        if present is not None:
            items = lease_kinds.fit_items(present.kind, items)
            new = [each.reservation for each in items]
            after = present
            with errors.collected():
                after = resources.add_reservations(present, new, now).lease
            return Draft(after, items, now, present, found, asked)
        kind: str = states.LeaseKind.IMMEDIATE
        # If all reservations are rejected, whether they suit the kind is not known.
        if items or not errors.found or not values.get('reservations'):
            kind = errors.get(kind, lease_kinds.choose_kind, asked.kind, items)
        items = lease_kinds.fit_items(kind, items)
        lease = changes.new_lease(
            lease_id,
            asked,
            digests[0] if digests else None,
            context,
            [each.reservation for each in items],
            now,
            conf.manager.before_start_seconds,
            self.quota.external.on_end,
            kind,
        )
        return Draft(lease, items, now, request=asked)

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
        is_now = lease_kinds.creates_now(lease.kind, lease.start_date, now)
        reserver = Reserver(
            self.services.plugins, context, lease_id, now, self.services.conf, lease, is_now
        )
        with idempotency.detect_lease_appeared(database, lease_id, lease):
            items, found = reserver.reserve_items([values], field='')
        if items:
            idempotency.check_generation(lease, generation)
        new = [each.reservation for each in items]
        after = resources.add_reservations(lease, new, now).lease
        return Draft(after, items, now, lease, found, generation=generation)

    def _rules(self) -> request.RequestRules:
        manager, queue = self.services.conf.manager, self.services.conf.queue
        return request.RequestRules(
            manager.minutes_before_end_lease,
            webhook_rules(self.services.conf),
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
        self.preemption.check(draft)
        try:
            with idempotency.detect_lease_appeared(database, draft.lease.id, draft.before):
                return self._write(context, draft)
        except idempotency.DUPLICATE_ERRORS as exc:
            return WriteResult(idempotency.find_equal_lease(database, context, draft, exc))

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
            return self.services.database.write(
                _write_created_resources, before.id, created, draft.now, cause
            )
        except db_exc.DBDuplicateEntry as exc:
            raise exceptions.ResourceReserved(field='resource_id') from exc

    def _write(self, context: RequestContext, draft: Draft) -> WriteResult:
        # Nothing is created before the transaction counts, so its count is sufficient.
        creates_nothing = draft.needs_no_calendar and all(
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
        database = self.services.database
        try:
            draft = self._admit_allocated(draft)
            pool_forecast.check_draft(database, self.services.cloud, context, draft)
        except exceptions.NotEnough as exc:
            choice = self.preemption.find_servers(draft)
            if choice is not None:
                draft = with_preemption(draft, choice)
            elif not draft.may_wait:
                raise
            if not draft.may_wait:
                return draft
            reason = exc.message if choice is None else PREEMPTS
            return dataclasses.replace(draft, wait_reason=reason)
        behind = draft.may_wait and database.read(leases.is_any_waiting, draft.lease.priority)
        return dataclasses.replace(draft, wait_reason=_BEHIND) if behind else draft

    def _admit_allocated(self, draft: Draft) -> Draft:
        """Check the calendar; return the draft, perhaps with the leases that it preempts.

        The index in memory is sufficient where an error of it only costs an unused trust: the
        transaction decides.

        :raises climate_core.exceptions.NotEnough: there is no capacity with preemption either
        """
        best_effort = draft.lease.kind == states.LeaseKind.BEST_EFFORT
        calendar = self.services.allocation_service
        proposed = None if best_effort else calendar.propose_units(draft)
        try:
            if proposed is None:
                calendar.check_capacity(draft)
        except exceptions.NotEnough as exc:
            if draft.before is None and best_effort:
                hosts = self.planner.choose_hosts(draft, exc)
                reason = f'{words.counted(len(hosts), "shared host")} must be emptied for it.'
                return dataclasses.replace(draft, wait_reason=reason, hosts_to_evacuate=hosts)
            choice = self.preemption.find(draft)
            if choice is None:
                raise
            return with_preemption(draft, choice)
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
        try:
            return self.transaction.write(writing)
        except exceptions.NotEnough as exc:
            if draft.may_wait:
                draft = dataclasses.replace(draft, wait_reason=exc.message, preempted=())
            else:
                choice = self.preemption.find(draft)
                if choice is None:
                    raise
                draft = with_preemption(draft, choice)
        return self.transaction.write(writing._replace(draft=draft))


def with_preemption(draft: Draft, choice: PreemptionChoice) -> Draft:
    """Return a draft that preempts leases."""
    return dataclasses.replace(
        draft,
        lease=choice.lease,
        preempted=choice.leases,
        preempt_at=choice.time,
        wait_reason=choice.wait_reason,
    )


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
