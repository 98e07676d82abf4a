# SPDX-License-Identifier: Apache-2.0
"""Define the policy of wake_up, in nova's policy file beside nova's own rules."""

import nova.conf
from nova import exception
from nova.policies import base

from climateclient.extension import policies
from climateclient.extension.wake_up import WakeUpPolicy

WAKE_UP = 'climate:servers:wake_up'

POLICY = WakeUpPolicy(
    policies.wake_up(WAKE_UP, 'Start a reserved server.', '/servers/{server_id}/action (wake_up)'),
    nova.conf.CONF,
    base.list_rules,
    exception.PolicyNotAuthorized,
)
#: For oslopolicy-sample-generator.
list_rules = POLICY.list_rules
