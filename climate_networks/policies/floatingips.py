# SPDX-License-Identifier: Apache-2.0
"""Policies of floating IPs."""

from climate_core.policies.roles import ADMIN, READER, rule

GET = 'climate:floatingips:get'
CREATE = 'climate:floatingips:create'
DELETE = 'climate:floatingips:delete'

RULES = [
    rule(
        GET,
        READER,
        'See the floating IPs that are set apart for leases.',
        'GET /v1/floatingips',
        'GET /v1/floatingips/{floatingip_id}',
    ),
    rule(CREATE, ADMIN, 'Set floating IPs apart for leases.', 'POST /v1/floatingips'),
    rule(
        DELETE,
        ADMIN,
        'Take a floating IP away from those for leases.',
        'DELETE /v1/floatingips/{floatingip_id}',
    ),
]
