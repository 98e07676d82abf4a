# SPDX-License-Identifier: Apache-2.0
"""Calls and schemas of the API about network segments, in the format of Blazar's clients."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import webob

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.api import registered_units
from climate_core.api.registered_units import UnitCalls
from climate_core.api.request import Backend, Request, Route, Table, answer
from climate_core.api.schemas import common
from climate_core.lease import views
from climate_networks import db
from climate_networks import policies as rules
from climate_networks.operations import NetworkOperations
from climate_networks.units import (
    MAX_SEGMENTS,
    NETWORK_TYPES,
    SEGMENT_FACTS,
    RegisteredSegment,
)

_NETWORK_TYPE: dict[str, Any] = {'type': 'string', 'enum': [*NETWORK_TYPES]}
_MAX_SEGMENT_ID = max(NETWORK_TYPES.values())
_OPERATOR_FIELDS: dict[str, Any] = {
    'reservable': registered_units.RESERVABLE,
    'project_ids': {
        **registered_units.IDS,
        'description': 'The projects that may reserve it.',
    },
    'domain_ids': {
        **registered_units.IDS,
        'description': 'The domains all of whose projects may reserve it; none here and in '
        'project_ids: all projects may.',
    },
}
_CREATE: dict[str, Any] = {
    **registered_units.with_extra(
        {
            'network_type': {**_NETWORK_TYPE, 'description': 'The type of the segment.'},
            'physical_network': {
                'anyOf': [limits.NAME_SCHEMA, {'type': 'null'}],
                'description': 'The physical network of a VLAN, as Neutron calls it. The other '
                'types have none.',
            },
            'segment_id': {
                'type': ['integer', 'string'],
                'minimum': 1,
                'maximum': _MAX_SEGMENT_ID,
                'minLength': 1,
                'maxLength': 16,
                'description': 'The number of the VLAN, or of the tunnel, that Neutron does not '
                'choose for other projects.',
            },
            'segment_range': {
                'type': 'string',
                'minLength': 1,
                'maxLength': 64,
                'description': 'Instead of it the first and the last of a range, as 100-199; '
                f'{MAX_SEGMENTS} at most.',
            },
            **_OPERATOR_FIELDS,
        }
    ),
    'required': ['network_type'],
    'oneOf': [{'required': ['segment_id']}, {'required': ['segment_range']}],
}
_UPDATE: dict[str, Any] = registered_units.with_values(
    {
        **_OPERATOR_FIELDS,
        'generation': {
            'type': 'integer',
            'minimum': 0,
            'description': 'The generation of the segment that the client read: the request '
            'is rejected with 409 if the segment has another one.',
        },
    }
)
_UPDATE['description'] = 'null removes an extra property.'

_NETWORK_FIELDS: dict[str, Any] = {
    'id': {'type': 'string'},
    'network_type': {'type': 'string'},
    'physical_network': {'type': ['string', 'null']},
    'segment_id': {'type': 'integer'},
    'reservable': {'type': 'boolean', 'description': 'Whether it takes new allocations.'},
    'created_at': common.STAMP,
    'updated_at': common.STAMP,
}
_SHOWN: dict[str, Any] = {
    'type': 'object',
    'description': 'Besides these properties it has the extra ones.',
    'properties': {
        **_NETWORK_FIELDS,
        'project_ids': {
            **registered_units.IDS,
            'description': 'Only for callers who may see the segments of all projects.',
        },
        'domain_ids': {**registered_units.IDS, 'description': 'The same.'},
        'generation': {
            'type': 'integer',
            'description': 'Counts the changes by operators; for the same callers.',
        },
    },
    'required': [*_NETWORK_FIELDS],
}
_ONE: dict[str, Any] = common.envelope('network', _SHOWN)
_CREATED: dict[str, Any] = registered_units.created_schema('network', 'networks', _SHOWN)
_MANY: dict[str, Any] = common.page_of('networks', _SHOWN)
_PROPERTIES = registered_units.properties_schema('segments')
_PROPERTIES_QUERY = registered_units.properties_query(
    'segments', 'climate:networks:get_private_properties'
)
_PROPERTY = registered_units.property_schema('network')
_QUERY: dict[str, dict[str, Any]] = {
    'network_type': {**_NETWORK_TYPE, 'description': 'Only segments of this type.'},
    'physical_network': {
        **limits.NAME_SCHEMA,
        'description': 'Only segments of this physical network.',
    },
    'segment_id': {
        'type': 'integer',
        'minimum': 1,
        'maximum': _MAX_SEGMENT_ID,
        'description': 'Only segments with this number.',
    },
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('network segment'),
}


class NetworkCalls(UnitCalls[RegisteredSegment]):
    """Show network segments."""

    resource_type = resource_types.NETWORK
    noun = 'network'
    units = db.SEGMENTS
    filters: ClassVar = {name: name for name in SEGMENT_FACTS}
    all_projects_rule = rules.GET_RESTRICTED_NETWORKS
    private_rule = rules.GET_PRIVATE_NETWORK_PROPERTIES
    unknown_property = exceptions.UnknownSegmentProperty
    fields = SEGMENT_FACTS

    def view(
        self, unit: RegisteredSegment, *, sees_all: bool, hidden: Collection[str]
    ) -> dict[str, Any]:
        projects = {
            'project_ids': list(unit.project_ids),
            'domain_ids': list(unit.domain_ids),
            'generation': unit.generation,
        }
        return {
            **{name: value for name, value in unit.extra.items() if name not in hidden},
            'id': str(unit.id),
            **unit.segment.facts,
            'reservable': unit.available,
            **(projects if sees_all else {}),
            'created_at': views.format_stamp(unit.created_at),
            'updated_at': views.format_stamp(unit.updated_at),
        }


CALLS: Final = NetworkCalls()
_ACCESS_FIELDS: Final = ('project_ids', 'domain_ids')
_CREATE_FIELDS: Final = (*SEGMENT_FACTS, 'segment_range', *_ACCESS_FIELDS)
_UPDATE_FIELDS: Final = (*_ACCESS_FIELDS, 'generation')


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the network segments that are registered for leases, in the order of their ids.

    Segments of other projects are shown to callers who may see all.
    """
    CALLS.authorize(backend, request, rules.GET_NETWORKS)
    return CALLS.list_units(backend, request)


