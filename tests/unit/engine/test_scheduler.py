# SPDX-License-Identifier: Apache-2.0
"""The loop by itself: when it looks, what it hands out, how it stops. By the real clock."""

import datetime
import pathlib
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from climate_common import dates
from climate_core.db import events
from climate_core.db.events import DueEvent
from climate_core.engine import scheduler
from climate_core.engine.scheduler import Scheduler, shuffle_equals
from climate_core.plugins.base import PollAgain
from tests.support.executor import pool_of
from tests.support.stopping import stop
from tests.support.world import NOON, World

PATIENCE = 60
NEVER = '2099-01-01 00:00'


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(f'sqlite:///{tmp_path}/world.sqlite')
    yield made
    made.database.dispose()


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., Scheduler]]:
    loops: list[Scheduler] = []

    def make(
        run: Callable[[DueEvent], datetime.datetime | bool], workers: int = 2, idle: float = 600
    ) -> Scheduler:
        loop = Scheduler(world.database, world.clock, pool_of(run, workers), idle)
        loops.append(loop)
        loop.start()
        return loop

    yield make
    assert stop(*loops, seconds=PATIENCE)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the loop's clock stand at the time in this list."""
    now = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(scheduler, 'time', clock)
    return now


class Awaited:
    """Runs steps and tells when ``wanted`` leases were started."""

    def __init__(self, world: World, wanted: int = 1) -> None:
        self.world = world
        self.wanted = wanted
        self.done = threading.Event()

    def __call__(self, due: DueEvent) -> datetime.datetime | bool:
        again = self.world.executor.run(due)
        if len(self.world.things.journal) >= self.wanted:
            self.done.set()
        return again


def await_idle(loop: Scheduler) -> None:
    """Wait for the end of what two workers have begun."""
    with loop._changed:
        assert loop._changed.wait_for(lambda: loop.free_places == 2, PATIENCE)


def test_scheduler_that_is_nudged_takes_what_is_due(
    world: World, start: Callable[..., Scheduler]
) -> None:
    awaited = Awaited(world)
    loop = start(awaited)
    world.create('a', end=NEVER)
    loop.nudge()
    assert awaited.done.wait(PATIENCE)


def test_scheduler_wakes_up_when_the_next_event_is_due(
    world: World, start: Callable[..., Scheduler]
) -> None:
    soon = world.clock.now() + datetime.timedelta(seconds=0.3)
    world.create('a', start=str(dates.serialize(soon)), end=NEVER)
    awaited = Awaited(world)
    start(awaited)
    assert awaited.done.wait(PATIENCE)
    assert world.clock.now() >= soon


def test_a_wait_is_followed_without_a_nudge(world: World, start: Callable[..., Scheduler]) -> None:
    world.things.answers['wake', 'a'] = [PollAgain(0.1), PollAgain(0.1)]
    world.create('a', end=NEVER)
    awaited = Awaited(world)
    start(awaited)
    assert awaited.done.wait(PATIENCE)


def test_one_that_is_slow_holds_up_nobody(world: World, start: Callable[..., Scheduler]) -> None:
    go_on = threading.Event()
    world.things.answers['wake', 'slow'] = [lambda: go_on.wait(PATIENCE) and None]
    world.create('slow', end=NEVER)
    awaited = Awaited(world, wanted=5)
    loop = start(awaited)
    for n in range(5):
        world.create(f'fast{n}', end=NEVER)
        loop.nudge()
    assert awaited.done.wait(PATIENCE)
    assert ('wake', 'slow') not in world.things.journal
    go_on.set()


def test_it_reads_again_what_is_due_when_another_manager_was_faster(
    world: World, start: Callable[..., Scheduler]
) -> None:
    found, tried, last = [], [], threading.Event()
    for n in range(6):
        world.create(f'thing{n}', end=NEVER)

    def run(due: DueEvent) -> bool:
        tried.append(due.id)
        if len(tried) == 1:
            # The other manager has taken all of them; then there is one more.
            _, found[:] = world.database.read(events.read_due, 100)
            for each in found:
                world.database.write(events.claim, each.id, each.generation, 3600)
            world.create('last', end=NEVER)
        if due.id not in {each.id for each in found}:
            world.database.write(events.claim, due.id, due.generation, 3600)
            last.set()
        return True

    start(run, workers=1)
    assert last.wait(PATIENCE)
    # The first one, at most one more that had a thread already, and the last one.
    assert len(tried) <= 3


