# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the services that the operations ask, and of those that are not configured."""

from collections.abc import Mapping
from typing import Protocol

from climate_core.context import RequestContext
from climate_core.lease.model import Lease


class LimitsService(Protocol):
    """Return the limits of a project by name, see ``climate_core.cloud.limits``."""

    def of(self, project_id: str) -> Mapping[str, int]: ...


class ExternalService(Protocol):
    """Permit or refuse leases, see ``climate_core.cloud.external``."""

    @property
    def on_create(self) -> bool: ...
    @property
    def on_update(self) -> bool: ...
    @property
    def on_end(self) -> bool: ...
    def check_create(self, lease: Lease) -> None: ...
    def check_update(self, before: Lease, after: Lease) -> None: ...
    def tell_end(self, lease: Lease) -> None: ...


class TrustService(Protocol):
    """Make and delete the trusts of owners, see ``climate_core.cloud.trusts``."""

    def create(self, context: RequestContext) -> str: ...
    def delete(self, trust_id: str) -> None: ...


class NoLimits:
    """Limit no project."""

    def of(self, project_id: str) -> Mapping[str, int]:  # noqa: ARG002
        return {}


class NoExternalService:
    """Permit every lease."""

    on_create = on_update = on_end = False

    def check_create(self, lease: Lease) -> None:
        """Permit the lease."""

    def check_update(self, before: Lease, after: Lease) -> None:
        """Permit the change."""

    def tell_end(self, lease: Lease) -> None:
        """Tell nobody."""
