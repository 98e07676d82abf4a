# SPDX-License-Identifier: Apache-2.0
"""Policies of reservations."""

from climate_core.policies.base import MEMBER, rule

CREATE = 'climate:reservations:create'
UPDATE = 'climate:reservations:update'
DELETE = 'climate:reservations:delete'

RULES = [
    rule(
        CREATE,
        MEMBER,
        'Add a resource of the project to a lease of the project.',
        'POST /v1/leases/{lease_id}/reservations',
        # With the id of a lease that is there already.
        'POST /v1/leases',
    ),
    rule(
        UPDATE,
        MEMBER,
        'Change a resource in a lease, as what is done with it at the end.',
        'PUT /v1/leases/{lease_id}/reservations/{reservation_id}',
        # With a list of reservations.
        'PUT /v1/leases/{lease_id}',
    ),
    rule(
        DELETE,
        MEMBER,
        'Take a resource out of a lease that goes on.',
        'DELETE /v1/leases/{lease_id}/reservations/{reservation_id}',
    ),
]
