# SPDX-License-Identifier: Apache-2.0
"""The default policies of the lease service, by noun, and the roles.

Keystone implies reader by member, member by manager and manager by admin.
"""

from collections.abc import Sequence

from oslo_policy import policy

from climate_core import packages

ADMIN = 'role:admin'
PROJECT_READER = '(role:reader and project_id:%(project_id)s)'
PROJECT_MEMBER = '(role:member and project_id:%(project_id)s)'
PROJECT_MANAGER = '(role:manager and project_id:%(project_id)s)'

MEMBER = f'{PROJECT_MEMBER} or {PROJECT_MANAGER} or {ADMIN}'
READER = f'{PROJECT_READER} or {MEMBER}'

#: Tokens of a project: a lease belongs to one, and an admin of the system has none.
PROJECT = ('project',)


def rule(
    name: str,
    check_str: str,
    description: str,
    *operations: str,
    scope_types: Sequence[str] = PROJECT,
) -> policy.DocumentedRuleDefault:
    """Create the default of a policy.

    :param operations: the calls of the API that enforce it, as ``GET /v1/leases``
    """
    calls = (operation.split(' ') for operation in operations)
    documented: list[policy.Operation] = [{'path': path, 'method': verb} for verb, path in calls]
    return policy.DocumentedRuleDefault(
        name, check_str, description, documented, scope_types=list(scope_types)
    )


def list_rules() -> list[policy.RuleDefault]:
    """Return the defaults, with those of the reservation packages (an entry point)."""
    return [
        *LEASE_RULES,
        *RESERVATION_RULES,
        *AVAILABILITY_RULES,
        *CALENDAR_RULES,
        *FEED_RULES,
        *PLUGIN_RULES,
        *USAGE_RULES,
        *LIMIT_RULES,
        *(rule for package in packages.list_packages() for rule in package.list_policies()),
    ]


GET_LEASES = 'climate:leases:get'
GET_ALL_LEASES = 'climate:leases:get_all'
CREATE_LEASE = 'climate:leases:create'
UPDATE_LEASE = 'climate:leases:update'
DELETE_LEASE = 'climate:leases:delete'
GET_LEASE_HISTORY = 'climate:leases:history'
START_LEASE = 'climate:leases:start'
END_LEASE = 'climate:leases:end'
SET_PRIORITY = 'climate:leases:set_priority'
#: Evacuate shared hosts for a lease of the kind best_effort.
EVACUATE_HOSTS = 'climate:leases:make_room'

LEASE_RULES = [
    rule(
        GET_LEASES,
        READER,
        'Show the leases of a project. To other callers a lease is reported as not found.',
        'GET /v1/leases',
        'GET /v1/leases/{lease_id}',
    ),
    rule(GET_ALL_LEASES, ADMIN, 'List the leases of all projects.', 'GET /v1/leases'),
    rule(CREATE_LEASE, MEMBER, 'Create a lease in the project of the token.', 'POST /v1/leases'),
    rule(
        UPDATE_LEASE,
        MEMBER,
        'Change a lease: its name, its dates, its start policy and its notifications.',
        'PUT /v1/leases/{lease_id}',
    ),
    rule(
        DELETE_LEASE,
        MEMBER,
        'Delete a lease and release its resources.',
        'DELETE /v1/leases/{lease_id}',
    ),
    rule(
        START_LEASE,
        MEMBER,
        'Start a lease whose start_policy is manual.',
        'POST /v1/leases/{lease_id}/start',
    ),
    rule(
        END_LEASE,
        MEMBER,
        'End a lease early, or cancel it before its start.',
        'POST /v1/leases/{lease_id}/end',
    ),
    rule(
        SET_PRIORITY,
        ADMIN,
        'Set the priority of a queued lease.',
        'POST /v1/leases',
        'PUT /v1/leases/{lease_id}',
    ),
    rule(
        EVACUATE_HOSTS,
        ADMIN,
        'Create a lease of the kind best_effort, for which servers of other projects are moved '
        'from shared hosts.',
        'POST /v1/leases',
    ),
    rule(
        GET_LEASE_HISTORY,
        READER,
        'Show who or what changed a lease, also after it was deleted.',
        'GET /v1/leases/{lease_id}/history',
    ),
]


