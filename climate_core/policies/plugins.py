# SPDX-License-Identifier: Apache-2.0
"""Policies of what can be reserved."""

from climate_core.policies.base import rule

GET = 'climate:plugins:get'

RULES = [
    rule(
        GET,
        '@',
        'See which types of resources can be reserved. Needs a token, but no role.',
        'GET /v1/plugins',
        'GET /v1/os-hosts',
        scope_types=('project', 'domain', 'system'),
    )
]
