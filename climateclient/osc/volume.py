# SPDX-License-Identifier: Apache-2.0
"""``openstack volume wake up``, for operators."""

from typing import Any

from climateclient.osc import wake_up


class WakeUpVolume(wake_up.WakeUp):
    """Create a volume in the status lease-reserved before the start of its lease.

    Cinder's policy allows this to administrators and to the lease service only.
    """

    noun = 'volume'
    action = 'os-wake_up'

    def service(self, clients: Any) -> Any:
        return clients.sdk_connection.volume
