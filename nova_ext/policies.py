# SPDX-License-Identifier: Apache-2.0
"""The policy of wake_up, in nova's policy file beside nova's own rules."""

import functools
from typing import Any

import nova.conf
from nova import exception
from nova.policies import base
from oslo_policy import policy

WAKE_UP = 'climate:servers:wake_up'

RULES = (
    policy.DocumentedRuleDefault(
        name=WAKE_UP,
        check_str='role:admin or (project_id:%(project_id)s and service_roles:service)',
        description='Start a reserved server. The lease service does it with a token of a trust '
        'of the owner together with its own service token; the owner alone cannot start early.',
        operations=[{'method': 'POST', 'path': '/servers/{server_id}/action (wake_up)'}],
        scope_types=['project'],
    ),
)


def list_rules() -> list[policy.RuleDefault]:
    """Give the rules to oslopolicy-sample-generator."""
    return list(RULES)


@functools.cache
def _enforcer() -> policy.Enforcer:
    """Make an enforcer of our own on nova's policy file; nova's is left as it is."""
    enforcer = policy.Enforcer(nova.conf.CONF)
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults([*base.list_rules(), *RULES])
    return enforcer


def authorize_wake_up(context: Any, instance: Any) -> None:
    """Check that the caller may start this server now.

    :raises nova.exception.PolicyNotAuthorized: no
    """
    target = {'project_id': instance.project_id, 'user_id': instance.user_id}
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
