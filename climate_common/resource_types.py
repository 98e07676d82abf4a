# SPDX-License-Identifier: Apache-2.0
"""The types of resources that extensions and commands know, and the ends they can have."""

SERVER = 'virtual:instance'
VOLUME = 'virtual:volume'
STACK = 'virtual:stack'
HOST = 'physical:host'
CAPACITY = 'flavor:instance'

#: What may happen to a resource at the end of its lease (``on_end``); the first is the default.
ON_END = {
    SERVER: ('delete', 'stop', 'shelve', 'suspend', 'create_image', 'nothing'),
    VOLUME: ('delete', 'backup', 'snapshot', 'detach', 'nothing'),
    STACK: ('delete', 'suspend', 'snapshot', 'nothing'),
    HOST: ('delete',),
    CAPACITY: ('delete',),
}
