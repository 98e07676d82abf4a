# SPDX-License-Identifier: Apache-2.0
"""Share what the calls have in common about extra properties of hosts and of network segments."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import webob

from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import registered as schema
from climate_core.calendar.model import Access
from climate_core.context import RequestContext
from climate_core.db.extra_properties import ExtraProperties


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
        sees_all = policy.allows(backend.enforcer, context, self.private_rule, {})

        def is_shown(stored: Mapping[str, Any] | None) -> bool:
            access, mine = Access.load(stored), (context.project_id, context.project_domain_id)
            return sees_all or access is None or access.admits(*mine)

        found = backend.database.read(self.stored.values, is_shown)
        private = backend.database.read(self.stored.list_private)
        shown = [
            {'property': name, 'private': name in private, 'values': values}
            for name, values in found.items()
            if asked.get('all') or name not in private
        ]
        if not asked.get('detail'):
            shown = [{'property': each['property']} for each in shown]
        return answer(200, {'resource_properties': shown})

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

    def hidden(self, backend: Backend, request: Request) -> set[str]:
        """Return the names of the properties that the caller may not see."""
        if policy.allows(backend.enforcer, request.context, self.private_rule, {}):
            return set()
        return backend.database.read(self.stored.list_private)
