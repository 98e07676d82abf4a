# SPDX-License-Identifier: Apache-2.0
"""The services that the operations use: interfaces, defaults if not configured, and their set."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from oslo_config import cfg
from sqlalchemy import orm

from climate_core.calendar.calendar import Calendar
from climate_core.context import RequestContext
from climate_core.db.engine import Clock, Database
from climate_core.exceptions import NotEnough
from climate_core.lease.model import Lease, TrustScope
from climate_core.plugins.base import PollAgain, ResourcePlugin

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.operations.draft import Draft


class LimitsService(Protocol):
    """Return the limits of a project by name, see ``climate_core.cloud.limits``."""

    @property
    def is_on(self) -> bool:
        """Return whether projects may have limits."""

    def of(self, project_id: str) -> Mapping[str, int] | None:
        """Return the limits of a project by the names of amounts, -1: unlimited; None: no limits.

        :raises climate_core.exceptions.ServiceUnavailable: they cannot be read now
        """

    def recent(self, project_id: str) -> Mapping[str, int] | None:
        """Return them as they are, or were seconds ago; use :meth:`of` before a rejection."""


class ExternalService(Protocol):
    """Permit or reject leases, see ``climate_core.cloud.external``."""

    @property
    def on_create(self) -> bool:
        """Return whether it checks new leases."""

    @property
    def on_update(self) -> bool:
        """Return whether it checks changes."""

    @property
    def on_end(self) -> bool:
        """Return whether it is notified of ends."""

    def check_create(self, lease: Lease) -> None:
        """Raise LeaseNotPermitted if a lease may not be created."""

    def check_update(self, before: Lease, after: Lease) -> None:
        """Raise LeaseNotPermitted if a lease may not be changed so."""

    def notify_end(self, lease: Lease) -> None:
        """Notify the service that a lease has ended, at least once.

        :raises climate_core.exceptions.Transient: try again later
        """


class EvacuationPlanner(Protocol):
    """Choose the hosts that are evacuated for a lease of the kind best_effort."""

    def choose_hosts(self, draft: 'Draft', refused: NotEnough) -> tuple[int, ...]:
        """Return the ids of the hosts that are to be evacuated for a new lease.

        :param refused: the rejection without an evacuation
        :raises climate_core.exceptions.NotEnough: too few can be evacuated
        :raises climate_core.exceptions.BadRequest: the lease starts too late
        """

    def take_hosts(self, session: orm.Session, draft: 'Draft', lease: Lease) -> Lease:
        """Take the hosts that are to be evacuated for the new lease of a draft; return the lease.

        :raises climate_core.exceptions.NotEnough: another lease has taken one of them
        """


class HostEvacuation(Protocol):
    """Evacuate hosts for leases."""

    @property
    def planner(self) -> EvacuationPlanner:
        """Return what chooses the hosts."""

    def step(self, lease: Lease) -> PollAgain | None:
        """Take the next step of the evacuation for a lease.

        :returns: until when to wait; None: the lease needs no evacuation any more
        :raises climate_core.exceptions.Permanent: it timed out
        """


class NoEvacuation:
    """Evacuate no hosts: no installed package has any."""

    @property
    def planner(self) -> Self:
        """Return this object."""
        return self

    def choose_hosts(self, draft: 'Draft', refused: NotEnough) -> tuple[int, ...]:  # noqa: ARG002
        """Reject the lease."""
        raise refused

    def take_hosts(self, session: orm.Session, draft: 'Draft', lease: Lease) -> Lease:  # noqa: ARG002
        """Return the lease."""
        return lease

    def step(self, lease: Lease) -> None:
        """Evacuate nothing."""


class NoLimits:
    """Limit no project."""

    is_on = False

    def of(self, project_id: str) -> None:
        """Return no limits."""

    recent = of


class NoExternalService:
    """Permit every lease."""

    on_create = on_update = on_end = False

    def check_create(self, lease: Lease) -> None:
        """Permit the lease."""

    def check_update(self, before: Lease, after: Lease) -> None:
        """Permit the change."""

    def notify_end(self, lease: Lease) -> None:
        """Notify no service."""


class TrustService(Protocol):
    """Create and delete the trusts of owners, see ``climate_core.cloud.trusts``."""

    def check(self, context: RequestContext) -> None:
        """Raise what :meth:`create` would. Nothing is created."""

    def scope(self, context: RequestContext) -> TrustScope | None:
        """Return what a trust of this request delegates; None if leases must not share it."""

    def create(self, context: RequestContext, roles: Sequence[str] | None = None) -> str:
        """Create a trust of the user of a request; return its id.

        :param roles: the names of those that are delegated; default: as it is configured
        """

    def roles(self, trust_id: str) -> Sequence[str]:
        """Return the names of the roles that are delegated now, from Keystone.

        :raises climate_core.cloud.errors.TrustRefused: Keystone rejects the trust
        :raises climate_core.exceptions.Transient: try again later
        """

    def delete(self, trust_id: str) -> None:
        """Delete a trust; a missing trust is no error.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: Keystone forbids it
        """


class UserConnector(Protocol):
    """Give connections with the rights of the service, and of a user."""

    def service(self) -> 'connections.Connection':
        """Return the connection with the rights of the service."""

    def user(self, context: RequestContext) -> 'connections.Connection':
        """Return the connection with the rights of the user of a request."""


class ServiceConnector(Protocol):
    """Give the connection with the rights of the service, see ``climate_core.cloud``."""

    def service(self) -> 'connections.Connection':
        """Return the connection."""


@dataclasses.dataclass(frozen=True)
class Services:
    """The parts of a manager that its operations share.

    :ivar calendar: None: a calendar of the database
    :ivar cloud: connections to read free capacity and to drain hosts; None: there is no cloud
    """

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    trusts: TrustService
    limits: LimitsService = dataclasses.field(default_factory=NoLimits)
    external: ExternalService = dataclasses.field(default_factory=NoExternalService)
    calendar: Calendar | None = None
    cloud: UserConnector | None = None
