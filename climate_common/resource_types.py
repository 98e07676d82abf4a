# SPDX-License-Identifier: Apache-2.0
"""The types of resources that extensions and commands know, and the ends they can have."""

from collections.abc import Iterable

SERVER = 'virtual:instance'
VOLUME = 'virtual:volume'
STACK = 'virtual:stack'
HOST = 'physical:host'
CAPACITY = 'flavor:instance'
FLOATING_IP = 'virtual:floatingip'
#: A network on a segment of its own; the name is that of Blazar's users at Chameleon.
NETWORK = 'network'
#: Room for servers by their sizes. In the API it is :data:`SERVER` without a ``resource_id``, as
#: Blazar has it.
SIZES = 'size:instance'
#: A floating IP that its owner has already. In the API it is :data:`FLOATING_IP` with a
#: ``resource_id``.
HELD_FLOATING_IP = 'held:floatingip'

_API_NAMES = {SIZES: SERVER, HELD_FLOATING_IP: FLOATING_IP}

#: What may happen to a resource at the end of its lease (``on_end``); the first is the default.
ON_END = {
    SERVER: ('delete', 'stop', 'shelve', 'suspend', 'create_image', 'nothing'),
    VOLUME: ('delete', 'backup', 'snapshot', 'detach', 'nothing'),
    STACK: ('delete', 'suspend', 'snapshot', 'nothing'),
    HOST: ('delete', 'migrate'),
    CAPACITY: ('delete', 'migrate'),
    SIZES: ('delete', 'migrate'),
    HELD_FLOATING_IP: ('delete', 'nothing'),
}


def api_name(resource_type: str) -> str:
    """Return the name that a type has in the API."""
    return _API_NAMES.get(resource_type, resource_type)


def names(resource_types: Iterable[str]) -> list[str]:
    """Return the names that types have in the API, each once, in order."""
    return sorted({api_name(each) for each in resource_types})


def stored(name: str) -> tuple[str, ...]:
    """Return the types that have a name in the API."""
    return (name, *(each for each, shown in _API_NAMES.items() if shown == name))
