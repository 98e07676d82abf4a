# SPDX-License-Identifier: Apache-2.0
"""Define the policy of os-wake_up, in cinder's policy file beside cinder's own rules."""

from cinder import exception
from cinder.policies import base
from oslo_config import cfg

from climateclient.extension import policies
from climateclient.extension.wake_up import WakeUpPolicy

WAKE_UP = 'climate:volumes:wake_up'

POLICY = WakeUpPolicy(
    policies.wake_up(
        WAKE_UP,
        'Create what a reserved volume reserves.',
        '/volumes/{volume_id}/action (os-wake_up)',
    ),
    cfg.CONF,
    base.list_rules,
    exception.PolicyNotAuthorized,
)
#: For oslopolicy-sample-generator.
list_rules = POLICY.list_rules
