# SPDX-License-Identifier: Apache-2.0
"""The whole API as one table. The reference in the documents is made from it too."""

from climate_core.api import etag
from climate_core.api.handlers import (
    availability,
    calendar,
    feeds,
    history,
    lease_list,
    leases,
    limits,
    openapi,
    plugins,
    reservations,
    root,
    usage,
)
from climate_core.api.route import Route, Table
from climate_core.api.schemas import availability as availability_schema
from climate_core.api.schemas import calendar as calendar_schema
from climate_core.api.schemas import (
    feed,
    lease,
    lease_query,
    plugin,
    registered,
    reservation,
    version,
)
from climate_core.api.schemas import history as history_schema
from climate_core.api.schemas import limits as limits_schema
from climate_core.api.schemas import usage as usage_schema
from climate_core.policies import availability as availability_rules
from climate_core.policies import calendar as calendar_rules
from climate_core.policies import feeds as feed_rules
from climate_core.policies import leases as lease_rules
from climate_core.policies import limits as limits_rules
from climate_core.policies import plugins as plugin_rules
from climate_core.policies import reservations as reservation_rules
from climate_core.policies import usage as usage_rules
from climate_hosts import policies as host_rules
from climate_hosts.api import host_schemas, hosts
from climate_networks.api import floatingip_schemas, floatingips, network_schemas, networks
from climate_networks.policies import floatingips as floatingip_rules
from climate_networks.policies import networks as network_rules