@pytest.mark.usefixtures('seconds')
def test_it_sleeps_when_nothing_is_due(world: World) -> None:
    world.create('a', start='2098-01-01 00:00', end=NEVER)
    loop = Scheduler(world.database, world.clock, pool_of(lambda due: False, 2), 600)
    found: list[float | None] = []
    seen = world.statements(lambda: found.append(loop.poll()))
    assert len(seen) == 1
    assert found == [600]
    assert stop(loop)


@pytest.mark.usefixtures('seconds')
def test_it_sleeps_when_there_is_nothing_at_all(world: World) -> None:
    loop = Scheduler(world.database, world.clock, pool_of(lambda due: False, 2), 77)
    assert loop.poll() == 77
    assert stop(loop)


def test_database_is_not_asked_when_an_event_has_told_when_its_next_look_is(
    world: World,
) -> None:
    world.things.answers['wake', 'a'] = [PollAgain(60)]
    world.create('a', end=NEVER)
    done = threading.Event()

    def run(due: DueEvent) -> datetime.datetime | bool:
        result = world.executor.run(due)
        done.set()
        return result

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    loop.poll()
    assert done.wait(PATIENCE)
    found: list[float | None] = []
    assert world.statements(lambda: found.append(loop.poll())) == []
    assert found[0] is not None
    assert stop(loop)


