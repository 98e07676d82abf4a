# SPDX-License-Identifier: Apache-2.0
"""Policies of network segments."""

from climate_core.policies.roles import ADMIN, READER, rule

GET = 'climate:networks:get'
GET_RESTRICTED = 'climate:networks:get_restricted'
CREATE = 'climate:networks:create'
UPDATE = 'climate:networks:update'
DELETE = 'climate:networks:delete'
GET_PROPERTIES = 'climate:networks:get_properties'
GET_PRIVATE = 'climate:networks:get_private_properties'
UPDATE_PROPERTIES = 'climate:networks:update_properties'

RULES = [
    rule(
        GET,
        READER,
        'See the network segments that are set apart for leases of the own project.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        GET_RESTRICTED,
        ADMIN,
        'See those of other projects, too, and which projects each of them is for.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(CREATE, ADMIN, 'Set network segments apart for leases.', 'POST /v1/networks'),
    rule(
        UPDATE,
        ADMIN,
        'Change a network segment: its extra properties, the projects that it is for, and whether '
        'it takes new promises.',
        'PUT /v1/networks/{network_id}',
    ),
    rule(
        DELETE,
        ADMIN,
        'Take a network segment away from those for leases.',
        'DELETE /v1/networks/{network_id}',
    ),
    rule(
        GET_PROPERTIES,
        READER,
        'See the extra properties of network segments, which reservations can ask for.',
        'GET /v1/networks/properties',
    ),
    rule(
        GET_PRIVATE,
        ADMIN,
        'See the private ones of them, too, in the list and in segments.',
        'GET /v1/networks/properties',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        UPDATE_PROPERTIES,
        ADMIN,
        'Make an extra property of network segments private, or public again.',
        'PATCH /v1/networks/properties/{property_name}',
    ),
]