def show(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Show a network segment."""
    CALLS.authorize(backend, request, rules.GET_NETWORKS)
    return CALLS.show(backend, request, network_id)


def create(backend: Backend, request: Request) -> webob.Response:
    """Register network segments for leases, all of them or none.

    No network of Neutron may have one of them.
    """
    CALLS.authorize(backend, request, rules.CREATE_NETWORKS)
    values = _read_values(request.read_body(_CREATE), _CREATE_FIELDS)
    ids = backend.manager_client.call(NetworkOperations.create_networks, request.context, values)
    return CALLS.answer_changed(backend, request, 201, ids, is_range='segment_range' in values)


def update(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Change the extra properties and projects of a segment, and whether it can be reserved.

    Its allocations stay.
    """
    CALLS.authorize(backend, request, rules.UPDATE_NETWORKS)
    values = _read_values(request.read_body(_UPDATE), _UPDATE_FIELDS)
    unit_id = CALLS.parse_id(network_id)
    backend.manager_client.call(NetworkOperations.update_network, request.context, unit_id, values)
    return CALLS.answer_changed(backend, request, 200, [unit_id])


def delete(backend: Backend, request: Request, network_id: str) -> webob.Response:
    """Remove a network segment; nothing changes in Neutron."""
    CALLS.authorize(backend, request, rules.DELETE_NETWORKS)
    unit_id = CALLS.parse_id(network_id)
    backend.manager_client.call(NetworkOperations.delete_network, request.context, unit_id)
    return answer(204)


def properties(backend: Backend, request: Request) -> webob.Response:
    """List the extra properties that network segments have.

    Callers who may not see private ones are shown those of segments that they can reserve.
    """
    CALLS.authorize(backend, request, rules.GET_NETWORK_PROPERTIES)
    return CALLS.list_properties(backend, request)


def update_property(backend: Backend, request: Request, property_name: str) -> webob.Response:
    """Make an extra property private, or public again."""
    CALLS.authorize(backend, request, rules.UPDATE_NETWORK_PROPERTIES)
    operation = NetworkOperations.set_network_property
    return CALLS.update_property(backend, request, property_name, operation)


def _read_values(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a request by the names of the operations on networks.

    :param names: of what is no extra property
    """
    given = registered_units.flatten_values(body)
    normal = {name: given.pop(name) for name in names if name in given}
    if 'reservable' in given:
        normal['available'] = registered_units.parse_flag(given.pop('reservable'))
    return {**normal, 'extra': given}


ROUTES: Final[Table] = {
    '/v1/networks': {
        'GET': Route(
            list_,
            200,
            rules.GET_NETWORKS,
            response_schema=_MANY,
            query=_QUERY,
        ),
        'POST': Route(create, 201, rules.CREATE_NETWORKS, _CREATE, _CREATED),
    },
    '/v1/networks/properties': {
        'GET': Route(
            properties,
            200,
            rules.GET_NETWORK_PROPERTIES,
            response_schema=_PROPERTIES,
            query=_PROPERTIES_QUERY,
        ),
    },
    '/v1/networks/properties/{property_name}': {
        'PATCH': Route(
            update_property,
            200,
            rules.UPDATE_NETWORK_PROPERTIES,
            registered_units.UPDATE_PROPERTY,
            _PROPERTY,
        ),
    },
    '/v1/networks/{network_id}': {
        'GET': Route(show, 200, rules.GET_NETWORKS, response_schema=_ONE),
        'PUT': Route(update, 200, rules.UPDATE_NETWORKS, _UPDATE, _ONE),
        'DELETE': Route(delete, 204, rules.DELETE_NETWORKS),
    },
}
