# SPDX-License-Identifier: Apache-2.0
"""Policy of the calendar."""

from climate_core.policies.base import READER, rule

GET = 'climate:calendar:get'

RULES = [
    rule(
        GET,
        READER,
        'See when what is promised to the project, and how much there is and is free, but not to '
        'whom the rest is promised. Leases of all projects need ``climate:leases:get_all`` too, '
        'hosts ``climate:hosts:get_allocations``.',
        'GET /v1/calendar',
    )
]
