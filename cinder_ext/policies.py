# SPDX-License-Identifier: Apache-2.0
"""The policy of os-wake_up, in cinder's policy file beside cinder's own rules."""

import functools
from typing import Any

from cinder import exception
from cinder.policies import base
from oslo_config import cfg
from oslo_policy import policy

WAKE_UP = 'climate:volumes:wake_up'

RULES = (
    policy.DocumentedRuleDefault(
        name=WAKE_UP,
        check_str='role:admin or (project_id:%(project_id)s and service_roles:service)',
        description='Create what a reserved volume reserves. The lease service does it with a '
        'token of a trust of the owner together with its own service token; the owner alone '
        'cannot start early.',
        operations=[{'method': 'POST', 'path': '/volumes/{volume_id}/action (os-wake_up)'}],
        scope_types=['project'],
    ),
)


def list_rules() -> list[policy.RuleDefault]:
    """Give the rules to oslopolicy-sample-generator."""
    return list(RULES)


@functools.cache
def _enforcer() -> policy.Enforcer:
    """Make an enforcer of our own on cinder's policy file; cinder's is left as it is."""
    enforcer = policy.Enforcer(cfg.CONF)
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults([*base.list_rules(), *RULES])
    return enforcer


def authorize_wake_up(context: Any, volume: Any) -> None:
    """Check that the caller may create this volume now.

    :raises cinder.exception.PolicyNotAuthorized: no
    """
    target = {'project_id': volume.project_id, 'user_id': volume.user_id}
    try:
        _enforcer().authorize(
            WAKE_UP,
            target,
            context,
            do_raise=True,
            exc=exception.PolicyNotAuthorized,
            action=WAKE_UP,
        )
    except policy.InvalidScope:
        raise exception.PolicyNotAuthorized(action=WAKE_UP) from None
