# SPDX-License-Identifier: Apache-2.0
"""``openstack server wake up``, for operators."""

from typing import Any

from climateclient.osc import wake_up


class WakeUpServer(wake_up.WakeUp):
    """Start a server in the status RESERVED before the start of its lease.

    Nova's policy allows this to administrators and to the lease service only.
    """

    noun = 'server'
    action = 'wake_up'

    def service(self, clients: Any) -> Any:
        return clients.compute
