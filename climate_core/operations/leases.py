# SPDX-License-Identifier: Apache-2.0
"""The operations on leases: create, change, start, end and delete them and their reservations.

Each change is one transaction that reads the lease with a lock and writes all or nothing. All
values are JSON types. Dates are texts as the user wrote them, so that "now" is the now of the
database, see :func:`climate_common.dates.parse`.

Where a ``generation`` is taken, it is that of the lease that the user has seen; None if that does
not matter. All operations raise :class:`climate_core.exceptions.GenerationConflict` when the lease
has another one, :class:`climate_core.exceptions.LeaseNotFound` when there is no such lease, and
another :class:`climate_core.exceptions.ClimateError` when the request is refused.
"""

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.admission import Calendar
from climate_core.concurrency import check_deadline, deadline
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.db import limits as db_limits
from climate_core.db.clock import Clock
from climate_core.db.engine import Database
from climate_core.lease import api_view, changes, model, states
from climate_core.lease.errors import within
from climate_core.lease.events import reallocate
from climate_core.lease.history import LIMITED, Cause, user_cause
from climate_core.lease.limits import Amounts
from climate_core.lease.results import Change
from climate_core.operations import availability, pool_forecast, update
from climate_core.operations import draft as operations_draft
from climate_core.operations.allocation_service import AllocationService, NeedsReduction
from climate_core.operations.create import LeaseWriter
from climate_core.operations.draft_builder import (
    DraftBuilder,
    check_allowed,
    check_generation,
    webhook_rules,
)
from climate_core.operations.idempotent_create import retry_if_lease_appeared
from climate_core.operations.pool_forecast import NeedsForecast
from climate_core.operations.preemption import Preemption
from climate_core.operations.provisioning import OwnerTrusts, Provisioner
from climate_core.operations.quota import Quota, count_added
from climate_core.operations.server_preemption import ServerPreemption
from climate_core.operations.services import (
    ExternalService,
    LimitsService,
    NoExternalService,
    NoLimits,
    TrustService,
    UserConnector,
)
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins.base import ResourcePlugin, Wait
from climate_core.policies import leases as lease_rules
from climate_core.policies import reservations as reservation_rules
from climate_hosts.operations.making_room import RoomMaker
from climate_hosts.operations.reduction import ClosedUnits, Reduction
from climate_hosts.operations.room_steps import RoomSteps

_Change = Callable[[model.Lease, datetime.datetime], Change]


@dataclasses.dataclass(frozen=True, slots=True)
class _Requested:
    """Hold a change of a lease that a user asks for.

    :param rule: what the policy must have allowed on the lease
    :param limited: its project and the limits of that, if it may hold more than before
    :param fields: reservation id -> its place in the request
    :param partial: whether what cannot be extended keeps its end
    """

    context: RequestContext
    rule: str
    lease_id: str
    generation: int | None
    change: _Change
    limited: tuple[str, Amounts] | None = None
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    partial: bool = False

    def load(self, session: orm.Session, lock: bool = False) -> model.Lease:
        """Return the lease as it is now.

        :raises climate_core.exceptions.LeaseNotFound: there is none, or the policy did not allow
            this on it
        """
        lease = leases.get(session, self.lease_id, lock=lock)
        check_allowed(self.context, self.rule, lease)
        return lease


