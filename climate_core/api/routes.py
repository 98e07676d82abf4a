# SPDX-License-Identifier: Apache-2.0
"""The route table: every call of the API. The reference in the documents comes from it."""

from climate_core import policies
from climate_core.api import registered_units
from climate_core.api.handlers import calendar, feeds, leases, reservations, service, usage
from climate_core.api.request import IF_MATCH_HEADERS, IF_NONE_MATCH_HEADERS
from climate_core.api.routing import Route, Table
from climate_core.api.schemas import calendar as calendar_schemas
from climate_core.api.schemas import common
from climate_core.api.schemas import leases as lease_schemas
from climate_core.api.schemas import reservations as reservation_schemas
from climate_core.api.schemas import usage as usage_schemas
from climate_hosts import policies as host_rules
from climate_hosts.api import host_schemas, hosts
from climate_networks import handlers, schemas
from climate_networks import policies as climate_networks_policies

ROUTES: Table = {
    '/': {
        'GET': Route(
            service.versions, 300, response_schema=common.ALL_VERSIONS, operation='root.versions'
        )
    },
    '/v1': {
        'GET': Route(
            service.version, 200, response_schema=common.ONE_VERSION, operation='root.version'
        )
    },
    '/v1/leases': {
        'GET': Route(
            leases.list_,
            200,
            policies.GET_LEASES,
            response_schema=lease_schemas.MANY,
            query=lease_schemas.LIST_QUERY,
            operation='lease_list.list',
        ),
        'POST': Route(
            leases.create,
            201,
            policies.CREATE_LEASE,
            lease_schemas.CREATE,
            lease_schemas.ONE,
            query=lease_schemas.CREATE_QUERY,
            headers=lease_schemas.CREATE_HEADERS,
            also={200: lease_schemas.DRY_RUN},
        ),
    },
    '/v1/leases/{lease_id}': {
        'GET': Route(
            leases.show,
            200,
            policies.GET_LEASES,
            response_schema=lease_schemas.ONE,
            query=lease_schemas.SHOW_QUERY,
        ),
        'PUT': Route(
            leases.update,
            200,
            policies.UPDATE_LEASE,
            lease_schemas.UPDATE,
            lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
        'DELETE': Route(leases.delete, 204, policies.DELETE_LEASE, headers=IF_MATCH_HEADERS),
    },
    '/v1/leases/{lease_id}/start': {
        'POST': Route(
            leases.start,
            202,
            policies.START_LEASE,
            response_schema=lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/end': {
        'POST': Route(
            leases.end,
            202,
            policies.END_LEASE,
            response_schema=lease_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/history': {
        'GET': Route(
            leases.list_history,
            200,
            policies.GET_LEASE_HISTORY,
            response_schema=lease_schemas.HISTORY,
            query=lease_schemas.HISTORY_QUERY,
            operation='history.list',
        ),
    },
    '/v1/leases/{lease_id}/reservations': {
        'POST': Route(
            reservations.create,
            201,
            policies.CREATE_RESERVATION,
            reservation_schemas.CREATE,
            reservation_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/reservations/{reservation_id}': {
        'PUT': Route(
            reservations.update,
            200,
            policies.UPDATE_RESERVATION,
            reservation_schemas.CHANGE,
            reservation_schemas.ONE,
            headers=IF_MATCH_HEADERS,
        ),
        'DELETE': Route(
            reservations.delete, 204, policies.DELETE_RESERVATION, headers=IF_MATCH_HEADERS
        ),
    },
    '/v1/os-hosts': {
        'GET': Route(
            hosts.list_,
            200,
            policies.GET_PLUGINS,
            response_schema=host_schemas.MANY,
            query=host_schemas.QUERY,
        ),
        'POST': Route(hosts.create, 201, host_rules.CREATE, host_schemas.CREATE, host_schemas.ONE),
    },
    '/v1/os-hosts/allocations': {
        'GET': Route(
            hosts.allocations,
            200,
            host_rules.GET_ALLOCATIONS,
            response_schema=host_schemas.ALLOCATIONS,
            query=host_schemas.ALLOCATIONS_QUERY,
        ),
    },
    '/v1/os-hosts/usage': {
        'GET': Route(
            hosts.show_usage,
            200,
            host_rules.GET_USAGE,
            response_schema=host_schemas.USAGE,
            query=host_schemas.USAGE_QUERY,
            operation='host_usage.get',
        ),
    },
    '/v1/os-hosts/properties': {
        'GET': Route(
            hosts.properties,
            200,
            host_rules.GET_PROPERTIES,
            response_schema=host_schemas.PROPERTIES,
            query=host_schemas.PROPERTIES_QUERY,
        ),
    },
    '/v1/os-hosts/properties/{property_name}': {
        'PATCH': Route(
            hosts.update_property,
            200,
            host_rules.UPDATE_PROPERTIES,
            registered_units.UPDATE_PROPERTY,
            host_schemas.PROPERTY,
        ),
    },
    '/v1/os-hosts/pools': {
        'GET': Route(hosts.pools, 200, host_rules.GET_POOLS, response_schema=host_schemas.POOLS),
    },
    '/v1/os-hosts/pools/{pool_name}': {
        'GET': Route(
            hosts.show_pool, 200, host_rules.GET_POOLS, response_schema=host_schemas.POOL
        ),
        'PUT': Route(
            hosts.update_pool,
            200,
            host_rules.UPDATE_POOLS,
            host_schemas.UPDATE_POOL,
            host_schemas.POOL,
        ),
        'DELETE': Route(hosts.delete_pool, 204, host_rules.DELETE_POOLS),
    },
    '/v1/os-hosts/{host_id}': {
        'GET': Route(hosts.show, 200, host_rules.GET, response_schema=host_schemas.ONE),
        'PUT': Route(hosts.update, 200, host_rules.UPDATE, host_schemas.UPDATE, host_schemas.ONE),
        'DELETE': Route(hosts.delete, 204, host_rules.DELETE),
    },
    '/v1/os-hosts/{host_id}/allocation': {
        'GET': Route(
            hosts.allocation,
            200,
            host_rules.GET_ALLOCATIONS,
            response_schema=host_schemas.ONE_ALLOCATION,
        ),
    },
    '/v1/floatingips': {
        'GET': Route(
            handlers.list_floatingips,
            200,
            climate_networks_policies.GET_FLOATING_IPS,
            response_schema=schemas.FLOATING_IPS,
            query=schemas.FLOATING_IP_QUERY,
            operation='floatingips.list',
        ),
        'POST': Route(
            handlers.create_floatingips,
            201,
            climate_networks_policies.CREATE_FLOATING_IPS,
            schemas.CREATE_FLOATING_IP,
            schemas.CREATED_FLOATING_IPS,
            operation='floatingips.create',
        ),
    },
    '/v1/floatingips/{floatingip_id}': {
        'GET': Route(
            handlers.show_floatingip,
            200,
            climate_networks_policies.GET_FLOATING_IPS,
            response_schema=schemas.ONE_FLOATING_IP,
            operation='floatingips.show',
        ),
        'DELETE': Route(
            handlers.delete_floatingip,
            204,
            climate_networks_policies.DELETE_FLOATING_IPS,
            operation='floatingips.delete',
        ),
    },
    '/v1/networks': {
        'GET': Route(
            handlers.list_networks,
            200,
            climate_networks_policies.GET_NETWORKS,
            response_schema=schemas.NETWORKS,
            query=schemas.NETWORK_QUERY,
            operation='networks.list',
        ),
        'POST': Route(
            handlers.create_networks,
            201,
            climate_networks_policies.CREATE_NETWORKS,
            schemas.CREATE_NETWORK,
            schemas.CREATED_NETWORKS,
            operation='networks.create',
        ),
    },
    '/v1/networks/properties': {
        'GET': Route(
            handlers.list_properties,
            200,
            climate_networks_policies.GET_NETWORK_PROPERTIES,
            response_schema=schemas.PROPERTIES,
            query=schemas.PROPERTIES_QUERY,
            operation='networks.properties',
        ),
    },
    '/v1/networks/properties/{property_name}': {
        'PATCH': Route(
            handlers.update_property,
            200,
            climate_networks_policies.UPDATE_NETWORK_PROPERTIES,
            registered_units.UPDATE_PROPERTY,
            schemas.PROPERTY,
            operation='networks.update_property',
        ),
    },
    '/v1/networks/{network_id}': {
        'GET': Route(
            handlers.show_network,
            200,
            climate_networks_policies.GET_NETWORKS,
            response_schema=schemas.ONE_NETWORK,
            operation='networks.show',
        ),
        'PUT': Route(
            handlers.update_network,
            200,
            climate_networks_policies.UPDATE_NETWORKS,
            schemas.UPDATE_NETWORK,
            schemas.ONE_NETWORK,
            operation='networks.update',
        ),
        'DELETE': Route(
            handlers.delete_network,
            204,
            climate_networks_policies.DELETE_NETWORKS,
            operation='networks.delete',
        ),
    },
    '/v1/availability': {
        'GET': Route(
            calendar.get_availability,
            200,
            policies.GET_AVAILABILITY,
            response_schema=calendar_schemas.WINDOWS,
            query=calendar_schemas.AVAILABILITY_QUERY,
            operation='availability.get',
        ),
    },
    '/v1/calendar': {
        'GET': Route(
            calendar.get,
            200,
            policies.GET_CALENDAR,
            response_schema=calendar_schemas.SHOWN,
            query=calendar_schemas.QUERY,
            headers=IF_NONE_MATCH_HEADERS,
            also={304: None},
        ),
    },
    '/v1/feeds': {
        'GET': Route(feeds.list_, 200, policies.GET_FEEDS, response_schema=calendar_schemas.FEEDS),
        'POST': Route(
            feeds.create,
            201,
            policies.CREATE_FEED,
            calendar_schemas.CREATE_FEED,
            calendar_schemas.FEED_CREATED,
        ),
    },
    '/v1/feeds/{feed_id}': {'DELETE': Route(feeds.delete, 204, policies.DELETE_FEED)},
    feeds.PATH: {
        'GET': Route(
            feeds.read,
            200,
            response_schema={'type': 'string'},
            query=calendar_schemas.FEED_QUERY,
            headers=IF_NONE_MATCH_HEADERS,
            also={304: None},
            media='text/calendar',
            errors=(403, 404, 503),
        ),
    },
    '/v1/limits': {
        'GET': Route(
            usage.get_limits,
            200,
            policies.GET_LIMITS,
            response_schema=usage_schemas.LIMITS,
            query=usage_schemas.LIMITS_QUERY,
            operation='limits.get',
        ),
    },
    '/v1/usage': {
        'GET': Route(
            usage.get,
            200,
            policies.GET_USAGE,
            response_schema=usage_schemas.MANY,
            query=usage_schemas.QUERY,
        ),
    },
    '/v1/plugins': {
        'GET': Route(
            reservations.list_plugins,
            200,
            policies.GET_PLUGINS,
            response_schema=reservation_schemas.PLUGINS,
            operation='plugins.list',
        )
    },
}


#: The OpenAPI document describes its own route, too.
ROUTES['/v1/openapi.json'] = {
    'GET': Route(
        service.openapi_handler(ROUTES),
        200,
        response_schema={'type': 'object'},
        operation='openapi.show',
    )
}
