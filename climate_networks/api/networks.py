# SPDX-License-Identifier: Apache-2.0
"""Network segments that are set apart for leases, in the words of Blazar's clients."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import webob

from climate_common import resource_types
from climate_core.api import policy, registered_units
from climate_core.api.request import Backend, Request, answer, next_links, page_body, page_limit
from climate_networks.api import network_schemas as schema
from climate_networks.api import views
from climate_networks.db import networks as db
from climate_networks.domain.networks import FACTS
from climate_networks.policies import networks as rules

_CHANGING: Final = ('project_ids', 'domain_ids')
_OWN: Final = (*FACTS, 'segment_range', *_CHANGING)


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the network segments that are set apart for leases, in the order of their ids.

    Those that are for other projects alone are only for callers who may see all.
    """
    _authorize(backend, request, rules.GET)
    asked, is_operator = request.parameters, _is_operator(backend, request)
    query = db.SegmentQuery(
        **{name: asked.get(name) for name in FACTS},
        is_seen=policy.visibility_check(request.context, is_operator),
        marker=asked.get('marker', 0),
        limit=page_limit(backend, request),
    )
    found, more = backend.database.read(db.page, query)
    links = next_links(request, str(found[-1].id)) if more else None
    hidden = registered_units.SEGMENT_PROPERTIES.list_hidden(backend, request.context)
    shown = [views.network(each, is_operator, hidden) for each in found]
    return answer(200, page_body('networks', shown, links))


def show(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Show one of them."""
    _authorize(backend, request, rules.GET)
    is_operator = _is_operator(backend, request)
    is_seen = policy.visibility_check(request.context, is_operator)
    found = backend.database.read(db.get, _number(network_id), False, is_seen)
    hidden = registered_units.SEGMENT_PROPERTIES.list_hidden(backend, request.context)
    return answer(200, {'network': views.network(found, is_operator, hidden)})


def create(backend: Backend, request: Request) -> webob.Response:
    """Set network segments apart for leases, all of them or none.

    No network of Neutron may have one of them.
    """
    _authorize(backend, request, rules.CREATE)
    values = _normal(request.read_body(schema.CREATE), _OWN)
    hidden = registered_units.SEGMENT_PROPERTIES.list_hidden(backend, request.context)
    shown = [
        views.network(backend.database.read(db.get, each), is_operator=True, hidden=hidden)
        for each in backend.manager.create_networks(request.context, values)
    ]
    more = {'networks': shown} if 'segment_range' in values else {}
    return answer(201, {'network': shown[0], **more})


def update(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Change a segment: its extra properties, its projects, and whether it takes new promises.

    What is promised of it already stays.
    """
    _authorize(backend, request, rules.UPDATE)
    values = _normal(request.read_body(schema.UPDATE), (*_CHANGING, 'generation'))
    number = _number(network_id)
    backend.manager.update_network(request.context, number, values)
    found, hidden = (
        backend.database.read(db.get, number),
        registered_units.SEGMENT_PROPERTIES.list_hidden(backend, request.context),
    )
    shown = views.network(found, is_operator=True, hidden=hidden)
    return answer(200, {'network': shown})


def delete(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Take one away from those for leases; nothing changes in Neutron."""
    _authorize(backend, request, rules.DELETE)
    backend.manager.delete_network(request.context, _number(network_id))
    return answer(204)


def properties(backend: Backend, request: Request) -> webob.Response:
    """List the extra properties that network segments have.

    Callers who may not see private ones are shown those of segments that they can reserve.
    """
    _authorize(backend, request, rules.GET_PROPERTIES)
    return registered_units.SEGMENT_PROPERTIES.list_(backend, request)


def update_property(backend: Backend, request: Request, property_name: str) -> webob.Response:
    """Make an extra property private, or public again."""
    _authorize(backend, request, rules.UPDATE_PROPERTIES)
    return registered_units.SEGMENT_PROPERTIES.update(
        request, property_name, backend.manager.set_network_property
    )


def _authorize(backend: Backend, request: Request, rule: str) -> None:
    registered_units.authorize(backend, request, rule, resource_types.NETWORK)


def _is_operator(backend: Backend, request: Request) -> bool:
    return policy.allows(backend.enforcer, request.context, rules.GET_RESTRICTED, {})


def _number(network_id: str) -> int:
    return registered_units.require_unit_id(network_id, db.not_found)


def _normal(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a request in the words of the operations on networks.

    :param names: of what is no extra property
    """
    given = registered_units.flatten_values(body)
    normal = {name: given.pop(name) for name in names if name in given}
    if 'reservable' in given:
        normal['available'] = registered_units.parse_flag(given.pop('reservable'))
    return {**normal, 'extra': given}
