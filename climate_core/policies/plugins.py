# SPDX-License-Identifier: Apache-2.0
"""Policies of what can be reserved."""

from oslo_policy import policy

GET = 'climate:plugins:get'

RULES = [
    policy.DocumentedRuleDefault(
        name=GET,
        check_str='@',
        scope_types=['project', 'domain', 'system'],
        description='See which types of resources can be reserved. Needs a token, but no role.',
        operations=[
            {'path': '/v1/plugins', 'method': 'GET'},
            {'path': '/v1/os-hosts', 'method': 'GET'},
        ],
    ),
]
