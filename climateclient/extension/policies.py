# SPDX-License-Identifier: Apache-2.0
"""The policy rule of wake_up, in the policy file of a service beside its own rules."""

from collections.abc import Iterable
from typing import Any

from oslo_config import cfg
from oslo_policy import policy


def wake_up(name: str, what: str, operation: str) -> policy.DocumentedRuleDefault:
    """Make the rule of the action.

    :param name: of the rule
    :param what: the first sentence of its description
    :param operation: the path, and the action in brackets
    """
    return policy.DocumentedRuleDefault(
        name=name,
        # The lease service wakes without a check of the project before it.
        check_str='(role:admin and not service_roles:service) or '
        '(project_id:%(project_id)s and service_roles:service)',
        description=f'{what} The lease service does it with a token of a trust of the owner '
        'together with its own service token, in the project of the owner only; the owner alone '
        'cannot start early.',
        operations=[{'method': 'POST', 'path': operation}],
        scope_types=['project'],
    )


def enforcer(conf: cfg.ConfigOpts, rules: Iterable[policy.RuleDefault]) -> policy.Enforcer:
    """Make a second enforcer on the policy file of a service; the service's own stays as it is.

    :param rules: the rule of wake_up, and those of the service that a policy file may name
    """
    result = policy.Enforcer(conf)
    result.suppress_default_change_warnings = True
    result.register_defaults(list(rules))
    return result


def authorize(
    enforcer: policy.Enforcer, rule: str, context: Any, resource: Any, refused: type[Exception]
) -> None:
    """Check that the caller has a rule for a resource.

    :param resource: has project_id and user_id
    :param refused: the service's own exception, which takes the rule as ``action``
    :raises Exception: that, if the rule does not allow it
    """
    target = {'project_id': resource.project_id, 'user_id': resource.user_id}
    try:
        enforcer.authorize(rule, target, context, do_raise=True, exc=refused, action=rule)
    except policy.InvalidScope:
        raise refused(action=rule) from None  # type: ignore[call-arg]
