# SPDX-License-Identifier: Apache-2.0
"""Undo the locks that leases have left on their resources.

What a preemptible lease gives up is locked until it is woken, and unlocked at the end of the
lease. But a manager that stood still while it locked something may do so after that end, and die.
What nobody but Climate may unlock is unlocked here, as soon as no lease holds it any more.
"""

from collections.abc import Iterator
from itertools import islice

from climate_core.db import missing
from climate_core.db.engine import Database
from climate_core.plugins.base import ResourcePlugin

_CHUNK = 500


def undo(database: Database, plugin: ResourcePlugin) -> Iterator[str]:
    """Unlock the resources of one type that no lease holds any more; yield their ids.

    One statement for each 500 that are locked, none if there are none.
    """
    locked = iter(plugin.list_locked())
    while chunk := list(islice(locked, _CHUNK)):
        for resource_id in sorted(database.read(missing.let_go, plugin.resource_type, chunk)):
            plugin.unlock(resource_id)
            yield resource_id
