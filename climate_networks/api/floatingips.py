# SPDX-License-Identifier: Apache-2.0
"""The calls of the API about floating IPs, in the format of Blazar's clients."""

from collections.abc import Collection
from typing import Any, ClassVar, Final

import webob

from climate_common import resource_types
from climate_core.api.registered_units import UnitCalls
from climate_core.api.request import Backend, Request, Route, Table, answer
from climate_core.lease import views
from climate_networks import db
from climate_networks import policies as rules
from climate_networks.api import schemas as schema
from climate_networks.operations import FloatingIpOperations
from climate_networks.units import FloatingIp


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
    return answer(200, CALLS.read_page(backend, request))


def show(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Show a floating IP."""
    CALLS.authorize(backend, request, rules.GET_FLOATING_IPS)
    return CALLS.show(backend, request, floatingip_id)


def create(backend: Backend, request: Request) -> webob.Response:
    """Register addresses of an external network for leases, all of them or none.

    They must be in a subnet, in none of its allocation pools, not its gateway, and unused.
    """
    CALLS.authorize(backend, request, rules.CREATE_FLOATING_IPS)
    values = request.read_body(schema.CREATE_FLOATING_IP)
    ids = backend.manager.call(FloatingIpOperations.create_floatingips, request.context, values)
    is_range = 'floating_ip_range' in values
    return CALLS.answer_changed(backend, request, 201, ids, is_range=is_range)


def delete(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Remove one; nothing changes in Neutron."""
    CALLS.authorize(backend, request, rules.DELETE_FLOATING_IPS)
    unit_id = CALLS.parse_id(floatingip_id)
    backend.manager.call(FloatingIpOperations.delete_floatingip, request.context, unit_id)
    return answer(204)


ROUTES: Final[Table] = {
    '/v1/floatingips': {
        'GET': Route(
            list_,
            200,
            rules.GET_FLOATING_IPS,
            response_schema=schema.FLOATING_IPS,
            query=schema.FLOATING_IP_QUERY,
        ),
        'POST': Route(
            create,
            201,
            rules.CREATE_FLOATING_IPS,
            schema.CREATE_FLOATING_IP,
            schema.CREATED_FLOATING_IPS,
        ),
    },
    '/v1/floatingips/{floatingip_id}': {
        'GET': Route(show, 200, rules.GET_FLOATING_IPS, response_schema=schema.ONE_FLOATING_IP),
        'DELETE': Route(delete, 204, rules.DELETE_FLOATING_IPS),
    },
}
