# SPDX-License-Identifier: Apache-2.0
"""Handle requests for floating IPs and network segments, in the format of Blazar's clients."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import webob

from climate_common import resource_types
from climate_core import exceptions
from climate_core.api import policy, registered_units
from climate_core.api.request import Backend, Request, answer, next_links, page_body, page_limit
from climate_core.lease import views
from climate_networks import db
from climate_networks import policies as rules
from climate_networks import schemas as schema
from climate_networks.operations import FloatingIpOperations, NetworkOperations
from climate_networks.units import SEGMENT_FACTS, FloatingIp, RegisteredSegment

PROPERTIES: Final = registered_units.PropertyCalls(
    db.SEGMENT_PROPERTIES,
    resource_types.NETWORK,
    rules.GET_PRIVATE_NETWORK_PROPERTIES,
    exceptions.UnknownSegmentProperty,
    SEGMENT_FACTS,
)


def list_floatingips(backend: Backend, request: Request) -> webob.Response:
    """List the floating IPs that are registered for leases, in the order of their ids."""
    _authorize_floatingips(backend, request, rules.GET_FLOATING_IPS)
    asked = request.parameters
    query = db.FloatingIpQuery(
        network_id=asked.get('floating_network_id'),
        address=asked.get('floating_ip_address'),
        marker=asked.get('marker', 0),
        limit=page_limit(backend, request),
    )
    found, more = backend.database.read(db.page_floatingips, query)
    links = next_links(request, str(found[-1].id)) if more else None
    return answer(200, page_body('floatingips', [floatingip_view(f) for f in found], links))


def show_floatingip(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Show a floating IP."""
    _authorize_floatingips(backend, request, rules.GET_FLOATING_IPS)
    found = backend.database.read(db.get_floatingip, _floatingip_id(floatingip_id))
    return answer(200, {'floatingip': floatingip_view(found)})


def create_floatingips(backend: Backend, request: Request) -> webob.Response:
    """Register addresses of an external network for leases, all of them or none.

    They must be in a subnet, in none of its allocation pools, not its gateway, and unused.
    """
    _authorize_floatingips(backend, request, rules.CREATE_FLOATING_IPS)
    values = request.read_body(schema.CREATE_FLOATING_IP)
    ids = backend.manager.call(FloatingIpOperations.create_floatingips, request.context, values)
    shown = [floatingip_view(backend.database.read(db.get_floatingip, each)) for each in ids]
    body = {'floatingip': shown[0]}
    more = {'floatingips': shown} if 'floating_ip_range' in values else {}
    return answer(201, {**body, **more})


