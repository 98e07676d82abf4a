# SPDX-License-Identifier: Apache-2.0
"""The units in which the amounts of reservations are counted.

A reservation holds amounts by these names; the limit of a unit in Keystone is called
``reserved_<unit>``.
"""

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

#: What a server, a volume and a stack hold.
SERVER_UNITS = (SERVERS, VCPUS, MEMORY_MB, DISK_GB)
VOLUME_UNITS = (VOLUMES, GIGABYTES)
STACK_UNITS = (STACKS,)
#: The units that projects have limits for, in the order in which they are shown.
LIMITED = (SERVERS, VCPUS, MEMORY_MB, VOLUMES, GIGABYTES, STACKS)