def test_lease_that_starts_later_is_asked_for_when_it_is_due(
    world: World, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Scheduler(world.database, world.clock, pool_of(lambda due: False, 2), 600)
    assert loop.poll() == 600
    now = world.clock.now()
    monkeypatch.setattr(world.clock, 'now', lambda: now)
    found: list[float | None] = []
    loop.expect(now + datetime.timedelta(seconds=40))
    # One that is due after it changes nothing.
    loop.expect(now + datetime.timedelta(seconds=50))
    assert world.statements(lambda: found.append(loop.poll())) == []
    assert found == [40]
    seconds[0] += 40
    assert len(world.statements(loop.poll)) == 1
    loop.expect(now)
    assert len(world.statements(loop.poll)) == 1
    assert stop(loop)


def test_lease_that_starts_later_is_started_though_nobody_asks_for_it_before(
    world: World, start: Callable[..., Scheduler]
) -> None:
    awaited = Awaited(world)
    loop = start(awaited)
    soon = world.clock.now() + datetime.timedelta(seconds=0.3)
    world.create('a', start=str(dates.serialize(soon)), end=NEVER)
    loop.expect(soon)
    assert awaited.done.wait(PATIENCE)
    assert world.clock.now() >= soon


def test_look_that_may_come_early_does_not_wait_for_its_time(
    world: World, start: Callable[..., Scheduler]
) -> None:
    world.things.answers['wake', 'a'] = [PollAgain(600)]
    lease_id = world.create('a', end=NEVER)
    tried, awaited = threading.Event(), Awaited(world)

    def run(due: DueEvent) -> datetime.datetime | bool:
        result = awaited(due)
        tried.set()
        return result

    loop = start(run)
    assert tried.wait(PATIENCE)
    (event,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
    soon = world.clock.now() + datetime.timedelta(seconds=0.1)
    assert event.next_at is not None
    assert event.next_at > soon
    loop.poll_early(DueEvent(event.id, lease_id, 'start_lease', event.generation, 2, soon, True))
    assert awaited.done.wait(PATIENCE)
    assert world.clock.now() >= soon


def test_look_ahead_of_time_that_is_due_by_now_is_still_one(
    world: World, start: Callable[..., Scheduler]
) -> None:
    lease_id = world.create('a', end=NEVER)
    (event,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
    taken: list[DueEvent] = []
    done = threading.Event()

    def run(due: DueEvent) -> bool:
        taken.append(due)
        done.set()
        return False

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    loop.poll_early(DueEvent(event.id, lease_id, 'start_lease', 0, 2, world.clock.now(), True))
    loop.poll()
    assert done.wait(PATIENCE)
    assert stop(loop)
    assert [(each.id, each.is_early) for each in taken] == [(event.id, True)]


def test_look_ahead_of_time_comes_after_all_that_is_due(
    world: World, start: Callable[..., Scheduler]
) -> None:
    # With one worker four are taken at once.
    for n in range(9):
        world.create(f'a{n}', end=NEVER)
    awaited, order = Awaited(world, wanted=9), []
    told, is_made = threading.Event(), threading.Event()

    def run(due: DueEvent) -> datetime.datetime | bool:
        assert is_made.wait(PATIENCE)
        order.append(due.id)
        if due.id == 'early':
            told.set()
            return False
        if len(order) == 1:
            early = DueEvent('early', due.lease_id, 'start_lease', 0, 2, due.next_at, True)
            loop.poll_early(early)
        return awaited(due)

    loop = start(run, workers=1)
    is_made.set()
    assert awaited.done.wait(PATIENCE)
    assert told.wait(PATIENCE)
    assert order.index('early') >= 8


@pytest.mark.usefixtures('seconds')
def test_early_look_whose_time_comes_while_it_looks_is_not_slept_through(world: World) -> None:
    class Ticking:
        """A clock that goes on by a second whenever it is read."""

        def __init__(self) -> None:
            self.reads = 0

        def now(self) -> datetime.datetime:
            self.reads += 1
            return NOON + datetime.timedelta(seconds=self.reads)

    clock = Ticking()
    loop = Scheduler(world.database, clock, pool_of(lambda due: False, 2), 600)  # type: ignore[arg-type]
    assert loop.poll() == 600
    soon = clock.now() + datetime.timedelta(seconds=1.5)
    loop.poll_early(DueEvent('early', 'lease', 'start_lease', 0, 2, soon, True))
    # It is later than the moment of the look, and earlier than the moment after it.
    assert loop.poll() == 0
    assert stop(loop)


@pytest.mark.parametrize('is_changed', [False, True])
def test_event_that_is_worked_on_is_due_again_only_if_it_was_changed(
    world: World, seconds: list[float], is_changed: bool
) -> None:
    for n in range(3):
        world.create(f'a{n}', end=NEVER)
    go_on = threading.Event()

    def run(_due: DueEvent) -> bool:
        assert go_on.wait(PATIENCE)
        return False

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    loop.poll()
    begun, left = dict(loop._in_flight), set(loop._waiting)
    assert (len(begun), len(left)) == (2, 1)
    if is_changed:
        (first, _) = begun.values()
        # Its claim has expired.
        assert world.database.write(events.claim, first.id, first.generation, -1)
    loop.nudge()
    seconds[0] += 1
    loop.poll()
    assert set(loop._waiting) == left
    go_on.set()
    assert stop(loop)
    assert loop._must_query is is_changed
    assert not loop._due_again


@pytest.mark.parametrize(('later', 'looks'), [(0, 1), (1, 2)])
def test_look_ahead_of_time_comes_after_the_work_that_it_is_told_in(
    world: World, later: int, looks: int
) -> None:
    """What was found before that was claimed is seen by it."""
    lease_id = world.create('a', end=NEVER)
    (event,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
    taken: list[DueEvent] = []
    begun, go_on = threading.Event(), threading.Event()

    def run(due: DueEvent) -> bool:
        taken.append(due)
        begun.set()
        assert go_on.wait(PATIENCE)
        return False

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    loop.poll()
    assert begun.wait(PATIENCE)
    now = world.clock.now()
    told = DueEvent(event.id, lease_id, 'start_lease', event.generation + later, 2, now, True)
    loop.poll_early(told)
    loop.poll()
    assert len(taken) == 1
    world.database.write(events.claim, event.id, event.generation, 600)
    go_on.set()
    await_idle(loop)
    loop.poll()
    await_idle(loop)
    assert stop(loop)
    assert taken[1:] == [told] * (looks - 1)


def test_older_one_of_two_early_looks_is_dropped(world: World) -> None:
    taken: list[DueEvent] = []
    done = threading.Event()

    def run(due: DueEvent) -> bool:
        taken.append(due)
        done.set()
        return False

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    now = world.clock.now()
    told = [DueEvent('event', 'lease', 'start_lease', n, 2, now, True) for n in (1, 2, 1)]
    for each in told:
        loop.poll_early(each)
    loop.poll()
    assert done.wait(PATIENCE)
    assert stop(loop)
    assert taken == [told[1]]


def test_early_look_that_comes_to_nothing_drops_nothing_that_is_due(world: World) -> None:
    lease_id = world.create('a', end=NEVER)
    world.run()
    (event,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
    go_on = threading.Event()
    results: list[datetime.datetime | bool] = []

    def run(due: DueEvent) -> datetime.datetime | bool:
        assert go_on.wait(PATIENCE)
        if due.is_early:
            results.append(world.executor.run(due))
        return due.is_early and results[0]

    loop = Scheduler(world.database, world.clock, pool_of(run, 2), 600)
    loop.poll()
    # The look that finished the event has seen all that was told.
    now = world.clock.now()
    loop.poll_early(DueEvent(event.id, lease_id, 'start_lease', event.generation, 2, now, True))
    loop.poll()
    for n in range(3):
        world.create(f'a{n}', end=NEVER)
    loop.nudge()
    loop.poll()
    assert len(loop._waiting) == 2
    go_on.set()
    assert stop(loop)
    assert results == [True]
    assert (len(loop._waiting), loop._lost_claim) == (2, False)


def test_look_waits_for_no_thread(world: World) -> None:
    go_on = threading.Event()
    for n in range(3):
        world.create(f'a{n}', end=NEVER)
    loop = Scheduler(
        world.database, world.clock, pool_of(lambda due: go_on.wait(PATIENCE), 2), 600
    )
    loop.poll()
    # The end of one of the two wakes it, and nothing is to be asked until then.
    found: list[float | None] = []
    assert world.statements(lambda: found.append(loop.poll())) == []
    assert found[0] is not None
    assert found[0] > PATIENCE
    go_on.set()
    assert stop(loop)


@pytest.mark.usefixtures('seconds')
def test_what_is_due_begins_without_another_question(
    world: World, start: Callable[..., Scheduler]
) -> None:
    for n in range(8):
        world.create(f'a{n}', end=NEVER)
    awaited = Awaited(world, wanted=8)
    questions: list[int] = []
    read = world.database.read
    asked: list[Any] = []

    def noted(*args: Any) -> Any:
        asked.extend(args[:1] if args[0] is events.read_due else ())
        return read(*args)

    def run(due: DueEvent) -> datetime.datetime | bool:
        questions.append(len(asked))
        return awaited(due)

    world.database.read = noted  # type: ignore[method-assign]
    start(run)
    assert awaited.done.wait(PATIENCE)
    # With two workers the last two of eight begin when five are done at least.
    assert questions[:6] == [1] * 6


def test_it_looks_again_when_more_is_due_than_it_took(
    world: World, start: Callable[..., Scheduler]
) -> None:
    # With two workers eight are taken at once.
    for n in range(20):
        world.create(f'a{n}', end=NEVER)
    world.create('later', start='2098-01-01 00:00', end=NEVER)
    awaited = Awaited(world, wanted=20)
    start(awaited)
    assert awaited.done.wait(PATIENCE)


def test_stopping_lets_work_go_on_but_takes_no_more(
    world: World, start: Callable[..., Scheduler]
) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def work() -> None:
        at_work.set()
        go_on.wait(PATIENCE)

    world.things.answers['wake', 'a'] = [work]
    first = world.create('a', end=NEVER)
    loop = start(Awaited(world), workers=1)
    assert at_work.wait(PATIENCE)
    second = world.create('b', end=NEVER)
    loop.nudge()
    assert not stop(loop, seconds=0)
    go_on.set()
    assert stop(loop)
    assert world.lease(first).status == 'ACTIVE'
    assert world.lease(second).status == 'PENDING'


@pytest.mark.parametrize('failure', [db_exc.DBConnectionError(), sa_exc.TimeoutError()])
def test_a_database_that_fails_is_asked_again(
    world: World,
    start: Callable[..., Scheduler],
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
) -> None:
    world.create('a', end=NEVER)
    awaited = Awaited(world)
    read = world.database.read
    failures = [failure]

    def failing(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(*args)

    monkeypatch.setattr(world.database, 'read', failing)
    start(awaited)
    assert awaited.done.wait(PATIENCE)


def test_a_step_that_breaks_stops_nothing(world: World, start: Callable[..., Scheduler]) -> None:
    awaited = Awaited(world)
    broken = [RuntimeError('broken')]

    def run(due: DueEvent) -> datetime.datetime | bool:
        if broken:
            raise broken.pop()
        return awaited(due)

    world.create('a', end=NEVER)
    start(run)
    assert awaited.done.wait(PATIENCE)


def test_spread_keeps_the_order_of_ranks() -> None:
    def due(n: int, minutes: int, priority: int) -> DueEvent:
        time = NOON + datetime.timedelta(minutes=minutes)
        return DueEvent(str(n), 'lease', 'event', 0, priority, time)

    ranks = [(n // 20, n // 10 % 2) for n in range(60)]
    mixed = shuffle_equals(due(n, *rank) for n, rank in enumerate(ranks))
    assert [((d.next_at - NOON).seconds // 60, d.priority) for d in mixed] == ranks
    assert len({d.id for d in mixed}) == 60
