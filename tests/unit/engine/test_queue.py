# SPDX-License-Identifier: Apache-2.0
"""The queue is looked at when something was freed, and costs nothing otherwise."""

import pytest

from climate_core.db import calendar, events, leases
from climate_core.db.engine import signal
from climate_core.operations.wait_queue import QueueWorker
from tests.support.world import World


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the worker note how long it would sleep, and end after each second time."""
    found: list[float] = []

    def sleep(worker: QueueWorker, seconds: float) -> None:
        found.append(seconds)
        worker.stopping = len(found) % 2 == 0

    monkeypatch.setattr(QueueWorker, '_sleep', sleep)
    return found


def test_idle_queue_costs_one_statement_at_the_start_and_then_none(
    world: World, naps: list[float]
) -> None:
    worker = QueueWorker(world.operations.queue)
    assert len(world.statements(worker._run)) == 1
    assert naps == [0.0, 3600.0]


def test_it_sleeps_until_the_next_lease_has_enough(world: World, naps: list[float]) -> None:
    for seconds in (7200.5, 12.5):
        world.operations.queue.grant_waiting = lambda seconds=seconds: seconds
        QueueWorker(world.operations.queue)._run()
    assert naps == [0.0, 3600.0, 0.0, 12.5]


@pytest.mark.parametrize('freed', [calendar.FREED, leases.RESOURCES_FREED, events.QUEUED])
def test_it_is_looked_at_when_something_is_freed_or_begins_to_wait(
    world: World, freed: str
) -> None:
    worker = QueueWorker(world.operations.queue)
    assert not worker._nudged
    world.database.write(signal, freed)
    assert worker._nudged