def delete_floatingip(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Remove one; nothing changes in Neutron."""
    _authorize_floatingips(backend, request, rules.DELETE_FLOATING_IPS)
    backend.manager.call(
        FloatingIpOperations.delete_floatingip, request.context, _floatingip_id(floatingip_id)
    )
    return answer(204)


def _authorize_floatingips(backend: Backend, request: Request, rule: str) -> None:
    registered_units.authorize(backend, request, rule, resource_types.FLOATING_IP)


def _floatingip_id(floatingip_id: str) -> int:
    return registered_units.require_unit_id(floatingip_id, db.floatingip_not_found)


_ACCESS_FIELDS: Final = ('project_ids', 'domain_ids')
_CREATE_FIELDS: Final = (*SEGMENT_FACTS, 'segment_range', *_ACCESS_FIELDS)


def list_networks(backend: Backend, request: Request) -> webob.Response:
    """List the network segments that are registered for leases, in the order of their ids.

    Segments of other projects are shown to callers who may see all.
    """
    _authorize_networks(backend, request, rules.GET_NETWORKS)
    asked, is_operator = request.parameters, _is_operator(backend, request)
    query = db.SegmentQuery(
        **{name: asked.get(name) for name in SEGMENT_FACTS},
        is_seen=policy.visibility_check(request.context, is_operator),
        marker=asked.get('marker', 0),
        limit=page_limit(backend, request),
    )
    found, more = backend.database.read(db.page_segments, query)
    links = next_links(request, str(found[-1].id)) if more else None
    hidden = PROPERTIES.list_hidden(backend, request.context)
    shown = [network_view(each, is_operator, hidden) for each in found]
    return answer(200, page_body('networks', shown, links))


def show_network(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Show a network segment."""
    _authorize_networks(backend, request, rules.GET_NETWORKS)
    is_operator = _is_operator(backend, request)
    is_seen = policy.visibility_check(request.context, is_operator)
    found = backend.database.read(db.get_segment, _network_id(network_id), False, is_seen)
    hidden = PROPERTIES.list_hidden(backend, request.context)
    return answer(200, {'network': network_view(found, is_operator, hidden)})


def create_networks(backend: Backend, request: Request) -> webob.Response:
    """Register network segments for leases, all of them or none.

    No network of Neutron may have one of them.
    """
    _authorize_networks(backend, request, rules.CREATE_NETWORKS)
    values = _read_values(request.read_body(schema.CREATE_NETWORK), _CREATE_FIELDS)
    hidden = PROPERTIES.list_hidden(backend, request.context)
    shown = [
        network_view(backend.database.read(db.get_segment, each), is_operator=True, hidden=hidden)
        for each in backend.manager.call(
            NetworkOperations.create_networks, request.context, values
        )
    ]
    more = {'networks': shown} if 'segment_range' in values else {}
    return answer(201, {'network': shown[0], **more})


def update_network(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Change the extra properties and projects of a segment, and whether it can be reserved.

    Its allocations stay.
    """
    _authorize_networks(backend, request, rules.UPDATE_NETWORKS)
    values = _read_values(
        request.read_body(schema.UPDATE_NETWORK), (*_ACCESS_FIELDS, 'generation')
    )
    number = _network_id(network_id)
    backend.manager.call(NetworkOperations.update_network, request.context, number, values)
    found, hidden = (
        backend.database.read(db.get_segment, number),
        PROPERTIES.list_hidden(backend, request.context),
    )
    shown = network_view(found, is_operator=True, hidden=hidden)
    return answer(200, {'network': shown})


def delete_network(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Remove one; nothing changes in Neutron."""
    _authorize_networks(backend, request, rules.DELETE_NETWORKS)
    backend.manager.call(
        NetworkOperations.delete_network, request.context, _network_id(network_id)
    )
    return answer(204)


def list_properties(backend: Backend, request: Request) -> webob.Response:
    """List the extra properties that network segments have.

    Callers who may not see private ones are shown those of segments that they can reserve.
    """
    _authorize_networks(backend, request, rules.GET_NETWORK_PROPERTIES)
    return PROPERTIES.list_(backend, request)


def update_property(backend: Backend, request: Request, property_name: str) -> webob.Response:
    """Make an extra property private, or public again."""
    _authorize_networks(backend, request, rules.UPDATE_NETWORK_PROPERTIES)
    return PROPERTIES.update(
        backend, request, property_name, NetworkOperations.set_network_property
    )


def _authorize_networks(backend: Backend, request: Request, rule: str) -> None:
    registered_units.authorize(backend, request, rule, resource_types.NETWORK)


def _is_operator(backend: Backend, request: Request) -> bool:
    return policy.allows(backend.enforcer, request.context, rules.GET_RESTRICTED_NETWORKS, {})


def _network_id(network_id: str) -> int:
    return registered_units.require_unit_id(network_id, db.segment_not_found)


def _read_values(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a request in the words of the operations on networks.

    :param names: of what is no extra property
    """
    given = registered_units.flatten_values(body)
    normal = {name: given.pop(name) for name in names if name in given}
    if 'reservable' in given:
        normal['available'] = registered_units.parse_flag(given.pop('reservable'))
    return {**normal, 'extra': given}


def floatingip_view(row: FloatingIp) -> dict[str, Any]:
    """Return a floating IP as the API shows it."""
    return {
        'id': str(row.id),
        'floating_network_id': row.network_id,
        'subnet_id': row.subnet_id,
        'floating_ip_address': row.address,
        'reservable': row.available,
        'created_at': views.format_stamp(row.created_at),
    }


def network_view(
    row: RegisteredSegment, is_operator: bool, hidden: Collection[str]
) -> dict[str, Any]:
    """Return a network segment as the API shows it; extra properties never replace other fields.

    :param is_operator: whether to show its projects and its generation
    :param hidden: the names of the extra properties to leave out
    """
    projects = {
        'project_ids': list(row.project_ids),
        'domain_ids': list(row.domain_ids),
        'generation': row.generation,
    }
    return {
        **{name: value for name, value in row.extra.items() if name not in hidden},
        'id': str(row.id),
        **row.segment.facts,
        'reservable': row.available,
        **(projects if is_operator else {}),
        'created_at': views.format_stamp(row.created_at),
        'updated_at': views.format_stamp(row.updated_at),
    }
