# SPDX-License-Identifier: Apache-2.0
"""A service that does not answer keeps leases that need another one from nothing."""

import pathlib
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core.db import events
from climate_core.db.events import DueEvent
from climate_core.engine import scheduler
from climate_core.engine.bulkhead import ServiceBulkhead, list_services
from climate_core.engine.event_pool import EventPool
from climate_core.engine.scheduler import Scheduler
from climate_core.lease import events as lease_events
from climate_core.lease import model, states
from climate_core.plugins.base import PollAgain
from tests.support.created import get_id
from tests.support.stopping import stop
from tests.support.world import NOON, TYPE, Things, World, user

PATIENCE = 60
OTHER = 'test:other'
NEVER = '2099-01-01 00:00'
#: Three of them may call one service.
WORKERS = 4


class OtherThings(Things):
    """Things of another service, which wake before the first ones."""

    resource_type = OTHER
    service = 'other'
    rank = 10


class Loop:
    """The engine of a manager, with things of two services."""

    def __init__(self, world: World, places: int) -> None:
        self.world = world
        self.things, self.others = world.things, OtherThings()
        world.plugins[OTHER] = self.others
        self.answer = threading.Event()
        self._asked = threading.Semaphore(0)
        self._ended = threading.Condition()
        self.told: dict[str, int] = {}
        metrics: Any = self
        bulkhead = ServiceBulkhead(WORKERS, 75, list_services(world.plugins), metrics, places)
        executor = world.new_executor(bulkhead=bulkhead)
        self._end = executor._end
        executor._end = self._end_job  # type: ignore[method-assign]
        pool = EventPool(executor, WORKERS, bulkhead)
        self.scheduler = Scheduler(world.database, world.clock, pool, 600)

    def _end_job(self, *args: Any, **kw: Any) -> None:
        self._end(*args, **kw)
        with self._ended:
            self._ended.notify_all()

    def set_threads(self, service: str, count: int) -> None:
        """Note the number of threads, as the metrics do."""
        with self._ended:
            self.told[service] = count
            self._ended.notify_all()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so at the end of an event, or with other threads."""
        with self._ended:
            assert self._ended.wait_for(is_so, PATIENCE)

    def hang(self, *names: str, things: Things | None = None, action: str = 'wake') -> None:
        """Have the next call for each of these things wait for the answer."""

        def call() -> None:
            self._asked.release()
            self.answer.wait(PATIENCE)

        for name in names:
            (things or self.things).answers[action, name] = [call]

    def wait_for_calls(self, count: int) -> None:
        """Wait until so many calls have begun that wait for the answer."""
        for _ in range(count):
            assert self._asked.acquire(timeout=PATIENCE)

    def create(self, *things: str) -> str:
        """Have a lease that is due, of things; those whose names begin with o are others."""
        wanted = [
            {'resource_type': OTHER if name.startswith('o') else TYPE, 'resource_id': name}
            for name in things
        ]
        body = {'name': 'lease', 'start_date': 'now', 'end_date': NEVER, 'reservations': wanted}
        return get_id(self.world.operations.creator.create_lease(user(), body))

    def start_of(self, lease_id: str) -> model.Event:
        (found,) = self.world.lease(lease_id).events_of(model.START)
        return found

    def awake(self) -> set[str]:
        return {name for action, name in self.things.journal + self.others.journal}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World(f'sqlite:///{tmp_path}/world.sqlite')
    yield made
    made.database.dispose()


@pytest.fixture(params=[WORKERS, 2 * WORKERS])
def loop(world: World, request: pytest.FixtureRequest) -> Iterator[Loop]:
    made = Loop(world, places=request.param)
    yield made
    made.answer.set()
    assert stop(made.scheduler, seconds=PATIENCE)


def test_leases_of_another_service_start_while_one_does_not_answer(loop: Loop) -> None:
    stuck = {f's{n}' for n in range(10)}
    others = {f'o{n}' for n in range(5)}
    loop.hang(*stuck)
    for name in stuck:
        loop.create(name)
    loop.scheduler.start()
    loop.wait_for_calls(3)
    for name in others:
        loop.create(name)
    loop.scheduler.nudge()
    loop.until(lambda: loop.awake() >= others)
    assert len(loop.things.calls) == 3
    # Those that were left over begin when threads are free, which nothing else tells.
    loop.answer.set()
    loop.until(lambda: loop.awake() >= stuck)


def test_lease_behind_many_of_a_service_that_does_not_answer_starts(loop: Loop) -> None:
    # Far more than are read at once, from either end.
    names = [f's{n}' for n in range(300)]
    loop.hang(*names)
    for name in names[:150]:
        loop.create(name)
    loop.create('o')
    for name in names[150:]:
        loop.create(name)
    loop.scheduler.start()
    loop.until(lambda: 'o' in loop.awake())
    assert len(loop.things.calls) <= 3
    for name in names:
        loop.things.answers['wake', name].clear()


def test_lease_of_both_that_waits_for_one_takes_nothing_of_the_other(loop: Loop) -> None:
    for n in range(3):
        loop.hang(f's{n}')
        loop.create(f'o-first{n}', f's{n}')
    loop.scheduler.start()
    loop.wait_for_calls(3)
    assert loop.told['other'] == 0
    for n in range(3):
        loop.create(f'o{n}')
    loop.scheduler.nudge()
    loop.until(lambda: loop.awake() >= {'o0', 'o1', 'o2'})


def test_event_does_not_go_on_to_a_service_that_has_its_share(loop: Loop) -> None:
    loop.hang('o0', 'o1', 'o2', things=loop.others)
    ids = [loop.create(f'o{n}', f's{n}') for n in range(3)]
    loop.scheduler.start()
    loop.wait_for_calls(3)
    first, loop.answer = loop.answer, threading.Event()
    loop.hang('s0', 's1', 's2', 's-only')
    loop.create('s-only')
    loop.scheduler.nudge()
    loop.wait_for_calls(1)
    first.set()
    loop.wait_for_calls(2)
    # The third one waits, without a thread.
    loop.until(lambda: sum(loop.told.values()) == 3)
    assert len(loop.things.calls) == 3
    loop.answer.set()
    loop.until(lambda: all(loop.world.lease(each).status == 'ACTIVE' for each in ids))


def test_ends_that_get_no_answer_do_not_keep_others_from_starting(loop: Loop) -> None:
    ids = [loop.create(f's{n}') for n in range(6)]
    loop.world.run_until_idle()
    loop.hang(*(f's{n}' for n in range(6)), action='end')
    for lease_id in ids:
        loop.world.operations.delete_lease(user(), lease_id)
    loop.scheduler.start()
    loop.wait_for_calls(3)
    loop.create('o')
    loop.scheduler.nudge()
    loop.until(lambda: 'o' in loop.awake())


def test_look_asks_once_about_a_service_that_many_wait_for(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f's{n}' for n in range(12)]
    loop.hang(*names)
    for name in names:
        loop.create(name)
    loop.scheduler.poll()
    loop.wait_for_calls(3)
    asked: list[str] = []
    has_capacity = ServiceBulkhead.has_capacity

    def noted(bulkhead: ServiceBulkhead, due: DueEvent) -> bool:
        asked.append(due.id)
        return has_capacity(bulkhead, due)

    monkeypatch.setattr(ServiceBulkhead, 'has_capacity', noted)
    loop.scheduler.poll()
    # Once to take one, and once to tell why it was not taken; again if it asks the database.
    assert 1 <= len(asked) <= 4
    for name in names:
        loop.things.answers['wake', name].clear()


@pytest.mark.parametrize(('leases', 'statements'), [(8, 1), (40, 2)])
def test_look_costs_the_same_while_a_service_does_not_answer(
    loop: Loop, leases: int, statements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [1000.0]
    clock = types.SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr(scheduler, 'time', clock)
    names = [f's{n}' for n in range(leases)]
    loop.hang(*names)
    for name in names:
        loop.create(name)
    loop.scheduler.poll()
    loop.wait_for_calls(3)
    # Once it has asked for others, nothing is asked before the claims of those would expire.
    seconds[0] += 1
    loop.scheduler.poll()
    seconds[0] += 10
    assert loop.world.statements(loop.scheduler.poll) == []
    loop.scheduler.nudge()
    assert len(loop.world.statements(loop.scheduler.poll)) == statements
    for name in names:
        loop.things.answers['wake', name].clear()


def due(number: int, *services: str) -> DueEvent:
    return DueEvent(str(number), 'lease', 'start_lease', 0, 2, NOON, services=frozenset(services))


def test_each_service_has_a_share_of_what_the_others_leave() -> None:
    bulkhead = ServiceBulkhead(16, 75)
    begun = []
    for service in ('nova', 'cinder', 'heat'):
        while bulkhead.has_capacity(due(0, service)):
            begun.append(service)
            bulkhead.begin(due(len(begun), service))
    assert [begun.count(each) for each in ('nova', 'cinder', 'heat')] == [12, 3, 1]
    assert bulkhead.has_capacity(due(0))
    assert not bulkhead.has_capacity(due(0, 'nova', 'neutron'))
    for n in range(1, 5):
        bulkhead.end(str(n))
    assert bulkhead.has_capacity(due(0, 'nova', 'neutron'))


def test_single_thread_is_for_every_service() -> None:
    bulkhead = ServiceBulkhead(1, 75)
    assert bulkhead.has_capacity(due(0, 'nova', 'cinder'))
    bulkhead.begin(due(0, 'nova', 'cinder'))
    assert bulkhead.enter('0', OtherThings())
    assert bulkhead.enter('0', Things())


def test_whole_share_is_all_threads() -> None:
    bulkhead = ServiceBulkhead(3, 100)
    for n in range(3):
        assert bulkhead.has_capacity(due(n, 'nova'))
        bulkhead.begin(due(n, 'nova'))


def test_each_event_that_calls_once_for_its_lease_names_the_service() -> None:
    for each in lease_events.TABLE:
        assert (each.lease_call is None) == (each.service is None), each.event_type


def test_project_that_has_just_a_lease_is_next_though_no_thread_is_free(loop: Loop) -> None:
    # More than are read at once, also when some of them are done.
    many = [f's{n}' for n in range(40)] + [f'o{n}' for n in range(40)]
    loop.hang(*many[:40])
    loop.hang(*many[40:], things=loop.others)
    for name in many:
        loop.create(name)
    loop.scheduler.start()
    loop.wait_for_calls(4)
    loop.world.create('single', end=NEVER, context=user('project2'))
    asked, read = threading.Event(), loop.world.database.read

    def noted(*args: Any) -> Any:
        found = read(*args)
        if args[0] is events.read_due:
            asked.set()
        return found

    loop.world.database.read = noted  # type: ignore[method-assign]
    loop.scheduler.nudge()
    assert asked.wait(PATIENCE)
    loop.answer.set()
    loop.until(lambda: 'single' in loop.awake())
    before = [name for _, name in loop.things.journal].index('single')
    # Those that have a place come before it, and some of those that get one together with it.
    assert before < 20


def test_early_look_at_a_service_that_has_its_share_waits(loop: Loop) -> None:
    loop.things.answers['wake', 'first'] = [PollAgain(600)]
    lease_id = loop.create('first')
    loop.scheduler.start()
    waits = states.EventStatus.UNDONE
    loop.until(lambda: len(loop.things.calls) == 1 and loop.start_of(lease_id).status == waits)
    loop.hang('s0', 's1', 's2')
    for n in range(3):
        loop.create(f's{n}')
    loop.scheduler.nudge()
    loop.wait_for_calls(3)
    start = loop.start_of(lease_id)
    now = loop.world.clock.now()
    called = frozenset({'test:thing'})
    early = DueEvent(start.id, lease_id, 'start_lease', start.generation, 2, now, True, called)
    loop.scheduler.poll_early(early)
    loop.create('o')
    loop.scheduler.nudge()
    loop.until(lambda: 'o' in loop.awake())
    # It was not claimed, only to be put off.
    assert loop.start_of(lease_id) == start
    loop.answer.set()
    loop.until(lambda: 'first' in loop.awake())
