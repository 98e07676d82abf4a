# SPDX-License-Identifier: Apache-2.0
"""Policies of floating IPs."""

from climate_core.policies.base import ADMIN_OR_SERVICE, READER_OR_SERVICE, rule

GET = 'climate:floatingips:get'
CREATE = 'climate:floatingips:create'
DELETE = 'climate:floatingips:delete'

RULES = [
    rule(
        GET,
        READER_OR_SERVICE,
        'See the floating IPs that are set apart for leases.',
        'GET /v1/floatingips',
        'GET /v1/floatingips/{floatingip_id}',
    ),
    rule(CREATE, ADMIN_OR_SERVICE, 'Set floating IPs apart for leases.', 'POST /v1/floatingips'),
    rule(
        DELETE,
        ADMIN_OR_SERVICE,
        'Take a floating IP away from those for leases.',
        'DELETE /v1/floatingips/{floatingip_id}',
    ),
]
