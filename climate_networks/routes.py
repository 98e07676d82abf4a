# SPDX-License-Identifier: Apache-2.0
"""The calls of the API about floating IPs and network segments."""

from climate_core.api import registered_units
from climate_core.api.routing import Route, Table
from climate_networks import handlers, policies, schemas

ROUTES: Table = {
    '/v1/floatingips': {
        'GET': Route(
            handlers.list_floatingips,
            200,
            policies.GET_FLOATING_IPS,
            response_schema=schemas.FLOATING_IPS,
            query=schemas.FLOATING_IP_QUERY,
            operation='floatingips.list',
        ),
        'POST': Route(
            handlers.create_floatingips,
            201,
            policies.CREATE_FLOATING_IPS,
            schemas.CREATE_FLOATING_IP,
            schemas.CREATED_FLOATING_IPS,
            operation='floatingips.create',
        ),
    },
    '/v1/floatingips/{floatingip_id}': {
        'GET': Route(
            handlers.show_floatingip,
            200,
            policies.GET_FLOATING_IPS,
            response_schema=schemas.ONE_FLOATING_IP,
            operation='floatingips.show',
        ),
        'DELETE': Route(
            handlers.delete_floatingip,
            204,
            policies.DELETE_FLOATING_IPS,
            operation='floatingips.delete',
        ),
    },
    '/v1/networks': {
        'GET': Route(
            handlers.list_networks,
            200,
            policies.GET_NETWORKS,
            response_schema=schemas.NETWORKS,
            query=schemas.NETWORK_QUERY,
            operation='networks.list',
        ),
        'POST': Route(
            handlers.create_networks,
            201,
            policies.CREATE_NETWORKS,
            schemas.CREATE_NETWORK,
            schemas.CREATED_NETWORKS,
            operation='networks.create',
        ),
    },
    '/v1/networks/properties': {
        'GET': Route(
            handlers.list_properties,
            200,
            policies.GET_NETWORK_PROPERTIES,
            response_schema=schemas.PROPERTIES,
            query=schemas.PROPERTIES_QUERY,
            operation='networks.properties',
        ),
    },
    '/v1/networks/properties/{property_name}': {
        'PATCH': Route(
            handlers.update_property,
            200,
            policies.UPDATE_NETWORK_PROPERTIES,
            registered_units.UPDATE_PROPERTY,
            schemas.PROPERTY,
            operation='networks.update_property',
        ),
    },
    '/v1/networks/{network_id}': {
        'GET': Route(
            handlers.show_network,
            200,
            policies.GET_NETWORKS,
            response_schema=schemas.ONE_NETWORK,
            operation='networks.show',
        ),
        'PUT': Route(
            handlers.update_network,
            200,
            policies.UPDATE_NETWORKS,
            schemas.UPDATE_NETWORK,
            schemas.ONE_NETWORK,
            operation='networks.update',
        ),
        'DELETE': Route(
            handlers.delete_network,
            204,
            policies.DELETE_NETWORKS,
            operation='networks.delete',
        ),
    },
}
