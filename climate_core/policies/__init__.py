# SPDX-License-Identifier: Apache-2.0
"""The default policies of the lease service, by noun."""

from oslo_policy import policy

from climate_core.policies.roles import ADMIN, MEMBER, READER, rule
from climate_hosts import policies
from climate_networks import policies as climate_networks_policies


def list_rules() -> list[policy.RuleDefault]:
    """Return every default, for the enforcer and for the tools of oslo.policy."""
    nouns = (
        leases,
        reservations,
        policies,
        climate_networks_policies,
        availability,
        calendar,
        feeds,
        plugins,
        usage,
        limits,
    )
]


GET_CALENDAR = 'climate:calendar:get'

CALENDAR_RULES = [
    rule(
        GET_CALENDAR,
        READER,
        'See when what is promised to the project, and how much there is and is free, but not to '
        'whom the rest is promised. Leases of all projects need ``climate:leases:get_all`` too, '
        'hosts ``climate:hosts:get_allocations``.',
        'GET /v1/calendar',
    )
]


GET_FEEDS = 'climate:feeds:get'
CREATE_FEED = 'climate:feeds:create'
DELETE_FEED = 'climate:feeds:delete'

_FEED_OWNER = '(role:reader and user_id:%(user_id)s and project_id:%(project_id)s)'

FEED_RULES = [
    rule(
        GET_FEEDS, _FEED_OWNER, 'List the own feeds in the project of the token.', 'GET /v1/feeds'
    ),
    rule(
        CREATE_FEED,
        _FEED_OWNER,
        'Create a feed, which is read without a token of Keystone. It shows the leases of the '
        'project of the token, while its user may see them by ``climate:leases:get``.',
        'POST /v1/feeds',
    ),
    rule(
        DELETE_FEED,
        f'{_FEED_OWNER} or {ADMIN}',
        'Delete a feed, so that it is read no more.',
        'DELETE /v1/feeds/{feed_id}',
    ),
]


GET_PLUGINS = 'climate:plugins:get'

PLUGIN_RULES = [
    rule(
        GET_PLUGINS,
        '@',
        'See which types of resources can be reserved. Needs a token, but no role.',
        'GET /v1/plugins',
        'GET /v1/os-hosts',
        scope_types=('project', 'domain', 'system'),
    )
]


GET_USAGE = 'climate:usage:get'
GET_ALL_USAGE = 'climate:usage:get_all'

USAGE_RULES = [
    rule(GET_USAGE, READER, 'See what a project has reserved and used.', 'GET /v1/usage'),
    rule(GET_ALL_USAGE, ADMIN, 'See what all projects have reserved and used.', 'GET /v1/usage'),
]


GET_LIMITS = 'climate:limits:get'

LIMIT_RULES = [
    rule(GET_LIMITS, READER, 'See the limits of a project, and what it holds.', 'GET /v1/limits')
]
