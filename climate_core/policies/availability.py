# SPDX-License-Identifier: Apache-2.0
"""Policy of the availability."""

from climate_core.policies.base import READER, rule

GET = 'climate:availability:get'

RULES = [
    rule(
        GET,
        READER,
        'See when something could be reserved, but not who has reserved the rest.',
        'GET /v1/availability',
    )
]