@dataclasses.dataclass
class LeaseOperations:
    """Do what users ask of leases."""

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    trusts: TrustService
    limits: LimitsService = dataclasses.field(default_factory=NoLimits)
    external: ExternalService = dataclasses.field(default_factory=NoExternalService)
    calendar: Calendar | None = None
    #: Gives the rights of the service, with which hosts are emptied and what is free is read.
    cloud: UserConnector | None = None
    #: Called with a lease that was made or joined, or was there, and the time.
    wrote: Callable[[model.Lease, datetime.datetime], None] = lambda _lease, _now: None

    def __post_init__(self) -> None:
        self.quota = Quota(self.conf, self.database, self.limits, self.external)
        self.builder = DraftBuilder(
            self.conf, self.database, self.clock, self.plugins, self.external
        )
        size = self.conf.cloud.owner_cache_size
        self.owner_trusts = OwnerTrusts(self.database, self.trusts, size)
        provisioner = Provisioner(self.database, self.plugins, self.trusts, self.owner_trusts)
        self.allocation_service = AllocationService(
            self.calendar or Calendar(self.database), self.plugins
        )
        find_servers = ServerPreemption(self.conf, self.database, self.clock, self.cloud)
        self.preemption = Preemption(
            self.conf, self.database, self.allocation_service, find_servers
        )
        self.queue = WaitQueue(
            self.conf,
            self.database,
            self.clock,
            self.plugins,
            self.allocation_service,
            self.quota,
            self.preemption,
            self.cloud,
        )
        self.reduction = Reduction(
            self.database, self.clock, self.plugins, self.allocation_service
        )
        self.evacuation_planner = RoomMaker(
            self.conf, self.database, self.allocation_service, self.cloud
        )
        self.host_evacuation = RoomSteps(self.evacuation_planner, self.queue, self.clock)
        self.lease_writer = LeaseWriter(
            self.database,
            self.quota,
            provisioner,
            self.plugins,
            self.allocation_service,
            self.queue,
            self.evacuation_planner,
            self.preemption,
        )

    @property
    def lease_calls(self) -> dict[str, Callable[[model.Lease], Wait | None]]:
        """Return what the engine calls for a lease, by the ``lease_call`` of an event handler."""
        return {
            'release_trust': self._release_trust,
            'notify_external_end': self.external.tell_end,
            'retry_lease': self.queue.retry,
            'make_room': self.host_evacuation.step,
        }

    def preempt_servers(self, lease: model.Lease) -> bool:
        """Tell whether others give way to a lease for whose servers Nova has just found no host.

        :raises climate_core.exceptions.ClimateError: it is to be asked again
        """
        return self.preemption.preempt_servers(lease, is_tried=True)

    def _release_trust(self, lease: model.Lease) -> None:
        self.owner_trusts.release(lease)

    @retry_if_lease_appeared
    def create_lease(
        self, context: RequestContext, values: Mapping[str, Any]
    ) -> api_view.CreatedLease:
        """Create a lease with its reservations, all or nothing.

        With an ``idempotency_key`` that an equal request had, its lease is the answer as it is.
        With an ``id`` that is taken by an equal lease of the same project, the reservations that
        it does not have yet join it. Without either, a request whose resources are held by an
        equal lease is answered with that lease.

        :param values: ``name``, ``end_date`` or ``duration``; perhaps ``id`` or
            ``idempotency_key``, ``may_join``, ``start_date`` (default now), ``before_end_date``,
            ``reservations`` (each ``resource_type`` and what its plugin takes), ``events`` (each
            ``event_type`` and ``time``), ``start_policy``, ``before_start``, ``webhook``,
            ``kind``, ``max_retries``, ``priority``, ``best_effort_timeout``, ``preemptible``;
            ``api_release``: the release of the API that asks
        :returns: a new lease as it is shown if the API shows it alike; else its id
        """
        draft = self.builder.build_lease(context, values)
        written = self.lease_writer.write_draft(context, draft)
        self.wrote(written.lease, draft.now)
        waits = written.lease.status == states.LeaseStatus.WAITING
        if written.is_new and not waits and values.get('api_release') == api_view.RELEASE:
            return api_view.lease(written.lease, viewer_id=context.user_id)
        return written.lease.id

    def check_lease(self, context: RequestContext, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what would become of :meth:`create_lease`, see :func:`.dry_run.check`."""
        return availability.dry_run_create(self.builder, self.lease_writer, context, values)

    def find_windows(
        self, context: RequestContext, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return when a lease would be granted, see :func:`.availability.find_windows`."""
        return availability.find_windows(
            self.builder, self.allocation_service, self.cloud, context, values
        )

    def update_lease(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change a lease; its events move in the same transaction.

        :param values: any of ``name``, ``start_date``, ``end_date``, ``duration``,
            ``before_end_date``, ``start_policy``, ``before_start``, ``priority``, ``webhook``
            (None takes it away), ``events`` (in place of those that were given),
            ``reservations`` (each ``id`` and what changes), ``partial`` (with a later end: extend
            what can be extended, see :mod:`climate_core.lease.changes.early_ends`)
        :returns: the id of the lease
        """
        rules = changes.update.UpdateRules(
            late=self.conf.manager.late_start_seconds,
            before_start=self.conf.manager.before_start_seconds,
            webhooks=webhook_rules(self.conf),
        )

        def change(lease: model.Lease, now: datetime.datetime) -> Change:
            items = []
            for place, item in enumerate(values.get('reservations') or ()):
                check_deadline()
                with within(f'reservations[{place}]'):
                    try:
                        kept = update.normalize_values(
                            self.plugins, context, lease, str(item.get('id')), item
                        )
                    except exceptions.ReservationNotFound as exc:
                        # Here it is not the resource of the request, but a mistake in the body.
                        raise exceptions.BadRequest(exc.message, field='id') from exc
                    items.append({'id': item['id'], **kept})
            asked = {**values, 'reservations': items} if items else values
            changed = changes.update.apply(lease, asked, now, rules)
            self.quota.check_time(changed.lease, now, lease)
            self.quota.check_events(changed.lease, lease)
            operations_draft.check_stored_bytes(lease, changed.lease)
            return update.recount_amounts(self.plugins, lease, changed, now)

        places = enumerate(values.get('reservations') or ())
        fields = {str(item.get('id')): f'reservations[{place}]' for place, item in places}
        partial = bool(values.get('partial'))
        requested = _Requested(
            context, lease_rules.UPDATE, lease_id, generation, change, None, fields, partial
        )
        requested = self._ask_external(requested)
        if values.get('reservations'):
            requested = self._limited(requested)
        self._change('lease.update', requested)
        return lease_id

    def delete_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Delete a lease: at once if it holds nothing, otherwise when all it holds is freed."""
        asked = _Requested(context, lease_rules.DELETE, lease_id, generation, changes.delete.apply)
        self._change('lease.delete', asked)

    def start_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Start a lease that waits for its user; InvalidState if it does not, or not yet."""
        asked = _Requested(context, lease_rules.START, lease_id, generation, changes.start.apply)
        self._change('lease.start', asked)

    def end_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """End a lease now, or cancel it before its start; it stays readable."""
        asked = _Requested(context, lease_rules.END, lease_id, generation, changes.end.apply)
        self._change('lease.end', asked)

    @retry_if_lease_appeared
    def add_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Let a resource join a lease of the same project.

        :param values: ``resource_type`` and what its plugin takes
        :returns: the id of the reservation, of several that of the first; also of one that holds
            this resource for this lease already, whatever the generation is then
        :raises climate_core.exceptions.ResourceReserved: another lease holds the resource
        """
        draft = self.builder.build_reservation(context, lease_id, values, generation)
        written = self.lease_writer.write_draft(context, draft)
        self.wrote(written.lease, draft.now)
        return written.reservations[0].id

    def update_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change what the plugin of a reservation lets change, until its end; return its id."""

        def change(lease: model.Lease, now: datetime.datetime) -> Change:
            kept = update.normalize_values(self.plugins, context, lease, reservation_id, values)
            changed = changes.change_reservation.apply(lease, reservation_id, kept, now)
            operations_draft.check_stored_bytes(lease, changed.lease)
            return update.recount_amounts(self.plugins, lease, changed, now)

        rule = reservation_rules.UPDATE
        requested = self._limited(_Requested(context, rule, lease_id, generation, change))
        self._change('reservation.update', requested)
        return reservation_id

    def remove_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        generation: int | None = None,
    ) -> None:
        """Free one resource and take it out of a lease that goes on."""

        def change(lease: model.Lease, now: datetime.datetime) -> Change:
            return changes.remove_reservation.apply(lease, reservation_id, now)

        rule = reservation_rules.DELETE
        self._change('reservation.delete', _Requested(context, rule, lease_id, generation, change))

    def _change(self, action: str, requested: _Requested) -> None:
        """Change a lease; what it gives back while it runs is put out of use before that."""
        lease_id, generation = requested.lease_id, requested.generation
        cause = user_cause(requested.context, action)
        write = functools.partial(self._write_change, cause, requested)
        try:
            write(generation)
        except NeedsForecast as needed:
            pool_forecast.check_moved(self.database, self.cloud, needed, self.clock.now())
            # What was found holds for the lease as it was then.
            write(needed.before.generation, is_admitted=True)
        except NeedsReduction:
            closing = self.reduction.closing(lease_id, generation, requested.change)
            with closing as closed, deadline(None):
                write(generation, closed)

    def _write_change(
        self,
        cause: Cause,
        requested: _Requested,
        generation: int | None,
        closed: ClosedUnits | None = None,
        is_admitted: bool = False,
    ) -> None:
        """Change a lease in one transaction.

        :param closed: what it gives back while it runs
        :param is_admitted: whether its new dates were found to do
        :raises climate_core.operations.pool_forecast.NeedsForecast: they were not, and must be
        :raises climate_core.operations.allocation_service.NeedsReduction: it gives back more than that
        """
        now = self.clock.now()
        limited, fields, partial = requested.limited, requested.fields, requested.partial

        def attempt(session: orm.Session) -> None:
            if limited is not None:
                # It comes first, so that what is counted is what others have written by now.
                db_limits.lock(session, *limited)
            lease = requested.load(session, lock=True)
            check_generation(lease, generation)
            if cause.action in LIMITED:
                self.quota.check_changes(session, lease)
            if closed is not None:
                closed.check(lease)
            changed = requested.change(lease, now)
            if not is_admitted:
                pool_forecast.check_change(lease, changed.lease)
            if limited is not None:
                project_id, most = limited
                db_limits.check(session, project_id, count_added(changed.lease, lease), most)
            after = store.save(session, lease, changed, now, cause)
            less = {} if closed is None else closed.less
            done = self.allocation_service.reallocate_changed(
                session, lease, after, now, fields, less, partial
            )
            if done.more or done.refused:
                last = changes.early_ends.add(lease, after, done.refused, now)
                awake = Change(reallocate.add(last, done.more, now))
                store.save(session, after, awake, now, cause)

        self.database.write(attempt)

    def _limited(self, requested: _Requested) -> _Requested:
        """Add the project of the lease and its limits, if the change adds to what it holds.

        The roles of a delegated token are compared here first: Keystone is not to be asked in the
        transaction.
        """
        if not self.quota.most.is_on and not requested.context.is_delegated:
            return requested
        lease = self.database.read(requested.load)
        most = self.quota.check_limits(requested.change(lease, self.clock.now()).lease, lease)
        limited = None if most is None else (lease.project_id, most)
        return dataclasses.replace(requested, limited=limited)

    def _ask_external(self, requested: _Requested) -> _Requested:
        """Ask the external service about a change before the transaction: it may take its time.

        :returns: with the generation that the lease must still have: the service permitted this
            change
        """
        if not self.external.on_update:
            return requested
        lease = self.database.read(requested.load)
        check_generation(lease, requested.generation)
        now = self.clock.now()
        after = requested.change(lease, now).lease
        if not self.quota.asks_external(after, lease):
            return requested
        self.quota.check_quota(after, now, lease)
        return dataclasses.replace(requested, generation=lease.generation)
