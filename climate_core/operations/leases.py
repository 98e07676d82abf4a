# SPDX-License-Identifier: Apache-2.0
"""The operations on leases: create, change, start, end and delete them and their reservations.

Each change is one transaction that reads the lease with a lock and writes all or nothing. All
values are JSON types. Dates are the strings of the request, so that "now" is the time of the
database, see :func:`climate_common.dates.parse`.

A ``generation`` is that of the lease that the user has read; None: any. All operations raise
:class:`climate_core.exceptions.GenerationConflict` when the lease has another generation,
:class:`climate_core.exceptions.LeaseNotFound` when the lease does not exist, and another
:class:`climate_core.exceptions.ClimateError` when the request is rejected.
"""

import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import orm

from climate_core import packages, policies
from climate_core.calendar.calendar import Calendar
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.lease import changes, model, states, views
from climate_core.lease.events import end, start
from climate_core.lease.history import user_cause
from climate_core.lease.transitions import Change
from climate_core.operations import availability
from climate_core.operations.allocation_service import AllocationService
from climate_core.operations.create import LeaseWriter
from climate_core.operations.draft_builder import DraftBuilder, check_allowed, check_generation
from climate_core.operations.idempotent_create import retry_if_lease_appeared
from climate_core.operations.preemption import Preemption
from climate_core.operations.provisioning import OwnerTrusts, Provisioner
from climate_core.operations.quota import Quota
from climate_core.operations.remote import remote
from climate_core.operations.server_preemption import ServerPreemption
from climate_core.operations.services import HostEvacuation, NoEvacuation, Services
from climate_core.operations.update import LeaseUpdate, UpdateRequest
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins.base import PollAgain

#: A change that needs one transaction only -> the policy that must allow it on the lease.
_RULES: Final[Mapping[str, str]] = {
    'lease.start': policies.START_LEASE,
    'lease.end': policies.END_LEASE,
    'lease.delete': policies.DELETE_LEASE,
    'reservation.delete': policies.DELETE_RESERVATION,
}


class LeaseOperations:
    """Do what users request of leases.

    :param on_write: called with a lease that was created, joined or found, and the time
    """

    def __init__(
        self,
        services: Services,
        on_write: Callable[[model.Lease, datetime.datetime], None] = lambda _lease, _now: None,
    ) -> None:
        conf, database, clock = services.conf, services.database, services.clock
        plugins, calendar = services.plugins, services.calendar or Calendar(database)
        self.services, self.on_write = services, on_write
        self.conf, self.external = conf, services.external
        self.allocation_service = AllocationService(calendar, plugins)
        self.quota = Quota(conf, database, services.limits, self.external)
        self.builder = DraftBuilder(conf, database, clock, plugins, self.external)
        self.preemption = Preemption(
            conf,
            database,
            self.allocation_service,
            ServerPreemption(conf, database, clock, services.cloud),
        )
        self.queue = WaitQueue(services, self.allocation_service, self.quota, self.preemption)
        self.host_evacuation = self._create_evacuation(services)
        self.owner_trusts = OwnerTrusts(database, services.trusts, conf.cloud.owner_cache_size)
        self.lease_writer = LeaseWriter(
            services,
            self.quota,
            Provisioner(database, plugins, services.trusts, self.owner_trusts),
            self.allocation_service,
            self.host_evacuation.planner,
            self.preemption,
        )

    def _create_evacuation(self, services: Services) -> HostEvacuation:
        for package in packages.list_packages():
            found = package.create_evacuation(services, self.allocation_service, self.queue)
            if found is not None:
                return found
        return NoEvacuation()

    @property
    def lease_calls(self) -> dict[str, Callable[[model.Lease], PollAgain | None]]:
        """Return the functions that the engine calls, by the ``lease_call`` of event handlers."""
        return {
            'release_trust': self.owner_trusts.release,
            'notify_external_end': self.external.notify_end,
            'retry_lease': self.queue.retry,
            'make_room': self.host_evacuation.step,
        }

    def preempt_servers(self, lease: model.Lease) -> bool:
        """Preempt leases for a lease for whose servers Nova has just found no host, if possible.

        :raises climate_core.exceptions.ClimateError: try again later
        """
        return self.preemption.preempt_servers(lease, is_tried=True)

    @retry_if_lease_appeared
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
        draft = self.builder.build_lease(context, values)
        written = self.lease_writer.write_draft(context, draft)
        self.on_write(written.lease, draft.now)
        waits = written.lease.status == states.LeaseStatus.WAITING
        if written.is_new and not waits:
            return views.lease_view(written.lease, viewer_id=context.user_id)
        return written.lease.id

    @remote(policies.CREATE_LEASE, reserves=True)
    def check_lease(self, context: RequestContext, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a create, see :func:`.availability.dry_run_create`."""
        return availability.dry_run_create(self.builder, self.lease_writer, context, values)

    @remote(policies.GET_AVAILABILITY, reserves=True)
    def find_windows(
        self, context: RequestContext, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return when a lease would be granted, see :func:`.availability.find_windows`."""
        return availability.find_windows(
            self.builder, self.allocation_service, self.services.cloud, context, values
        )

    @remote(writes=True)
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
            (None removes it), ``events`` (instead of the ones of earlier requests),
            ``reservations`` (each ``id`` and what changes), ``partial`` (with a later end: extend
            what can be extended, see :mod:`climate_core.lease.changes`)
        :returns: the id of the lease
        """
        self._update(UpdateRequest(context, lease_id, values, generation))
        return lease_id

    @remote(writes=True)
    def delete_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Delete a lease: immediately if it holds nothing, otherwise when all of that is freed."""
        self._change(context, 'lease.delete', lease_id, generation, end.delete_lease)

    @remote(writes=True)
    def start_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Start a lease that waits for its user; InvalidState if it does not, or not yet."""
        self._change(context, 'lease.start', lease_id, generation, start.start_lease)

    @remote(writes=True)
    def end_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """End a lease now, or cancel it before its start; it stays readable."""
        self._change(context, 'lease.end', lease_id, generation, end.end_lease)

    @retry_if_lease_appeared
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
        draft = self.builder.build_reservation(context, lease_id, values, generation)
        written = self.lease_writer.write_draft(context, draft)
        self.on_write(written.lease, draft.now)
        return written.reservations[0].id

    @remote(writes=True)
    def update_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        """Change what the plugin of a reservation permits, until its end; return its id."""
        self._update(UpdateRequest(context, lease_id, values, generation, reservation_id))
        return reservation_id

    @remote(writes=True)
    def remove_reservation(
        self,
        context: RequestContext,
        lease_id: str,
        reservation_id: str,
        generation: int | None = None,
    ) -> None:
        """Free one resource and remove it from a lease, which continues."""
        change = functools.partial(changes.remove_reservation, reservation_id=reservation_id)
        self._change(context, 'reservation.delete', lease_id, generation, change)

    def _update(self, request: UpdateRequest) -> None:
        LeaseUpdate(self.services, self.quota, self.allocation_service, request).run()

    def _change(
        self,
        context: RequestContext,
        action: str,
        lease_id: str,
        generation: int | None,
        change: Callable[..., Change],
    ) -> None:
        """Write a change of a lease that needs no more than one transaction.

        :param change: returns the change of a lease ``now``
        """
        cause, now = user_cause(context, action), self.services.clock.now()

        def write(session: orm.Session) -> None:
            lease = leases.get(session, lease_id, lock=True)
            check_allowed(context, _RULES[action], lease)
            check_generation(lease, generation)
            store.save(session, lease, change(lease, now=now), now, cause)

        self.services.database.write(write)
