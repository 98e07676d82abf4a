# SPDX-License-Identifier: Apache-2.0
"""Default policies of floating IPs and network segments."""

from climate_core.policies.roles import ADMIN, READER, rule

GET_FLOATING_IPS = 'climate:floatingips:get'
CREATE_FLOATING_IPS = 'climate:floatingips:create'
DELETE_FLOATING_IPS = 'climate:floatingips:delete'

FLOATING_IP_RULES = [
    rule(
        GET_FLOATING_IPS,
        READER,
        'See the floating IPs that are set apart for leases.',
        'GET /v1/floatingips',
        'GET /v1/floatingips/{floatingip_id}',
    ),
    rule(CREATE_FLOATING_IPS, ADMIN, 'Set floating IPs apart for leases.', 'POST /v1/floatingips'),
    rule(
        DELETE_FLOATING_IPS,
        ADMIN,
        'Take a floating IP away from those for leases.',
        'DELETE /v1/floatingips/{floatingip_id}',
    ),
]


GET_NETWORKS = 'climate:networks:get'
GET_RESTRICTED_NETWORKS = 'climate:networks:get_restricted'
CREATE_NETWORKS = 'climate:networks:create'
UPDATE_NETWORKS = 'climate:networks:update'
DELETE_NETWORKS = 'climate:networks:delete'
GET_NETWORK_PROPERTIES = 'climate:networks:get_properties'
GET_PRIVATE_NETWORK_PROPERTIES = 'climate:networks:get_private_properties'
UPDATE_NETWORK_PROPERTIES = 'climate:networks:update_properties'

NETWORK_RULES = [
    rule(
        GET_NETWORKS,
        READER,
        'See the network segments that are set apart for leases of the own project.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        GET_RESTRICTED_NETWORKS,
        ADMIN,
        'See those of other projects, too, and which projects each of them is for.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(CREATE_NETWORKS, ADMIN, 'Set network segments apart for leases.', 'POST /v1/networks'),
    rule(
        UPDATE_NETWORKS,
        ADMIN,
        'Change a network segment: its extra properties, the projects that it is for, and whether '
        'it takes new promises.',
        'PUT /v1/networks/{network_id}',
    ),
    rule(
        DELETE_NETWORKS,
        ADMIN,
        'Take a network segment away from those for leases.',
        'DELETE /v1/networks/{network_id}',
    ),
    rule(
        GET_NETWORK_PROPERTIES,
        READER,
        'See the extra properties of network segments, which reservations can ask for.',
        'GET /v1/networks/properties',
    ),
    rule(
        GET_PRIVATE_NETWORK_PROPERTIES,
        ADMIN,
        'See the private ones of them, too, in the list and in segments.',
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
