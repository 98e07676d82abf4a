# SPDX-License-Identifier: Apache-2.0
"""The names of the networks of floating IPs."""

from typing import Any

from horizon import exceptions
from openstack_dashboard.api import neutron


def external_names(request: Any) -> dict[str, str]:
    """Return the names of external networks by their ids; nothing if Neutron returns an error."""
    try:
        networks = neutron.network_list(request, **{'router:external': True})
    except Exception:  # noqa: BLE001
        exceptions.handle(request, ignore=True)
        return {}
    return {network.id: network.name for network in networks if network.name}
