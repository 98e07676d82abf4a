# SPDX-License-Identifier: Apache-2.0
"""Policies of reservations."""

from oslo_policy import policy

from climate_core.policies import base

CREATE = 'climate:reservations:create'
UPDATE = 'climate:reservations:update'
DELETE = 'climate:reservations:delete'

_RESERVATION = '/v1/leases/{lease_id}/reservations/{reservation_id}'

RULES = [
    policy.DocumentedRuleDefault(
        name=CREATE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Add a resource of the project to a lease of the project.',
        operations=[
            {'path': '/v1/leases/{lease_id}/reservations', 'method': 'POST'},
            # With the id of a lease that is there already.
            {'path': '/v1/leases', 'method': 'POST'},
        ],
    ),
    policy.DocumentedRuleDefault(
        name=UPDATE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Change a resource in a lease, as what is done with it at the end.',
        operations=[
            {'path': _RESERVATION, 'method': 'PUT'},
            # With a list of reservations.
            {'path': '/v1/leases/{lease_id}', 'method': 'PUT'},
        ],
    ),
    policy.DocumentedRuleDefault(
        name=DELETE,
        check_str=base.PROJECT_MEMBER_OR_ADMIN,
        scope_types=base.PROJECT,
        description='Take a resource out of a lease that goes on.',
        operations=[{'path': _RESERVATION, 'method': 'DELETE'}],
    ),
]
