# SPDX-License-Identifier: Apache-2.0
"""Policies of hosts."""

from climate_core.policies import ADMIN, READER, rule

GET = 'climate:hosts:get'
CREATE = 'climate:hosts:create'
UPDATE = 'climate:hosts:update'
DELETE = 'climate:hosts:delete'
GET_USAGE = 'climate:hosts:get_usage'
GET_PROPERTIES = 'climate:hosts:get_properties'
UPDATE_PROPERTIES = 'climate:hosts:update_properties'
GET_POOLS = 'climate:hosts:get_pools'
UPDATE_POOLS = 'climate:hosts:update_pools'
DELETE_POOLS = 'climate:hosts:delete_pools'

RULES = [
    rule(
        GET,
        ADMIN,
        'Show the hosts of the pools. Other users see one entry that stands for all of them.',
        'GET /v1/os-hosts',
        'GET /v1/os-hosts/{host_id}',
    ),
    rule(CREATE, ADMIN, 'Add a host to a pool.', 'POST /v1/os-hosts'),
    rule(
        UPDATE,
        ADMIN,
        'Change a host: its pool, its extra properties, and whether it takes new allocations.',
        'PUT /v1/os-hosts/{host_id}',
    ),
    rule(DELETE, ADMIN, 'Remove a host from its pool.', 'DELETE /v1/os-hosts/{host_id}'),
    rule(
        GET_USAGE,
        ADMIN,
        'Show how long hosts were powered off.',
        'GET /v1/os-hosts/usage',
    ),
    rule(
        GET_PROPERTIES,
        READER,
        'Show the extra properties of hosts, which reservations can ask for.',
        'GET /v1/os-hosts/properties',
    ),
    rule(
        UPDATE_PROPERTIES,
        ADMIN,
        'Make an extra property of hosts private, or public again.',
        'PATCH /v1/os-hosts/properties/{property_name}',
    ),
    rule(
        GET_POOLS,
        ADMIN,
        'Show the pools of hosts, and which projects may use them.',
        'GET /v1/os-hosts/pools',
        'GET /v1/os-hosts/pools/{pool_name}',
    ),
    rule(
        UPDATE_POOLS,
        ADMIN,
        'Set which projects and domains may use a pool of hosts.',
        'PUT /v1/os-hosts/pools/{pool_name}',
    ),
    rule(
        DELETE_POOLS,
        ADMIN,
        'Delete a pool that has no hosts.',
        'DELETE /v1/os-hosts/pools/{pool_name}',
    ),
]
