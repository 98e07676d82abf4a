# SPDX-License-Identifier: Apache-2.0
"""The action that wakes a resource up, as far as it is the same in every service."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from climateclient.extension import policies


def schema(action: str) -> dict[str, Any]:
    """Return the JSON Schema of the body ``{action: {}}``; null is the same as ``{}``."""
    nothing = {'type': ['object', 'null'], 'properties': {}, 'additionalProperties': False}
    return {
        'type': 'object',
        'properties': {action: nothing},
        'required': [action],
        'additionalProperties': False,
    }


class WakeUpPolicy:
    """The policy of the action, in the policy file of the service beside its own rules.

    :param rule: made by :func:`climateclient.extension.policies.wake_up`
    :param conf: of the service
    :param others: returns the service's own rules, which a policy file may name
    :param refused: the service's own exception, which takes the rule as ``action``
    """

    def __init__(
        self,
        rule: policy.RuleDefault,
        conf: cfg.ConfigOpts,
        others: Callable[[], Iterable[policy.RuleDefault]],
        refused: type[Exception],
    ) -> None:
        self._rule, self._conf, self._others, self._refused = rule, conf, others, refused
        self._enforcer: policy.Enforcer | None = None

    def list_rules(self) -> list[policy.RuleDefault]:
        """Return the rules for oslopolicy-sample-generator."""
        return [self._rule]

    def authorize(self, context: Any, resource: Any) -> None:
        """Check that the caller may wake this resource now.

        :param resource: has project_id and user_id
        :raises Exception: the service's own exception, if they may not
        """
        if self._enforcer is None:
            self._enforcer = policies.enforcer(self._conf, [*self._others(), self._rule])
        policies.authorize(self._enforcer, self._rule.name, context, resource, self._refused)

    def reload(self) -> None:
        """Read the policy file again at the next check."""
        self._enforcer = None
