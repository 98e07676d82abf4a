# SPDX-License-Identifier: Apache-2.0
"""Policies of usage."""

from oslo_policy import policy

from climate_core.policies import base

GET = 'climate:usage:get'
GET_ALL = 'climate:usage:get_all'

_OPERATIONS: list[policy.Operation] = [{'path': '/v1/usage', 'method': 'GET'}]

RULES = [
    policy.DocumentedRuleDefault(
        name=GET,
        check_str=f'{base.PROJECT_READER_OR_ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='See what a project has reserved and used.',
        operations=_OPERATIONS,
    ),
    policy.DocumentedRuleDefault(
        name=GET_ALL,
        check_str=f'{base.ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='See what all projects have reserved and used.',
        operations=_OPERATIONS,
    ),
]
