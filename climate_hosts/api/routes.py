# SPDX-License-Identifier: Apache-2.0
"""The calls of the API about hosts."""

from climate_core import policies
from climate_core.api import registered_units
from climate_core.api.routing import Route, Table
from climate_hosts import policies as host_rules
from climate_hosts.api import host_schemas, hosts

ROUTES: Table = {
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
            policies.GET_ALLOCATIONS,
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
            policies.GET_ALLOCATIONS,
            response_schema=host_schemas.ONE_ALLOCATION,
        ),
    },
}
