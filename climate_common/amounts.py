# SPDX-License-Identifier: Apache-2.0
"""The units in which the amounts of reservations are counted, and how resources are counted.

A reservation holds amounts by these names; the limit of a unit in Keystone is called
``reserved_<unit>``.
"""

from collections.abc import Mapping
from typing import Final

SERVERS = 'servers'
VCPUS = 'vcpus'
#: MiB, as Nova's flavors have it.
MEMORY_MB = 'memory_mb'
#: GiB on the disks of compute hosts; has no limit.
DISK_GB = 'disk_gb'
VOLUMES = 'volumes'
#: GiB of volumes, as Cinder's quotas have it.
GIGABYTES = 'gigabytes'
STACKS = 'stacks'
#: Whole compute hosts.
HOSTS = 'hosts'
FLOATING_IPS = 'floatingips'
#: Networks on segments of their own.
NETWORKS = 'networks'

#: The units of a server and of a volume.
SERVER_UNITS = (SERVERS, VCPUS, MEMORY_MB, DISK_GB)
VOLUME_UNITS = (VOLUMES, GIGABYTES)
#: The units that projects have limits for, in the order in which they are shown.
LIMITED = (
    SERVERS,
    VCPUS,
    MEMORY_MB,
    VOLUMES,
    GIGABYTES,
    STACKS,
    HOSTS,
    FLOATING_IPS,
    NETWORKS,
)


def of_server(
    vcpus: int, memory_mb: int, root_gb: int, ephemeral_gb: int, boots_from_volume: bool
) -> dict[str, int]:
    """Return the amounts of a server: its flavor, without a root disk that is a volume.

    :param memory_mb: MiB
    :param root_gb: GiB, as ``ephemeral_gb``
    """
    disk = ephemeral_gb if boots_from_volume else root_gb + ephemeral_gb
    return {SERVERS: 1, VCPUS: vcpus, MEMORY_MB: memory_mb, DISK_GB: disk}


def of_volume(size: int) -> dict[str, int]:
    """Return the amounts of a volume.

    :param size: GiB
    """
    return {VOLUMES: 1, GIGABYTES: size}


#: The name of the hours -> the unit of the amounts, and the number of them that counts as one.
HOURS: Final[Mapping[str, tuple[str, int]]] = {
    'server_hours': (SERVERS, 1),
    'vcpu_hours': (VCPUS, 1),
    'memory_gib_hours': (MEMORY_MB, 1024),
    'disk_gb_hours': (DISK_GB, 1),
    'volume_hours': (VOLUMES, 1),
    'volume_gb_hours': (GIGABYTES, 1),
    'stack_hours': (STACKS, 1),
    'host_hours': (HOSTS, 1),
    'floatingip_hours': (FLOATING_IPS, 1),
    'network_hours': (NETWORKS, 1),
}
