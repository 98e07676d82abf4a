# SPDX-License-Identifier: Apache-2.0
"""Two managers, 200 leases that are due at once: each wakes exactly once, none fails."""

import threading
from collections.abc import Callable

import pytest

from climate_core.db import events
from climate_core.engine.claims import Claims
from climate_core.engine.scheduler import Scheduler
from tests.support.stopping import stop
from tests.support.world import World

LEASES = 200
#: Seconds to give up after; nothing is measured.
PATIENCE = 120


def _loop(world: World, finished: Callable[[], None]) -> tuple[Scheduler, Claims]:
    claims = Claims(world.database, 30)
    step = world.new_executor(claims)

    def run(due: events.Due) -> bool:
        again = step.run(due)
        finished()
        return again

    return Scheduler(world.database, world.clock, run, workers=8, idle_seconds=600), claims


@pytest.mark.parametrize('kind', ['sqlite', 'mariadb', 'postgresql'])
def test_two_managers(kind: str, new_database: Callable[[str], str]) -> None:
    url = new_database(kind)
    world = World(url)
    other = World(url, things=world.things)
    ids = [world.create(f'thing{n}', end='2099-01-01 00:00') for n in range(LEASES)]
    idle = threading.Event()

    def finished() -> None:
        if len(world.things.journal) == LEASES:
            idle.set()

    loops = [_loop(world, finished), _loop(other, finished)]
    for loop, claims in loops:
        claims.start()
        loop.start()
    assert idle.wait(PATIENCE)
    for loop, claims in loops:
        assert stop(loop, claims)
    assert {world.lease(i).status for i in ids} == {'ACTIVE'}
    assert sorted(world.things.journal) == sorted(('wake', f'thing{n}') for n in range(LEASES))
    assert len(world.things.calls) == LEASES
    assert world.told().count('lease.event.start_lease') == LEASES
    world.database.dispose()
    other.database.dispose()
