# SPDX-License-Identifier: Apache-2.0
"""Calls and schemas of the API about floating IPs, in the format of Blazar's clients."""

from collections.abc import Collection
from typing import Any, ClassVar, Final

import webob

from climate_common import resource_types
from climate_core.api.registered_units import UnitCalls, created_schema
from climate_core.api.request import Backend, Request, Route, Table, answer
from climate_core.api.schemas import common
from climate_core.lease import views
from climate_networks import db
from climate_networks import policies as rules
from climate_networks.operations import FloatingIpOperations
from climate_networks.units import MAX_ADDRESSES, FloatingIp

_ADDRESS: dict[str, Any] = {'type': 'string', 'minLength': 1, 'maxLength': 15}
_CREATE: dict[str, Any] = {
    **common.closed(
        {
            'floating_network_id': {**common.UUID, 'description': 'The external network.'},
            'floating_ip_address': {
                **_ADDRESS,
                'description': 'An IPv4 address in a subnet of the network that Neutron never '
                'allocates: in no allocation pool, and not the gateway.',
            },
            'floating_ip_range': {
                'type': 'string',
                'minLength': 1,
                'maxLength': 64,
                'description': 'Instead of it the first and the last of a range, as '
                f'203.0.113.20-203.0.113.99; {MAX_ADDRESSES} at most.',
            },
        },
        ('floating_network_id',),
    ),
    'oneOf': [{'required': ['floating_ip_address']}, {'required': ['floating_ip_range']}],
}
_SHOWN: dict[str, Any] = common.closed(
    {
        'id': {'type': 'string'},
        'floating_network_id': {'type': 'string'},
        'subnet_id': {'type': 'string'},
        'floating_ip_address': {'type': 'string'},
        'reservable': {'type': 'boolean', 'description': 'Whether it takes new allocations.'},
        'created_at': common.STAMP,
    }
)
_ONE: dict[str, Any] = common.envelope('floatingip', _SHOWN)
_CREATED: dict[str, Any] = created_schema('floatingip', 'floatingips', _SHOWN)
_MANY: dict[str, Any] = common.page_of('floatingips', _SHOWN)
_QUERY: dict[str, dict[str, Any]] = {
    'floating_network_id': {**common.UUID, 'description': 'Only floating IPs of this network.'},
    'floating_ip_address': {**_ADDRESS, 'description': 'Only this address.'},
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('floating IP'),
}


class FloatingIpCalls(UnitCalls[FloatingIp]):
    """Show floating IPs."""

    resource_type = resource_types.FLOATING_IP
    noun = 'floatingip'
    units = db.FLOATING_IPS
    filters: ClassVar = {'floating_network_id': 'network_id', 'floating_ip_address': 'address'}

    def view(
        self,
        unit: FloatingIp,
        *,
        sees_all: bool,  # noqa: ARG002
        hidden: Collection[str],  # noqa: ARG002
    ) -> dict[str, Any]:
        return {
            'id': str(unit.id),
            'floating_network_id': unit.network_id,
            'subnet_id': unit.subnet_id,
            'floating_ip_address': unit.address,
            'reservable': unit.available,
            'created_at': views.format_stamp(unit.created_at),
        }


CALLS: Final = FloatingIpCalls()


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the floating IPs that are registered for leases, in the order of their ids."""
    CALLS.authorize(backend, request, rules.GET_FLOATING_IPS)
    return CALLS.list_units(backend, request)


def show(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Show a floating IP."""
    CALLS.authorize(backend, request, rules.GET_FLOATING_IPS)
    return CALLS.show(backend, request, floatingip_id)


def create(backend: Backend, request: Request) -> webob.Response:
    """Register addresses of an external network for leases, all of them or none.

    They must be in a subnet, in none of its allocation pools, not its gateway, and unused.
    """
    CALLS.authorize(backend, request, rules.CREATE_FLOATING_IPS)
    values = request.read_body(_CREATE)
    ids = backend.manager_client.call(
        FloatingIpOperations.create_floatingips, request.context, values
    )
    is_range = 'floating_ip_range' in values
    return CALLS.answer_changed(backend, request, 201, ids, is_range=is_range)


def delete(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Remove a floating IP; nothing changes in Neutron."""
    CALLS.authorize(backend, request, rules.DELETE_FLOATING_IPS)
    unit_id = CALLS.parse_id(floatingip_id)
    backend.manager_client.call(FloatingIpOperations.delete_floatingip, request.context, unit_id)
    return answer(204)


ROUTES: Final[Table] = {
    '/v1/floatingips': {
        'GET': Route(
            list_,
            200,
            rules.GET_FLOATING_IPS,
            response_schema=_MANY,
            query=_QUERY,
            ignores_unknown=True,
        ),
        'POST': Route(
            create,
            201,
            rules.CREATE_FLOATING_IPS,
            _CREATE,
            _CREATED,
        ),
    },
    '/v1/floatingips/{floatingip_id}': {
        'GET': Route(
            show, 200, rules.GET_FLOATING_IPS, response_schema=_ONE, ignores_unknown=True
        ),
        'DELETE': Route(delete, 204, rules.DELETE_FLOATING_IPS),
    },
}
