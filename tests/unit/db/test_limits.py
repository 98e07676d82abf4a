# SPDX-License-Identifier: Apache-2.0
"""What a project holds is counted alike in each database."""

from climate_core.db import usage as db
from climate_core.lease import limits
from tests.support import quotas
from tests.support.world import World, user

#: What one resource of :class:`tests.support.quotas.Servers` holds.
EACH = {'reserved_servers': 1, 'reserved_vcpus': 2, 'reserved_memory_mb': 512}


def test_leases_and_what_their_resources_hold_are_counted(any_world: World) -> None:
    quotas.limit(any_world)
    assert any_world.database.read(db.count_used, 'project1') == dict.fromkeys(limits.NAMES, 0)
    any_world.create('a', 'b')
    any_world.create()
    any_world.create('c')
    any_world.create('d', context=user('project2'))
    held = {name: 3 * number for name, number in EACH.items()}
    counted = {'leases': 3, **held}
    assert (
        any_world.database.read(db.count_used, 'project1')
        == dict.fromkeys(limits.NAMES, 0) | counted
    )
