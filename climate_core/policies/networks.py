# SPDX-License-Identifier: Apache-2.0
"""Policies of network segments."""

from climate_core.policies.base import ADMIN_OR_SERVICE, READER_OR_SERVICE, rule

GET = 'climate:networks:get'
GET_RESTRICTED = 'climate:networks:get_restricted'
CREATE = 'climate:networks:create'
UPDATE = 'climate:networks:update'
DELETE = 'climate:networks:delete'

RULES = [
    rule(
        GET,
        READER_OR_SERVICE,
        'See the network segments that are set apart for leases of the own project.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(
        GET_RESTRICTED,
        ADMIN_OR_SERVICE,
        'See those of other projects, too, and which projects each of them is for.',
        'GET /v1/networks',
        'GET /v1/networks/{network_id}',
    ),
    rule(CREATE, ADMIN_OR_SERVICE, 'Set network segments apart for leases.', 'POST /v1/networks'),
    rule(
        UPDATE,
        ADMIN_OR_SERVICE,
        'Change a network segment: its extra properties, the projects that it is for, and whether '
        'it takes new promises.',
        'PUT /v1/networks/{network_id}',
    ),
    rule(
        DELETE,
        ADMIN_OR_SERVICE,
        'Take a network segment away from those for leases.',
        'DELETE /v1/networks/{network_id}',
    ),
]
