# SPDX-License-Identifier: Apache-2.0
"""Managers remove old leases by themselves."""

import pathlib

import pytest

from climate_core.db import leases
from climate_core.repair import cleanup
from climate_core.service import ManagerService
from tests.support.world import TYPE, Things, Time, Trusts, World, configure

NEVER = '2090-01-01 00:00'


def delete_leases(world: World, number: int) -> list[str]:
    made = [world.create(f't{each}', end=NEVER) for each in range(number)]
    for each in made:
        world.delete(each)
    world.run_until_idle()
    return made


def left(world: World, ids: list[str]) -> int:
    return sum(world.database.read(leases.find, each) is not None for each in ids)


def test_leases_are_removed_after_their_time_and_a_few_at_once(
    world: World, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, 'BATCH_SIZE', 2)
    old = delete_leases(world, 5)
    kept = world.create('kept', end=NEVER)
    purger = cleanup.LeasePurger(world.database, world.clock, 10)
    time.forward(days=9)
    assert purger.poll() > 3600
    assert left(world, old) == 5
    time.forward(days=2)
    counts = []
    for _ in range(3):
        assert purger.poll() < 10
        counts.append(left(world, old))
    assert counts == [3, 1, 0]
    assert purger.poll() > 3600
    assert world.lease(kept).reservations
    # The next round begins at the first id.
    more = delete_leases(world, 1)
    time.forward(days=11)
    purger.poll()
    assert left(world, more) == 0


@pytest.mark.parametrize(('days', 'runs'), [(None, True), (0, False)])
def test_manager_purges_unless_it_is_turned_off(
    tmp_path: pathlib.Path, days: int | None, runs: bool
) -> None:
    conf = configure(f'sqlite:///{tmp_path}/climate.sqlite')
    if days is not None:
        conf.set_override('purge_days', days, group='manager')
    service = ManagerService(conf, plugins={TYPE: Things()}, trusts=Trusts(), watch=False)
    names = [each.name for each in service._starters]
    assert (cleanup.LeasePurger.name in names) == runs
