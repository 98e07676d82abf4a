# SPDX-License-Identifier: Apache-2.0
"""Look up the flavors of Nova: what servers of a flavor take of a host.

Facts: Compute API reference, ``/flavors``.
"""

from typing import TYPE_CHECKING, Any

from climate_common import amounts
from climate_core.cloud.servers import NOVA

if TYPE_CHECKING:
    from openstack import connection


def get(conn: 'connection.Connection', flavor_id: str) -> dict[str, Any]:
    """Return a flavor as the API shows it; without ``extra_specs`` if they are hidden.

    :raises climate_core.cloud.errors.Gone: there is none that these rights see
    """
    flavor: dict[str, Any] = NOVA.read(conn, f'/flavors/{flavor_id}', 'flavor')
    return flavor


def sizes(flavor: dict[str, Any]) -> dict[str, int]:
    """Return what a server of a flavor takes of its host, by unit; its root disk is local.

    Swap is in MiB and counts in whole GiB (nova/scheduler/utils.py, ResourceRequest).
    """
    swap = -(-int(flavor['swap'] or 0) // 1024)
    return {
        amounts.VCPUS: flavor['vcpus'],
        amounts.MEMORY_MB: flavor['ram'],
        amounts.DISK_GB: flavor['disk'] + flavor['OS-FLV-EXT-DATA:ephemeral'] + swap,
    }