CREATE_RESERVATION = 'climate:reservations:create'
UPDATE_RESERVATION = 'climate:reservations:update'
DELETE_RESERVATION = 'climate:reservations:delete'

RESERVATION_RULES = [
    rule(
        CREATE_RESERVATION,
        MEMBER,
        'Add a resource of the project to a lease of the project.',
        'POST /v1/leases/{lease_id}/reservations',
        # With the id of an existing lease.
        'POST /v1/leases',
    ),
    rule(
        UPDATE_RESERVATION,
        MEMBER,
        'Change a resource in a lease, for example its end action.',
        'PUT /v1/leases/{lease_id}/reservations/{reservation_id}',
        # With a list of reservations.
        'PUT /v1/leases/{lease_id}',
    ),
    rule(
        DELETE_RESERVATION,
        MEMBER,
        'Remove a resource from a lease that continues.',
        'DELETE /v1/leases/{lease_id}/reservations/{reservation_id}',
    ),
]


GET_AVAILABILITY = 'climate:availability:get'

AVAILABILITY_RULES = [
    rule(
        GET_AVAILABILITY,
        READER,
        'Show when resources can be reserved, but not who has reserved the rest.',
        'GET /v1/availability',
    )
]


GET_CALENDAR = 'climate:calendar:get'

GET_ALLOCATIONS = 'climate:hosts:get_allocations'
GET_PRIVATE_PROPERTIES = 'climate:hosts:get_private_properties'
CALENDAR_RULES = [
    rule(
        GET_CALENDAR,
        READER,
        'Show the allocations of the project over time, and the total and free capacity, but not '
        'to whom the rest is allocated. Leases of all projects need ``climate:leases:get_all`` '
        'too, hosts ``climate:hosts:get_allocations``.',
        'GET /v1/calendar',
    ),
    rule(
        GET_ALLOCATIONS,
        ADMIN,
        'Show to which reservations of which leases hosts are allocated.',
        'GET /v1/os-hosts/allocations',
        'GET /v1/os-hosts/{host_id}/allocation',
    ),
    rule(
        GET_PRIVATE_PROPERTIES,
        ADMIN,
        'Show private extra properties, too, in the list and in hosts.',
        'GET /v1/os-hosts/properties',
        'GET /v1/os-hosts',
        'GET /v1/os-hosts/{host_id}',
    ),
]


GET_FEEDS = 'climate:feeds:get'
CREATE_FEED = 'climate:feeds:create'
DELETE_FEED = 'climate:feeds:delete'

_FEED_OWNER = '(role:reader and user_id:%(user_id)s and project_id:%(project_id)s)'

FEED_RULES = [
    rule(
        GET_FEEDS,
        _FEED_OWNER,
        "List the caller's feeds in the project of the token.",
        'GET /v1/feeds',
    ),
    rule(
        CREATE_FEED,
        _FEED_OWNER,
        'Create a feed, which is read without a token of Keystone. It shows the leases of the '
        'project of the token, as long as ``climate:leases:get`` allows its user to see them.',
        'POST /v1/feeds',
    ),
    rule(
        DELETE_FEED,
        f'{_FEED_OWNER} or {ADMIN}',
        'Delete a feed, so that it can no longer be read.',
        'DELETE /v1/feeds/{feed_id}',
    ),
]


GET_PLUGINS = 'climate:plugins:get'

PLUGIN_RULES = [
    rule(
        GET_PLUGINS,
        '@',
        'Show which types of resources can be reserved. Needs a token, but no role.',
        'GET /v1/plugins',
        'GET /v1/os-hosts',
        scope_types=('project', 'domain', 'system'),
    )
]


GET_USAGE = 'climate:usage:get'
GET_ALL_USAGE = 'climate:usage:get_all'

USAGE_RULES = [
    rule(GET_USAGE, READER, 'Show what a project has reserved and used.', 'GET /v1/usage'),
    rule(GET_ALL_USAGE, ADMIN, 'Show what all projects have reserved and used.', 'GET /v1/usage'),
]


GET_LIMITS = 'climate:limits:get'

LIMIT_RULES = [
    rule(
        GET_LIMITS,
        READER,
        'Show the limits of a project, and its usage of them.',
        'GET /v1/limits',
    )
]
