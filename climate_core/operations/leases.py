# SPDX-License-Identifier: Apache-2.0
"""The operations on leases, assembled from their parts.

Each change is one transaction that reads the lease with a lock and commits all or nothing. All
values are JSON types. Dates are the strings of the request, so that "now" is the time of the
database, see :func:`climate_common.dates.parse`.

A ``generation`` is that of the lease that the user has read; None: any. All operations raise
:class:`climate_core.exceptions.GenerationConflict` when the lease has another generation,
:class:`climate_core.exceptions.LeaseNotFound` when the lease does not exist, and another
:class:`climate_core.exceptions.ClimateError` when the request is rejected.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import orm

from climate_core import packages, policies
from climate_core.cloud.external_service import ExternalService
from climate_core.cloud.limits import Limits
from climate_core.context import RequestContext
from climate_core.db import leases, store
from climate_core.lease import model, resources
from climate_core.lease.events import end, start
from climate_core.lease.history import user_cause
from climate_core.lease.transitions import Change
from climate_core.operations import availability
from climate_core.operations.allocation import describe_units
from climate_core.operations.create import LeaseCreator
from climate_core.operations.preemption import Preemption
from climate_core.operations.provisioning import OwnerTrusts
from climate_core.operations.quota import Quota
from climate_core.operations.remote import check_allowed, check_generation, remote
from climate_core.operations.services import HostEvacuation, Services
from climate_core.operations.update import LeaseUpdate, UpdateRequest
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins.base import PollAgain

#: A change that needs one transaction only -> the policy that must allow it on the lease, and what
#: returns the change.
_CHANGES: Final[Mapping[str, tuple[str, Callable[..., Change]]]] = {
    'lease.start': (policies.START_LEASE, start.start_lease),
    'lease.end': (policies.END_LEASE, end.end_lease),
    'lease.delete': (policies.DELETE_LEASE, end.delete_lease),
    'reservation.delete': (policies.DELETE_RESERVATION, resources.remove_reservation),
}


class LeaseOperations:
    """The operations of a manager on leases."""

    def __init__(self, services: Services) -> None:
        conf, cloud = services.conf, services.cloud
        self.services = services
        external = ExternalService(conf, cloud, functools.partial(describe_units, services))
        self.quota = Quota(conf, services.database, Limits(conf, cloud), external)
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
            self.host_evacuation,
            self.owner_trusts,
        )

    def _create_evacuation(self) -> HostEvacuation:
        for package in packages.list_packages():
            evacuation = package.create_evacuation(self.services, self.queue)
            if evacuation is not None:
                return evacuation
        return HostEvacuation()

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
            what can be extended, see :mod:`climate_core.lease.changes`)
        :returns: the id of the lease
        """
        request = UpdateRequest(context, lease_id, values, generation)
        LeaseUpdate(self.services, self.quota, request).run()
        return lease_id

    @remote(writes=True)
    def delete_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Delete a lease: immediately if it claims nothing, otherwise when that is freed."""
        self._change(context, 'lease.delete', lease_id, generation)

    @remote(writes=True)
    def start_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """Start a lease with start_policy manual; InvalidState if it cannot be started now."""
        self._change(context, 'lease.start', lease_id, generation)

    @remote(writes=True)
    def end_lease(
        self, context: RequestContext, lease_id: str, generation: int | None = None
    ) -> None:
        """End a lease now, or cancel it before its start; it stays readable."""
        self._change(context, 'lease.end', lease_id, generation)

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
        request = UpdateRequest(context, lease_id, values, generation, reservation_id)
        LeaseUpdate(self.services, self.quota, request).run()
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
        self._change(context, 'reservation.delete', lease_id, generation, reservation_id)

    def _change(
        self,
        context: RequestContext,
        action: str,
        lease_id: str,
        generation: int | None,
        *args: str,
    ) -> None:
        """Write a change of a lease that needs no more than one transaction."""
        (rule, change), now = _CHANGES[action], self.services.clock.now()

        def write(session: orm.Session) -> None:
            lease = leases.get(session, lease_id, lock=True)
            check_allowed(context, rule, lease)
            check_generation(lease, generation)
            store.save(session, lease, change(lease, *args, now), now, user_cause(context, action))

        self.services.database.write(write)
