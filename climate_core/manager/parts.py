# SPDX-License-Identifier: Apache-2.0
"""What the operations on leases need."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from oslo_config import cfg

from climate_core import exceptions
from climate_core.db.engine import Database
from climate_core.engine.clock import Clock
from climate_core.lease.history import Cause
from climate_core.plugins.base import Claimed, ResourcePlugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class Trusts(Protocol):
    """Makes and deletes the trusts of owners, see ``climate_core.cloud``."""

    def create(self, context: 'RequestContext') -> str: ...

    def delete(self, trust_id: str) -> None: ...


def asked(context: 'RequestContext', action: str) -> Cause:
    """Say for the history that a user asked for an action."""
    return Cause(action, user_id=context.user_id, request_id=context.request_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The configuration, the database, its clock, the plugins by resource type, the trusts."""

    conf: cfg.ConfigOpts
    database: Database
    clock: Clock
    plugins: Mapping[str, ResourcePlugin]
    trusts: Trusts

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> tuple[str, Claimed]:
        """Ask the plugin whether a resource can be reserved.

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
        return plugin.resource_type, plugin.reserve(context, values)