ROUTES: Table = {
    '/': {
        'GET': Route(root.versions, 300, response_schema=version.MANY, operation='root.versions')
    },
    '/v1': {
        'GET': Route(root.version, 200, response_schema=version.ONE, operation='root.version')
    },
    '/v1/leases': {
        'GET': Route(
            lease_list.list_,
            200,
            lease_rules.GET,
            response_schema=lease.MANY,
            query=lease_query.MANY,
            operation='lease_list.list',
        ),
        'POST': Route(
            leases.create,
            201,
            lease_rules.CREATE,
            lease.CREATE,
            lease.ONE,
            query=lease.CREATE_QUERY,
            headers=lease.CREATE_HEADERS,
            also={200: lease.DRY_RUN},
        ),
    },
    '/v1/leases/{lease_id}': {
        'GET': Route(
            leases.show, 200, lease_rules.GET, response_schema=lease.ONE, query=lease_query.ONE
        ),
        'PUT': Route(
            leases.update,
            200,
            lease_rules.UPDATE,
            lease.UPDATE,
            lease.ONE,
            headers=etag.HEADERS,
        ),
        'DELETE': Route(leases.delete, 204, lease_rules.DELETE, headers=etag.HEADERS),
    },
    '/v1/leases/{lease_id}/start': {
        'POST': Route(
            leases.start, 202, lease_rules.START, response_schema=lease.ONE, headers=etag.HEADERS
        ),
    },
    '/v1/leases/{lease_id}/end': {
        'POST': Route(
            leases.end, 202, lease_rules.END, response_schema=lease.ONE, headers=etag.HEADERS
        ),
    },
    '/v1/leases/{lease_id}/history': {
        'GET': Route(
            history.list_,
            200,
            lease_rules.HISTORY,
            response_schema=history_schema.MANY,
            query=history_schema.QUERY,
            operation='history.list',
        ),
    },
    '/v1/leases/{lease_id}/reservations': {
        'POST': Route(
            reservations.create,
            201,
            reservation_rules.CREATE,
            reservation.CREATE,
            reservation.ONE,
            headers=etag.HEADERS,
        ),
    },
    '/v1/leases/{lease_id}/reservations/{reservation_id}': {
        'PUT': Route(
            reservations.update,
            200,
            reservation_rules.UPDATE,
            reservation.CHANGE,
            reservation.ONE,
            headers=etag.HEADERS,
        ),
        'DELETE': Route(reservations.delete, 204, reservation_rules.DELETE, headers=etag.HEADERS),
    },
    '/v1/os-hosts': {
        'GET': Route(
            hosts.list_,
            200,
            plugin_rules.GET,
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
            registered.UPDATE_PROPERTY,
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
            floatingips.list_,
            200,
            floatingip_rules.GET,
            response_schema=floatingip_schemas.MANY,
            query=floatingip_schemas.QUERY,
        ),
        'POST': Route(
            floatingips.create,
            201,
            floatingip_rules.CREATE,
            floatingip_schemas.CREATE,
            floatingip_schemas.CREATED,
        ),
    },
    '/v1/floatingips/{floatingip_id}': {
        'GET': Route(
            floatingips.show, 200, floatingip_rules.GET, response_schema=floatingip_schemas.ONE
        ),
        'DELETE': Route(floatingips.delete, 204, floatingip_rules.DELETE),
    },
    '/v1/networks': {
        'GET': Route(
            networks.list_,
            200,
            network_rules.GET,
            response_schema=network_schemas.MANY,
            query=network_schemas.QUERY,
        ),
        'POST': Route(
            networks.create,
            201,
            network_rules.CREATE,
            network_schemas.CREATE,
            network_schemas.CREATED,
        ),
    },
    '/v1/networks/properties': {
        'GET': Route(
            networks.properties,
            200,
            network_rules.GET_PROPERTIES,
            response_schema=network_schemas.PROPERTIES,
            query=network_schemas.PROPERTIES_QUERY,
        ),
    },
    '/v1/networks/properties/{property_name}': {
        'PATCH': Route(
            networks.update_property,
            200,
            network_rules.UPDATE_PROPERTIES,
            registered.UPDATE_PROPERTY,
            network_schemas.PROPERTY,
        ),
    },
    '/v1/networks/{network_id}': {
        'GET': Route(networks.show, 200, network_rules.GET, response_schema=network_schemas.ONE),
        'PUT': Route(
            networks.update, 200, network_rules.UPDATE, network_schemas.UPDATE, network_schemas.ONE
        ),
        'DELETE': Route(networks.delete, 204, network_rules.DELETE),
    },
    '/v1/availability': {
        'GET': Route(
            availability.get,
            200,
            availability_rules.GET,
            response_schema=availability_schema.MANY,
            query=availability_schema.QUERY,
            operation='availability.get',
        ),
    },
    '/v1/calendar': {
        'GET': Route(
            calendar.get,
            200,
            calendar_rules.GET,
            response_schema=calendar_schema.SHOWN,
            query=calendar_schema.QUERY,
            headers=etag.IF_NONE_MATCH,
            also={304: None},
        ),
    },
    '/v1/feeds': {
        'GET': Route(feeds.list_, 200, feed_rules.GET, response_schema=feed.MANY),
        'POST': Route(feeds.create, 201, feed_rules.CREATE, feed.CREATE, feed.CREATED),
    },
    '/v1/feeds/{feed_id}': {'DELETE': Route(feeds.delete, 204, feed_rules.DELETE)},
    feeds.PATH: {
        'GET': Route(
            feeds.read,
            200,
            response_schema={'type': 'string'},
            query=feed.READ_QUERY,
            headers=etag.IF_NONE_MATCH,
            also={304: None},
            media='text/calendar',
            errors=(403, 404, 503),
        ),
    },
    '/v1/limits': {
        'GET': Route(
            limits.get,
            200,
            limits_rules.GET,
            response_schema=limits_schema.ONE,
            query=limits_schema.QUERY,
            operation='limits.get',
        ),
    },
    '/v1/usage': {
        'GET': Route(
            usage.get,
            200,
            usage_rules.GET,
            response_schema=usage_schema.MANY,
            query=usage_schema.QUERY,
        ),
    },
    '/v1/plugins': {
        'GET': Route(
            plugins.list_,
            200,
            plugin_rules.GET,
            response_schema=plugin.MANY,
            operation='plugins.list',
        )
    },
}


#: The OpenAPI document describes its own route, too.
ROUTES['/v1/openapi.json'] = {
    'GET': Route(
        openapi.describe(ROUTES), 200, response_schema={'type': 'object'}, operation='openapi.show'
    )
}
