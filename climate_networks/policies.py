# SPDX-License-Identifier: Apache-2.0
"""Default policies of floating IPs and network segments."""

from climate_core.policies import ADMIN, READER, rule

GET_FLOATING_IPS = 'climate:floatingips:get'
CREATE_FLOATING_IPS = 'climate:floatingips:create'
DELETE_FLOATING_IPS = 'climate:floatingips:delete'

GET_NETWORKS = 'climate:networks:get'
GET_RESTRICTED_NETWORKS = 'climate:networks:get_restricted'
CREATE_NETWORKS = 'climate:networks:create'
UPDATE_NETWORKS = 'climate:networks:update'
DELETE_NETWORKS = 'climate:networks:delete'
GET_NETWORK_PROPERTIES = 'climate:networks:get_properties'
GET_PRIVATE_NETWORK_PROPERTIES = 'climate:networks:get_private_properties'
UPDATE_NETWORK_PROPERTIES = 'climate:networks:update_properties'

RULES = [
    rule(
        GET_FLOATING_IPS,
        READER,
        'Show the floating IPs that are registered for leases.',
        'GET /v1/floatingips',
        'GET /v1/floatingips/{floatingip_id}',
    ),
    rule(CREATE_FLOATING_IPS, ADMIN, 'Register floating IPs for leases.', 'POST /v1/floatingips'),
    rule(
        DELETE_FLOATING_IPS,
        ADMIN,
        'Remove a floating IP from those registered for leases.',
        'DELETE /v1/floatingips/{floatingip_id}',
    ),
    rule(
        GET_NETWORKS,
        READER,
        "Show the network segments that the caller's project can reserve.",
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        GET_RESTRICTED_NETWORKS,
        ADMIN,
        'Show the segments of other projects, too, and which projects can reserve them.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(CREATE_NETWORKS, ADMIN, 'Register network segments for leases.', 'POST /v1/networks'),
    rule(
        UPDATE_NETWORKS,
        ADMIN,
        'Change a network segment: its extra properties, the projects that can reserve it, and '
        'whether it takes new allocations.',
        'PUT /v1/networks/{network_id}',
    ),
    rule(
        DELETE_NETWORKS,
        ADMIN,
        'Remove a network segment from those registered for leases.',
        'DELETE /v1/networks/{network_id}',
    ),
    rule(
        GET_NETWORK_PROPERTIES,
        READER,
        'Show the extra properties of network segments, which reservations can ask for.',
        'GET /v1/networks/properties',
    ),
    rule(
        GET_PRIVATE_NETWORK_PROPERTIES,
        ADMIN,
        'Show private extra properties, too, in the list and in segments.',
        'GET /v1/networks/properties',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        UPDATE_NETWORK_PROPERTIES,
        ADMIN,
        'Make an extra property of network segments private, or public again.',
        'PATCH /v1/networks/properties/{property_name}',
    ),
]
