# SPDX-License-Identifier: Apache-2.0
"""Policies of leases."""

from oslo_policy import policy

from climate_core.policies import base

GET = 'climate:leases:get'
GET_ALL = 'climate:leases:get_all'
CREATE = 'climate:leases:create'
UPDATE = 'climate:leases:update'
DELETE = 'climate:leases:delete'
HISTORY = 'climate:leases:history'
START = 'climate:leases:start'
END = 'climate:leases:end'

_LEASES = '/v1/leases'
_LEASE = '/v1/leases/{lease_id}'

RULES = [
    policy.DocumentedRuleDefault(
        name=GET,
        check_str=f'{base.PROJECT_READER_OR_ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='See the leases of a project. A lease that may not be seen is not found.',
        operations=[{'path': _LEASES, 'method': 'GET'}, {'path': _LEASE, 'method': 'GET'}],
    ),
    policy.DocumentedRuleDefault(
        name=GET_ALL,
        check_str=f'{base.ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='List the leases of all projects.',
        operations=[{'path': _LEASES, 'method': 'GET'}],
    ),
    policy.DocumentedRuleDefault(
        name=CREATE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Create a lease in the project of the token.',
        operations=[{'path': _LEASES, 'method': 'POST'}],
    ),
    policy.DocumentedRuleDefault(
        name=UPDATE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Change a lease: its name, its dates, how it starts and whom it tells what.',
        operations=[{'path': _LEASE, 'method': 'PUT'}],
    ),
    policy.DocumentedRuleDefault(
        name=DELETE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Delete a lease and free what it holds.',
        operations=[{'path': _LEASE, 'method': 'DELETE'}],
    ),
    policy.DocumentedRuleDefault(
        name=START,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Start a lease whose start_policy is manual.',
        operations=[{'path': f'{_LEASE}/start', 'method': 'POST'}],
    ),
    policy.DocumentedRuleDefault(
        name=END,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='End a lease early, or cancel it before its start.',
        operations=[{'path': f'{_LEASE}/end', 'method': 'POST'}],
    ),
    policy.DocumentedRuleDefault(
        name=HISTORY,
        check_str=f'{base.PROJECT_READER_OR_ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='See who or what changed a lease, also after it was deleted.',
        operations=[{'path': f'{_LEASE}/history', 'method': 'GET'}],
    ),
]
