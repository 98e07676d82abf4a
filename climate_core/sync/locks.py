# SPDX-License-Identifier: Apache-2.0
"""Undo the locks that leases have left on their resources.

What a preemptible lease gives up is locked until it is woken, and unlocked at the end of the
lease. But a manager that stood still while it locked something may do so after that end, or when
the lease runs again, and die. A lock that the service has set is undone here as soon as no lease
holds the resource any more, or the resource runs in a lease that does not give way.
"""

from collections.abc import Iterator
from itertools import islice

from climate_core.db import reservations
from climate_core.db.engine import Database
from climate_core.plugins.base import ResourcePlugin

_CHUNK = 500


def undo(database: Database, plugin: ResourcePlugin) -> Iterator[str]:
    """Unlock the resources of one type whose locks no lease needs any more; yield their ids.

    Two statements for each 500 that are locked, none if there are none.

    A lease may begin to give way between what is read here and the unlock. That does no harm: the
    manager that puts a resource out of use unlocks it itself before, and locks it only when it is
    asleep, which is asked again right before the unlock.
    """
    locked = iter(plugin.list_locked())
    while chunk := list(islice(locked, _CHUNK)):
        for resource_id in sorted(
            database.read(reservations.find_released, plugin.resource_type, chunk)
        ):
            plugin.unlock(resource_id)
            yield resource_id
        for resource_id in sorted(
            database.read(reservations.find_in_use, plugin.resource_type, chunk)
        ):
            if plugin.unlock(resource_id, may_sleep=False):
                yield resource_id
