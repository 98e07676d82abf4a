# SPDX-License-Identifier: Apache-2.0
"""The operations on leases, and how they are put together.

Each change is one transaction that reads the lease with a lock and writes all or nothing. All
values are JSON types. Dates are the strings of the request, so that "now" is the time of the
database, see :func:`climate_common.dates.parse`.

A ``generation`` is that of the lease that the user has read; None: any. All operations raise
:class:`climate_core.exceptions.GenerationConflict` when the lease has another generation,
:class:`climate_core.exceptions.LeaseNotFound` when the lease does not exist, and another
:class:`climate_core.exceptions.ClimateError` when the request is rejected.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from climate_core import packages, policies
from climate_core.cloud.external import ExternalService
from climate_core.cloud.limits import Limits
from climate_core.context import RequestContext
from climate_core.lease import model
from climate_core.lease.changes import lifecycle, reservations
from climate_core.lease.transitions import Change
from climate_core.operations import availability
from climate_core.operations.create import LeaseCreator
from climate_core.operations.preemption.leases import Preemption
from climate_core.operations.provisioning import OwnerTrusts
from climate_core.operations.queue.wait_queue import WaitQueue
from climate_core.operations.quota import Quota
from climate_core.operations.remote import remote
from climate_core.operations.services import HostEvacuation, NoEvacuation, Services
from climate_core.operations.shrink import LeaseShrinker
from climate_core.operations.update import LeaseUpdater, RequestedChange
from climate_core.plugins.base import PollAgain


class LeaseOperations:
    """The operations of a manager on leases.

    :param on_write: called with a lease that was created, joined or found, and the time
    """

    def __init__(
        self,
        services: Services,
        on_write: Callable[[model.Lease, datetime.datetime], None] = lambda _lease, _now: None,
    ) -> None:
        conf, cloud = services.conf, services.cloud
        self.services = services
        self.allocation_service = services.allocation_service
        self.quota = Quota(
            conf, services.database, Limits(conf, cloud), ExternalService(conf, cloud)
        )
        self.preemption = Preemption(services)
        self.queue = WaitQueue(services, self.quota, self.preemption)
        self.host_evacuation = self._create_evacuation()
        self.owner_trusts = OwnerTrusts(
            services.database, services.trusts, conf.cloud.owner_cache_size
        )
        self.creator = LeaseCreator(
            services,
            self.quota,
            self.preemption,
            self.host_evacuation.planner,
            self.owner_trusts,
            on_write,
        )
        self.updater = LeaseUpdater(
            services,
            self.quota,
            self.allocation_service,
            LeaseShrinker(
                services.database, services.clock, services.plugins, self.allocation_service
            ),
        )

    def _create_evacuation(self) -> HostEvacuation:
        for package in packages.list_packages():
            evacuation = package.create_evacuation(self.services, self.queue)
            if evacuation is not None:
                return evacuation
        return NoEvacuation()

    @property
    def lease_calls(self) -> dict[str, Callable[[model.Lease], PollAgain | None]]:
        """Return the functions that the engine calls, by the ``lease_call`` of event handlers."""
        return {
            'release_trust': self.owner_trusts.release,
            'notify_external_end': self.quota.external.notify_end,
            'retry_lease': self.queue.retry,
            'make_room': self.host_evacuation.step,
        }

    def preempt_servers(self, lease: model.Lease) -> bool:
        """Preempt leases for a lease for whose servers Nova has just found no host, if possible.

        :raises climate_core.exceptions.ClimateError: try again later
        """
        return self.preemption.preempt_servers(lease, is_tried=True)

    @remote(policies.CREATE_LEASE, reserves=True)
    def check_lease(self, context: RequestContext, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a create, see :func:`.availability.dry_run_create`."""
        return availability.dry_run_create(self.creator, context, values)

    @remote(policies.GET_AVAILABILITY, reserves=True)
    def find_windows(
        self, context: RequestContext, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return when a lease would be granted, see :func:`.availability.find_windows`."""
        return availability.find_windows(self.services, context, values)

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
            what can be extended, see :mod:`climate_core.lease.changes.update`)
        :returns: the id of the lease
        """
        self.updater.update_lease(context, lease_id, values, generation)
        return lease_id

    @remote(writes=True)
    def delete_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Delete a lease: immediately if it holds nothing, otherwise when all of that is freed."""
        self.updater.write(
            'lease.delete',
            RequestedChange(
                context, policies.DELETE_LEASE, lease_id, generation, lifecycle.delete_lease
            ),
        )

    @remote(writes=True)
    def start_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Start a lease that waits for its user; InvalidState if it does not, or not yet."""
        self.updater.write(
            'lease.start',
            RequestedChange(
                context, policies.START_LEASE, lease_id, generation, lifecycle.start_lease
            ),
        )

    @remote(writes=True)
    def end_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """End a lease now, or cancel it before its start; it stays readable."""
        self.updater.write(
            'lease.end',
            RequestedChange(
                context, policies.END_LEASE, lease_id, generation, lifecycle.end_lease
            ),
        )

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
        self.updater.update_reservation(context, lease_id, reservation_id, values, generation)
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

        def change(lease: model.Lease, now: datetime.datetime) -> Change:
            return reservations.remove_reservation(lease, reservation_id, now)

        rule = policies.DELETE_RESERVATION
        requested = RequestedChange(context, rule, lease_id, generation, change)
        self.updater.write('reservation.delete', requested)
