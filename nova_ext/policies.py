# SPDX-License-Identifier: Apache-2.0
"""The policy of wake_up, in nova's policy file beside nova's own rules."""

import functools
from typing import Any

import nova.conf
from nova import exception
from nova.policies import base
from oslo_policy import policy

from climateclient.extension import policies

WAKE_UP = 'climate:servers:wake_up'

RULES = (
    policies.wake_up(WAKE_UP, 'Start a reserved server.', '/servers/{server_id}/action (wake_up)'),
)


def list_rules() -> list[policy.RuleDefault]:
    """Give the rules to oslopolicy-sample-generator."""
    return list(RULES)


@functools.cache
def _enforcer() -> policy.Enforcer:
    return policies.enforcer(nova.conf.CONF, [*base.list_rules(), *RULES])


def authorize_wake_up(context: Any, instance: Any) -> None:
    """Check that the caller may start this server now.

    :raises nova.exception.PolicyNotAuthorized: no
    """
    policies.authorize(_enforcer(), WAKE_UP, context, instance, exception.PolicyNotAuthorized)
