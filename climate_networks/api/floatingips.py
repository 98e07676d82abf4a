# SPDX-License-Identifier: Apache-2.0
"""Floating IPs that are set apart for leases, in the words of Blazar's clients."""

import webob

from climate_common import resource_types
from climate_core.api import registered_units
from climate_core.api.request import Backend, Request, answer, next_links, page_body, page_limit
from climate_networks.api import floatingip_schemas as schema
from climate_networks.api import views
from climate_networks.db import floatingips as db
from climate_networks.policies import floatingips as rules


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the floating IPs that are set apart for leases, in the order of their ids."""
    _authorize(backend, request, rules.GET)
    asked = request.parameters
    query = db.FloatingIpQuery(
        network_id=asked.get('floating_network_id'),
        address=asked.get('floating_ip_address'),
        marker=asked.get('marker', 0),
        limit=page_limit(backend, request),
    )
    found, more = backend.database.read(db.page, query)
    links = next_links(request, str(found[-1].id)) if more else None
    return answer(200, page_body('floatingips', [views.floatingip(f) for f in found], links))


def show(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Show one of them."""
    _authorize(backend, request, rules.GET)
    found = backend.database.read(db.get, _number(floatingip_id))
    return answer(200, {'floatingip': views.floatingip(found)})


def create(backend: Backend, request: Request) -> webob.Response:
    """Set addresses of an external network apart for leases, all of them or none.

    They must be in a subnet, in none of its allocation pools, not its gateway, and unused.
    """
    _authorize(backend, request, rules.CREATE)
    values = request.read_body(schema.CREATE)
    ids = backend.manager.create_floatingips(request.context, values)
    shown = [views.floatingip(backend.database.read(db.get, each)) for each in ids]
    body = {'floatingip': shown[0]}
    more = {'floatingips': shown} if 'floating_ip_range' in values else {}
    return answer(201, {**body, **more})


def delete(backend: Backend, request: Request, floatingip_id: str) -> webob.Response:
    """Take one away from those for leases; nothing changes in Neutron."""
    _authorize(backend, request, rules.DELETE)
    backend.manager.delete_floatingip(request.context, _number(floatingip_id))
    return answer(204)


def _authorize(backend: Backend, request: Request, rule: str) -> None:
    registered_units.authorize(backend, request, rule, resource_types.FLOATING_IP)


def _number(floatingip_id: str) -> int:
    return registered_units.require_unit_id(floatingip_id, db.not_found)
