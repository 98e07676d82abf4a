# SPDX-License-Identifier: Apache-2.0
"""What the operations on leases need."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from oslo_config import cfg

from climate_core import exceptions
from climate_core.db.clock import Clock
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from climate_core.lease.model import Lease
from climate_core.plugins.base import Claimed, ResourcePlugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class Limits(Protocol):
    """Knows the limits of projects by name, see ``climate_core.cloud.limits``."""

    def of(self, project_id: str) -> Mapping[str, int]: ...


class External(Protocol):
    """Is asked about leases, see ``climate_core.cloud.external``."""

    @property
    def on_create(self) -> bool: ...

    @property
    def on_update(self) -> bool: ...

    @property
    def on_end(self) -> bool: ...

    def check_create(self, lease: Lease) -> None: ...

    def check_update(self, before: Lease, after: Lease) -> None: ...


class Unlimited:
    """No project has a limit."""

    def of(self, project_id: str) -> Mapping[str, int]:  # noqa: ARG002
        return {}


class Nobody:
    """No service is asked about leases."""

    on_create = on_update = on_end = False

    def check_create(self, lease: Lease) -> None:
        """Everything is permitted."""

    def check_update(self, before: Lease, after: Lease) -> None:
        """Everything is permitted."""


class Trusts(Protocol):
    """Makes and deletes the trusts of owners, see ``climate_core.cloud``."""

    def create(self, context: 'RequestContext') -> str: ...

    def delete(self, trust_id: str) -> None: ...


def asked(context: 'RequestContext', action: str) -> Cause:
    """Say for the history that a user asked for an action."""
    return Cause(action, user_id=context.user_id, request_id=context.global_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What the operations on leases need.

    :param clock: the one of the database
    :param plugins: resource type -> plugin
    :param limits: is asked only if ``[limits] enabled``
    """

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    trusts: Trusts
    limits: Limits = dataclasses.field(default_factory=Unlimited)
    external: External = dataclasses.field(default_factory=Nobody)

    def reserve(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        lease: Lease | None = None,
    ) -> tuple[str, Claimed]:
        """Ask the plugin whether a resource can be reserved.

        :param lease_id: of the lease that it is for
        :param lease: that, if it is there already; None if it is made with the reservation
        :returns: the type of the resource and what the plugin found
        :raises climate_core.exceptions.UnknownResourceType: no plugin for it is enabled
        :raises climate_core.exceptions.ClimateError: what the plugin says
        """
        resource_type = values.get('resource_type')
        plugin = self.plugins.get(str(resource_type))
        if plugin is None:
            known = ', '.join(sorted(self.plugins)) or 'none'
            raise exceptions.UnknownResourceType(
                f'{resource_type!r} is not a type of resource that can be reserved here; these '
                f'are: {known}.',
                field='resource_type',
            )
        if lease is not None and plugin.owner_only:
            _check_owner(context, lease, plugin)
        return plugin.resource_type, plugin.reserve_for(context, lease_id, values)


def _check_owner(context: 'RequestContext', lease: Lease, plugin: ResourcePlugin) -> None:
    """Refuse to join a lease that has the rights of another user of the project.

    :raises climate_core.exceptions.BadRequest: it does
    """
    if lease.project_id == context.project_id and lease.user_id != context.user_id:
        raise exceptions.BadRequest(
            f'Lease {lease.id} was made by another user of the project, with whose rights a '
            f'{plugin.title.lower()} of yours cannot be woken: it can only join a lease of yours.',
            field='resource_id',
        )
