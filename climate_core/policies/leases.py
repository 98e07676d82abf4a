# SPDX-License-Identifier: Apache-2.0
"""Policies of leases."""

from climate_core.policies.base import ADMIN, MEMBER, READER, rule

GET = 'climate:leases:get'
GET_ALL = 'climate:leases:get_all'
CREATE = 'climate:leases:create'
UPDATE = 'climate:leases:update'
DELETE = 'climate:leases:delete'
HISTORY = 'climate:leases:history'
START = 'climate:leases:start'
END = 'climate:leases:end'
SET_PRIORITY = 'climate:leases:set_priority'
MAKE_ROOM = 'climate:leases:make_room'

RULES = [
    rule(
        GET,
        READER,
        'See the leases of a project. A lease that may not be seen is not found.',
        'GET /v1/leases',
        'GET /v1/leases/{lease_id}',
    ),
    rule(GET_ALL, ADMIN, 'List the leases of all projects.', 'GET /v1/leases'),
    rule(CREATE, MEMBER, 'Create a lease in the project of the token.', 'POST /v1/leases'),
    rule(
        UPDATE,
        MEMBER,
        'Change a lease: its name, its dates, how it starts and whom it tells what.',
        'PUT /v1/leases/{lease_id}',
    ),
    rule(DELETE, MEMBER, 'Delete a lease and free what it holds.', 'DELETE /v1/leases/{lease_id}'),
    rule(
        START,
        MEMBER,
        'Start a lease whose start_policy is manual.',
        'POST /v1/leases/{lease_id}/start',
    ),
    rule(
        END,
        MEMBER,
        'End a lease early, or cancel it before its start.',
        'POST /v1/leases/{lease_id}/end',
    ),
    rule(
        SET_PRIORITY,
        ADMIN,
        'Have a lease that waits come before others, or behind them.',
        'POST /v1/leases',
        'PUT /v1/leases/{lease_id}',
    ),
    rule(
        MAKE_ROOM,
        ADMIN,
        'Create a lease of the kind best_effort, for which servers of other projects are moved '
        'from shared hosts.',
        'POST /v1/leases',
    ),
    rule(
        HISTORY,
        READER,
        'See who or what changed a lease, also after it was deleted.',
        'GET /v1/leases/{lease_id}/history',
    ),
]
