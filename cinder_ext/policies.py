# SPDX-License-Identifier: Apache-2.0
"""The policy of os-wake_up, in cinder's policy file beside cinder's own rules."""

import functools
from typing import Any

from cinder import exception
from cinder.policies import base
from oslo_config import cfg
from oslo_policy import policy

from climateclient.extension import policies

WAKE_UP = 'climate:volumes:wake_up'

RULES = (
    policies.wake_up(
        WAKE_UP,
        'Create what a reserved volume reserves.',
        '/volumes/{volume_id}/action (os-wake_up)',
    ),
)


def list_rules() -> list[policy.RuleDefault]:
    """Give the rules to oslopolicy-sample-generator."""
    return list(RULES)


@functools.cache
def _enforcer() -> policy.Enforcer:
    return policies.enforcer(cfg.CONF, [*base.list_rules(), *RULES])


def authorize_wake_up(context: Any, volume: Any) -> None:
    """Check that the caller may create this volume now.

    :raises cinder.exception.PolicyNotAuthorized: no
    """
    policies.authorize(_enforcer(), WAKE_UP, context, volume, exception.PolicyNotAuthorized)
