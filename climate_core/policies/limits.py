# SPDX-License-Identifier: Apache-2.0
"""Policies of limits."""

from oslo_policy import policy

from climate_core.policies import base

GET = 'climate:limits:get'

RULES = [
    policy.DocumentedRuleDefault(
        name=GET,
        check_str=f'{base.PROJECT_READER_OR_ADMIN} or {base.SERVICE}',
        scope_types=base.PROJECT,
        description='See the limits of a project, and what it holds.',
        operations=[{'path': '/v1/limits', 'method': 'GET'}],
    ),
]
