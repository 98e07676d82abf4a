# SPDX-License-Identifier: Apache-2.0
"""The types of resources, the ends they can have, and the units in which they are counted.

A reservation has amounts by the names of the units; the limit of a unit in Keystone is called
``reserved_<unit>``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

SERVER = 'virtual:instance'
VOLUME = 'virtual:volume'
STACK = 'virtual:stack'
HOST = 'physical:host'
CAPACITY = 'flavor:instance'
FLOATING_IP = 'virtual:floatingip'
#: A network on a dedicated segment; the name is that of Blazar's users at Chameleon.
NETWORK = 'network'
#: Capacity for servers by their sizes. In the API it is :data:`SERVER` without a ``resource_id``,
#: as in Blazar.
SIZES = 'size:instance'
#: A floating IP that its owner has already. In the API it is :data:`FLOATING_IP` with a
#: ``resource_id``.
HELD_FLOATING_IP = 'held:floatingip'

_API_NAMES = {SIZES: SERVER, HELD_FLOATING_IP: FLOATING_IP}

#: The end actions of what servers enter.
_ENDS_OF_SERVERS: Final = {
    'delete': 'Delete the servers that are left.',
    'migrate': 'Move the servers that are left to hosts of no pool.',
}
#: What may happen to a resource at the end of its lease (``on_end``), with its explanation; the
#: first is the default.
ON_END: Final[Mapping[str, Mapping[str, str]]] = {
    SERVER: {
        'delete': 'Delete it.',
        'stop': 'Shut the guest down; the host keeps the capacity.',
        'shelve': 'Store it as an image, and release the host.',
        'suspend': 'Freeze the guest; the host keeps the capacity.',
        'create_image': 'Create an image of it, then delete it.',
        'nothing': 'Leave it as it is.',
    },
    VOLUME: {
        'delete': 'Delete it.',
        'backup': 'Create a backup of it, then delete it.',
        'snapshot': 'Detach it, create a snapshot of it, keep both.',
        'detach': 'Detach it and keep it.',
        'nothing': 'Leave it as it is.',
    },
    STACK: {
        'delete': 'Delete it.',
        'suspend': 'Suspend it; hosts and backends keep the capacity.',
        'snapshot': 'Create a snapshot of it, then suspend it: Heat deletes snapshots with the '
        'stack.',
        'nothing': 'Leave it as it is.',
    },
    HOST: _ENDS_OF_SERVERS,
    CAPACITY: _ENDS_OF_SERVERS,
    SIZES: _ENDS_OF_SERVERS,
    HELD_FLOATING_IP: {
        'delete': 'Delete it, also while it is associated or has port forwardings.',
        'nothing': 'Leave it as it is.',
    },
}
#: The end actions that free the capacity of a server.
FREEING_END_ACTIONS: Final = frozenset({'delete', 'shelve', 'create_image'})


def api_name(resource_type: str) -> str:
    """Return the name that a type has in the API."""
    return _API_NAMES.get(resource_type, resource_type)


def api_names(resource_types: Iterable[str]) -> list[str]:
    """Return the names that types have in the API, each once, in order."""
    return sorted({api_name(each) for each in resource_types})


def stored_types(name: str) -> tuple[str, ...]:
    """Return the types that have a name in the API."""
    return (name, *(each for each, shown in _API_NAMES.items() if shown == name))


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
#: Networks on dedicated segments.
NETWORKS = 'networks'

#: The units of a server and of a volume.
SERVER_UNITS = (SERVERS, VCPUS, MEMORY_MB, DISK_GB)
VOLUME_UNITS = (VOLUMES, GIGABYTES)
#: The name of the hours -> the unit of the amounts, and the number of them that counts as one.
UNIT_HOURS: Final[Mapping[str, tuple[str, int]]] = {
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
#: The units that projects have limits for, in the order in which they are shown.
LIMITED_UNITS: Final = tuple(unit for unit, _ in UNIT_HOURS.values() if unit != DISK_GB)


def server_amounts(
    vcpus: int, memory_mb: int, root_gb: int, ephemeral_gb: int, boots_from_volume: bool
) -> dict[str, int]:
    """Return the amounts of a server: its flavor, without a root disk that is a volume.

    :param memory_mb: MiB
    :param root_gb: GiB, as ``ephemeral_gb``
    """
    disk = ephemeral_gb if boots_from_volume else root_gb + ephemeral_gb
    return {SERVERS: 1, VCPUS: vcpus, MEMORY_MB: memory_mb, DISK_GB: disk}


def volume_amounts(size: int) -> dict[str, int]:
    """Return the amounts of a volume.

    :param size: GiB
    """
    return {VOLUMES: 1, GIGABYTES: size}
