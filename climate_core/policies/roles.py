# SPDX-License-Identifier: Apache-2.0
"""The roles. Keystone implies reader by member, member by manager and manager by admin."""

from collections.abc import Sequence

from oslo_policy import policy

ADMIN = 'role:admin'
PROJECT_READER = '(role:reader and project_id:%(project_id)s)'
PROJECT_MEMBER = '(role:member and project_id:%(project_id)s)'
PROJECT_MANAGER = '(role:manager and project_id:%(project_id)s)'

MEMBER = f'{PROJECT_MEMBER} or {PROJECT_MANAGER} or {ADMIN}'
READER = f'{PROJECT_READER} or {MEMBER}'

#: Tokens of a project: a lease belongs to one, and an admin of the system has none.
PROJECT = ('project',)


def rule(
    name: str,
    check_str: str,
    description: str,
    *operations: str,
    scope_types: Sequence[str] = PROJECT,
) -> policy.DocumentedRuleDefault:
    """Create the default of a policy.

    :param operations: the calls of the API that enforce it, as ``GET /v1/leases``
    """
    calls = (operation.split(' ') for operation in operations)
    documented: list[policy.Operation] = [{'path': path, 'method': verb} for verb, path in calls]
    return policy.DocumentedRuleDefault(
        name, check_str, description, documented, scope_types=list(scope_types)
    )
