# SPDX-License-Identifier: Apache-2.0
"""A start whose resource is awake is finished in one transaction; any other one as always."""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import pytest

from climate_core import exceptions, test_hooks
from climate_core.cloud import errors
from climate_core.db import events, listing
from climate_core.db.events import DueEvent
from climate_core.engine import fast_start
from climate_core.lease import model, states
from climate_core.plugins.base import PollAgain
from tests.support.executor import early_polls
from tests.support.world import TYPE, Time, World

NEVER = '2099-01-01 00:00'


class Waiting:
    """A lease whose resource was asked to wake up, and what its manager sees when it looks."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        world.things.answers['wake', 'a'] = [PollAgain(60.0)]
        self.lease_id = world.create('a', end=NEVER)
        world.run_until_idle()
        self.see: Callable[[], bool] = lambda: True
        self.looks = 0
        monkeypatch.setattr(world.things, 'is_started', self._is_started)

    def _is_started(self, lease: model.Lease, reservation: model.Reservation) -> bool:
        assert (lease.id, reservation.resource_id) == (self.lease_id, 'a')
        self.looks += 1
        return self.see()

    @property
    def start(self) -> model.Event:
        (found,) = self.world.lease(self.lease_id).events_of(model.START)
        return found

    def due(self) -> DueEvent:
        """Return the event as a notification finds it."""
        event = self.start
        now = self.world.clock.now()
        return DueEvent(event.id, self.lease_id, event.event_type, event.generation, 2, now, True)

    def run(self, due: DueEvent | None = None) -> None:
        self.world.executor.run(due or self.due())

    @property
    def calls(self) -> int:
        return self.world.things.calls.count(('wake', 'a'))

    @property
    def status(self) -> str:
        return self.world.lease(self.lease_id).status


@pytest.fixture
def waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(world, monkeypatch)


def test_start_is_finished_in_one_transaction(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(any_world, monkeypatch)
    due, generation = waiting.due(), waiting.start.generation
    statements = any_world.statements(lambda: waiting.run(due))
    kinds = [each.split()[0] for each in statements]
    # Two to lock and read; then the lease, its event and reservation, the history and the outbox.
    assert kinds == ['SELECT'] * 2 + ['UPDATE'] * 3 + ['INSERT'] * 2
    assert (waiting.status, waiting.start.status) == ('ACTIVE', 'DONE')
    assert (waiting.start.generation, waiting.calls) == (generation + 1, 1)
    page = any_world.database.read(listing.read_history_page, waiting.lease_id)[0]
    assert page[-1][1].action == 'event.start_lease'
    assert any_world.told()[-1] == 'lease.event.start_lease'


def test_what_is_not_awake_is_claimed_and_called(waiting: Waiting) -> None:
    waiting.see = lambda: False
    waiting.run()
    assert (waiting.looks, waiting.calls, waiting.status) == (1, 2, 'ACTIVE')


@pytest.mark.parametrize(
    ('trouble', 'is_mistake'),
    [
        (exceptions.Transient('away'), False),
        (errors.Gone('It is not there.'), False),
        (ValueError('a mistake'), True),
    ],
)
def test_look_that_fails_leaves_it_to_the_call(
    waiting: Waiting, caplog: pytest.LogCaptureFixture, trouble: Exception, is_mistake: bool
) -> None:
    def fail() -> bool:
        raise trouble

    waiting.see = fail
    waiting.run()
    assert (waiting.calls, waiting.status) == (2, 'ACTIVE')
    assert any(each.exc_info for each in caplog.records) is is_mistake


def test_event_that_is_due_by_the_database_is_claimed(waiting: Waiting) -> None:
    waiting.run(dataclasses.replace(waiting.due(), is_early=False))
    assert (waiting.looks, waiting.calls) == (0, 1)
    assert waiting.status == 'STARTING'


def test_manager_that_did_not_ask_claims(waiting: Waiting) -> None:
    waiting.world.new_executor().run(waiting.due())
    assert (waiting.looks, waiting.calls, waiting.status) == (0, 2, 'ACTIVE')


def test_lease_that_was_changed_is_claimed(waiting: Waiting) -> None:
    waiting.world.update(waiting.lease_id, name='other')
    waiting.run()
    assert (waiting.looks, waiting.calls) == (1, 2)
    assert waiting.world.lease(waiting.lease_id).name == 'other'
    assert waiting.status == 'ACTIVE'


def test_event_that_another_manager_has_meanwhile_is_left_to_it(waiting: Waiting) -> None:
    due = waiting.due()

    def claim() -> bool:
        other = (due.id, due.generation, 60.0, True)
        return waiting.world.database.write(events.claim, *other)

    waiting.see = claim
    waiting.run(due)
    assert (waiting.calls, waiting.start.status) == (1, states.EventStatus.IN_PROGRESS)


def test_end_that_comes_meanwhile_wins(waiting: Waiting) -> None:
    def end() -> bool:
        waiting.world.delete(waiting.lease_id)
        waiting.world.run_until_idle()
        return True

    waiting.see = end
    waiting.run()
    assert waiting.world.things.state['a'] == 'gone'
    assert 'lease.event.start_lease' not in waiting.world.told()


def test_two_that_look_at_once_finish_once(waiting: Waiting) -> None:
    due = waiting.due()
    other = waiting.world.new_executor()
    other.fast_starts.keep(waiting.world.lease(waiting.lease_id), waiting.start)

    def look() -> bool:
        waiting.see = lambda: True
        other.run(due)
        return True

    waiting.see = look
    waiting.run(due)
    assert (waiting.looks, waiting.calls, waiting.status) == (2, 1, 'ACTIVE')
    assert waiting.world.told().count('lease.event.start_lease') == 1


def test_lease_with_more_resources_is_claimed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting(world, monkeypatch)
    for each in 'bc':
        world.things.answers['wake', each] = [PollAgain(60.0)]
    waiting.lease_id = world.create('b', 'c', end=NEVER)
    world.run_until_idle()
    waiting.run()
    assert (waiting.looks, waiting.status) == (0, 'ACTIVE')


def test_lease_of_several_resources_is_not_kept(world: World) -> None:
    for each in 'bc':
        world.things.answers['wake', each] = [PollAgain(60.0)]
    world.create('b', 'c', end=NEVER)
    world.run_until_idle()
    assert world.executor.fast_starts._find_cached((TYPE, 'b')) is None


def test_start_that_is_finished_so_passes_the_points_of_a_finish(waiting: Waiting) -> None:
    due, seen = waiting.due(), []
    test_hooks.install(lambda name, info: seen.append((name, info, waiting.status)))
    try:
        waiting.run(due)
    finally:
        test_hooks.install(None)
    info = {'event_id': due.id, 'event_type': 'start_lease', 'lease_id': waiting.lease_id}
    before, after = ('finish.before', info, 'STARTING'), ('finish.after', info, 'ACTIVE')
    assert seen == [before, after]


@pytest.fixture
def at(world: World) -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """Have something happen once when a manager comes to a point."""
    waits: dict[str, Callable[[], None]] = {}
    test_hooks.install(lambda name, _info: waits.pop(name, lambda: None)())
    yield waits.__setitem__
    test_hooks.install(None)
    assert not waits


@pytest.mark.parametrize('is_of_another', [False, True])
def test_notification_that_comes_while_a_manager_works_counts_after_that(
    waiting: Waiting,
    at: Callable[[str, Callable[[], None]], None],
    time: Time,
    is_of_another: bool,
) -> None:
    world = waiting.world
    find = functools.partial(early_polls(world.database).find_early_poll, TYPE, 'a')
    found: list[DueEvent | None] = []
    time.forward(minutes=1)
    world.things.answers['wake', 'a'] = [PollAgain(60.0)]
    at('finish.before', lambda: found.append(find()))
    (due,) = world.due()
    world.executor.run(due)
    (early,) = found
    assert early is not None
    assert (early.is_early, waiting.status) == (True, 'STARTING')
    early_by = (early.next_at - world.clock.now()).total_seconds()
    assert 0 < early_by <= events.MIN_POLL_SECONDS
    # It is awake, which only the manager that asked for that can tell by a look.
    executor = world.new_executor() if is_of_another else world.executor
    executor.run(early)
    assert (waiting.status, waiting.looks) == ('ACTIVE', 0 if is_of_another else 1)
    assert waiting.start.generation == early.generation + 1


def test_look_at_what_another_manager_works_on_or_has_done_writes_nothing(
    waiting: Waiting, at: Callable[[str, Callable[[], None]], None], time: Time
) -> None:
    world, other = waiting.world, waiting.world.new_executor()
    early: list[DueEvent] = []
    kinds: list[str] = []

    def look() -> None:
        statements = world.statements(lambda: other.run(early[0]))
        kinds.extend(each.split()[0] for each in statements)

    def find_and_look() -> None:
        found = early_polls(world.database).find_early_poll(TYPE, 'a')
        assert found is not None
        early.append(found)
        look()

    time.forward(minutes=1)
    at('finish.before', find_and_look)
    (due,) = world.due()
    world.executor.run(due)
    assert waiting.status == 'ACTIVE'
    look()
    # Each time one statement locks the lease and another one reads it.
    assert kinds == ['SELECT'] * 4


def test_notification_finds_the_lease_that_its_manager_waits_for(waiting: Waiting) -> None:
    world = waiting.world
    early = world.executor.fast_starts
    found: list[DueEvent | None] = []
    assert world.statements(lambda: found.append(early.find_early_poll(TYPE, 'a'))) == []
    assert found == [early_polls(world.database).find_early_poll(TYPE, 'a')]
    assert found[0] is not None
    assert found[0].is_early
    waiting.run(found[0])
    assert (waiting.looks, waiting.calls, waiting.status) == (1, 1, 'ACTIVE')
    assert early.find_early_poll(TYPE, 'a') is None


@pytest.mark.parametrize('change', ['is due', 'is claimed', 'ends'])
def test_start_that_others_may_work_on_is_looked_for_in_the_database(
    waiting: Waiting, time: Time, change: str
) -> None:
    world = waiting.world
    known = functools.partial(world.executor.fast_starts._find_cached, (TYPE, 'a'))
    assert known() is not None
    if change == 'is due':
        time.forward(minutes=1)
    elif change == 'is claimed':
        world.things.answers['wake', 'a'] = [PollAgain(60.0)]
        due = dataclasses.replace(waiting.due(), is_early=False)
        world.executor.write([world.executor.create_job(due)])
    else:
        world.delete(waiting.lease_id)
        world.run()
    assert known() is None


def test_only_so_many_leases_are_kept(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting.world
    monkeypatch.setattr(fast_start, '_MAX_STARTS', 2)
    for each in 'bc':
        world.things.answers['wake', each] = [PollAgain(60.0)]
        world.create(each, end=NEVER)
    world.run()
    known = [world.executor.fast_starts._find_cached((TYPE, each)) is not None for each in 'abc']
    assert sorted(known) == [False, True, True]
    assert not known[0]
