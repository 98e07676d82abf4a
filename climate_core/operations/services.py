# SPDX-License-Identifier: Apache-2.0
"""The services that the operations use, as interfaces, and those that are not configured."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from climate_core.context import RequestContext
from climate_core.lease.model import Lease
from climate_core.lease.trust_scope import TrustScope


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
        """Return them as they are, or were a few seconds ago; ask :meth:`of` before a refusal."""


class ExternalService(Protocol):
    """Permit or refuse leases, see ``climate_core.cloud.external``."""

    @property
    def on_create(self) -> bool:
        """Return whether it is asked about new leases."""

    @property
    def on_update(self) -> bool:
        """Return whether it is asked about changes."""

    @property
    def on_end(self) -> bool:
        """Return whether it is told of ends."""

    def check_create(self, lease: Lease) -> None:
        """Raise LeaseNotPermitted if a lease may not be made."""

    def check_update(self, before: Lease, after: Lease) -> None:
        """Raise LeaseNotPermitted if a lease may not be changed so."""

    def tell_end(self, lease: Lease) -> None:
        """Tell that a lease is over; it may be told twice.

        :raises climate_core.exceptions.Transient: say it again later
        """


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

    def tell_end(self, lease: Lease) -> None:
        """Tell nobody."""


class TrustService(Protocol):
    """Make and delete the trusts of owners, see ``climate_core.cloud.trusts``."""

    def check(self, context: RequestContext) -> None:
        """Raise what :meth:`create` would. Nothing is created."""

    def scope(self, context: RequestContext) -> TrustScope | None:
        """Return what a trust of this request delegates; None if no other lease may share it."""

    def create(self, context: RequestContext, roles: Sequence[str] | None = None) -> str:
        """Make a trust of the user of a request; return its id.

        :param roles: the names of those that are delegated; default: as it is configured
        """

    def roles(self, trust_id: str) -> Sequence[str]:
        """Return the names of the roles that are delegated, as Keystone says now.

        :raises climate_core.cloud.errors.TrustRefused: they are delegated no more
        :raises climate_core.exceptions.Transient: try again later
        """

    def delete(self, trust_id: str) -> None:
        """Delete a trust; one that is gone is no error.

        :raises climate_core.exceptions.Transient: try again later
        :raises climate_core.exceptions.Permanent: Keystone does not let the service
        """


class UserConnector(Protocol):
    """Give connections with the rights of the service, and of a user."""

    def service(self) -> 'connection.Connection':
        """Return the connection with the rights of the service."""

    def user(self, context: RequestContext) -> 'connection.Connection':
        """Return the connection with the rights of the user of a request."""


class ServiceConnector(Protocol):
    """Give the connection with the rights of the service, see ``climate_core.cloud``."""

    def service(self) -> 'connection.Connection':
        """Return the connection."""
