# SPDX-License-Identifier: Apache-2.0
"""List the types of resources that can be reserved."""

from typing import Any

import webob

from climate_common import resource_types
from climate_core import policies
from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import reservations
from climate_core.plugins import base


def list_(backend: Backend, request: Request) -> webob.Response:
    """List every type of resource, with the schema of a reservation."""
    policy.authorize(backend.enforcer, request.context, policies.GET_PLUGINS, {})
    return answer(200, {'plugins': [_serialize(each) for each in backend.plugins.values()]})


def _serialize(plugin: type[base.ResourcePlugin]) -> dict[str, Any]:
    return {
        'resource_type': resource_types.api_name(plugin.resource_type),
        'title': plugin.title,
        'description': plugin.description,
        'schema': reservations.of_plugin(plugin),
    }
