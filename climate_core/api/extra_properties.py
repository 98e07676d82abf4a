# SPDX-License-Identifier: Apache-2.0
"""Share what the calls have in common about extra properties of hosts and of network segments."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import webob

from climate_common import resource_types
from climate_core.api import policy, sight
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import registered as schema
from climate_core.context import RequestContext
from climate_core.db import extra_properties
from climate_core.db.extra_properties import ExtraProperties
from climate_hosts import policies as host_rules
from climate_networks.policies import networks as network_rules


@dataclasses.dataclass(frozen=True, slots=True)
class PropertyCalls:
    """The calls about the extra properties of something; their callers judge who may make them.

    :param stored: the properties in the database
    :param resource_type: of what has them
    :param private_rule: the policy of seeing those that users may not see
    """

    stored: ExtraProperties
    resource_type: str
    private_rule: str

    def list_(self, backend: Backend, request: Request) -> webob.Response:
        """List the extra properties that there are.

        Callers who may not see private ones are shown those of what they can reserve.
        """
        context, asked = request.context, request.parameters
        if asked.get('all'):
            policy.authorize(backend.enforcer, context, self.private_rule, {})
        found = self.values(backend, context)
        private = backend.database.read(self.stored.list_private)
        shown = [
            {'property': name, 'private': name in private, 'values': values}
            for name, values in found.items()
            if asked.get('all') or name not in private
        ]
        if not asked.get('detail'):
            shown = [{'property': each['property']} for each in shown]
        return answer(200, {'resource_properties': shown})

    def values(self, backend: Backend, context: RequestContext) -> dict[str, list[Any]]:
        """Return the extra properties of what the caller can reserve, with their values."""
        is_seen = sight.of(context, self._sees_private(backend, context))
        return backend.database.read(self.stored.values, is_seen)

    def update(
        self, request: Request, name: str, change: Callable[[RequestContext, str, bool], None]
    ) -> webob.Response:
        """Make an extra property private, or public again.

        :param change: the operation that does so
        """
        private = request.read(schema.UPDATE_PROPERTY)['private']
        change(request.context, name, private)
        shown = {
            'id': name,
            'resource_type': self.resource_type,
            'property_name': name,
            'private': private,
        }
        return answer(200, {'resource_property': shown})

    def hidden(self, backend: Backend, context: RequestContext) -> set[str]:
        """Return the names of the properties that the caller may not see."""
        if self._sees_private(backend, context):
            return set()
        return backend.database.read(self.stored.list_private)

    def _sees_private(self, backend: Backend, context: RequestContext) -> bool:
        return policy.allows(backend.enforcer, context, self.private_rule, {})


HOSTS: Final = PropertyCalls(extra_properties.HOSTS, resource_types.HOST, host_rules.GET_PRIVATE)
SEGMENTS: Final = PropertyCalls(
    extra_properties.SEGMENTS, resource_types.NETWORK, network_rules.GET_PRIVATE
)
