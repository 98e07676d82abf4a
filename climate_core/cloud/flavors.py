# SPDX-License-Identifier: Apache-2.0
"""The flavors of Nova, and the capacity that a flavor needs.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/flavors``, ``/flavors/{id}/os-extra_specs`` and ``/flavors/{id}/os-flavor-access``.
"""

from collections.abc import Mapping
from typing import Any
from urllib import parse

from climate_common import resource_types
from climate_core.cloud.connections import Connection
from climate_core.cloud.servers import NOVA


def get(conn: Connection, flavor_id: str) -> dict[str, Any]:
    """Return a flavor as the API shows it; without ``extra_specs`` if they are hidden.

    :raises climate_core.cloud.errors.Gone: these rights see no such flavor
    """
    path = f'/flavors/{parse.quote(flavor_id, safe="")}'
    flavor: dict[str, Any] = NOVA.read(conn, path, 'flavor')
    return flavor


def list_all(conn: Connection) -> list[dict[str, Any]]:
    """Return all flavors, including private ones, one call for each thousand."""
    return list(NOVA.pages(conn, '/flavors/detail', 'flavors', {'is_public': 'None'}))


def sizes(flavor: Mapping[str, Any]) -> dict[str, int]:
    """Return the capacity that a server with a local root disk needs of its host, by unit.

    Swap is in MiB and counts in whole GiB (nova/scheduler/utils.py, ResourceRequest).
    """
    swap = -(-int(flavor['swap'] or 0) // 1024)
    return {
        resource_types.VCPUS: flavor['vcpus'],
        resource_types.MEMORY_MB: flavor['ram'],
        resource_types.DISK_GB: flavor['disk'] + flavor['OS-FLV-EXT-DATA:ephemeral'] + swap,
    }
