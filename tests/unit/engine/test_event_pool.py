# SPDX-License-Identifier: Apache-2.0
"""Events are claimed and finished together, and none of them waits for others to come."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events
from climate_core.db.events import DueEvent
from climate_core.engine import event_pool
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.claims import ClaimLost
from climate_core.engine.event_pool import EventPool
from climate_core.engine.executor import EventJob, JobStage, WorkResult
from climate_core.engine.scheduler import Scheduler
from climate_core.lease import model, states
from tests.support.world import World

PATIENCE = 60
NEVER = '2099-01-01 00:00'


class Pool:
    """A pool with two threads and eight places."""

    def __init__(self, world: World, workers: int = 2, places: int = 8) -> None:
        self.world = world
        bulkhead = ServiceBulkhead(workers, 100, places=places)
        self.executor = world.executor
        self.pool = EventPool(self.executor, workers, bulkhead)
        self.ended: dict[str, WorkResult | BaseException | None] = {}
        self._ended = threading.Condition()
        self.asked, self.answer = threading.Semaphore(0), threading.Event()
        self.commits = 0
        sa.event.listen(world.database.engine, 'commit', self._count)

    def begin(self, *due: DueEvent) -> None:
        self.pool.begin(due, self)

    def lease(self, name: str) -> DueEvent:
        """Return the start of a new lease."""
        lease_id = self.world.create(name, end=NEVER)
        (found,) = (each for each in self.world.due() if each.lease_id == lease_id)
        return found

    def hang(self, *names: str) -> None:
        """Have the calls for these things wait for the answer."""

        def call() -> None:
            self.asked.release()
            self.answer.wait(PATIENCE)

        for name in names:
            self.world.things.answers['wake', name] = [call]

    def wait_for_calls(self, count: int) -> None:
        """Wait until so many calls have begun."""
        for _ in range(count):
            assert self.asked.acquire(timeout=PATIENCE)

    def until_ended(self, *due: DueEvent) -> None:
        with self._ended:
            ids = {each.id for each in due}
            assert self._ended.wait_for(lambda: self.ended.keys() >= ids, PATIENCE)

    def statuses(self, *due: DueEvent) -> list[str]:
        return [self.world.lease(each.lease_id).events_of(model.START)[0].status for each in due]

    def end_event(self, job: EventJob) -> None:
        with self._ended:
            assert job.due.id not in self.ended
            self.ended[job.due.id] = job.error or job.result
            self._ended.notify_all()

    def _count(self, connection: sa.Connection) -> None:
        self.commits += bool(connection.get_execution_options().get('climate_writes'))


@pytest.fixture
def pool(any_world: World) -> Iterator[Pool]:
    made = Pool(any_world)
    yield made
    made.answer.set()
    made.pool.close()
    made.pool._pool.shutdown()


def test_events_that_come_together_are_claimed_together(pool: Pool) -> None:
    due = [pool.lease(name) for name in 'abcdef']
    pool.hang(*'abcdef')
    before = pool.commits
    pool.begin(*due)
    pool.wait_for_calls(2)
    assert pool.statuses(*due) == ['IN_PROGRESS'] * 6
    assert pool.commits == before + 1


def test_event_that_is_alone_is_written_at_once(pool: Pool) -> None:
    (due,) = [pool.lease('a')]
    before = pool.commits
    pool.begin(due)
    pool.until_ended(due)
    assert pool.commits == before + 2
    assert pool.statuses(due) == ['DONE']
    assert pool.world.told()[-1] == 'lease.event.start_lease'


def test_all_of_many_are_done(pool: Pool) -> None:
    due = [pool.lease(f'a{n}') for n in range(40)]
    pool.begin(*due)
    pool.until_ended(*due)
    assert set(pool.statuses(*due)) == {'DONE'}
    assert sorted(pool.world.things.journal) == sorted(('wake', f'a{n}') for n in range(40))


def test_claims_of_events_that_wait_for_a_thread_are_kept_alive(pool: Pool) -> None:
    due = [pool.lease(name) for name in 'abcd']
    pool.hang(*'abcd')
    pool.begin(*due)
    pool.wait_for_calls(2)
    assert len(pool.world.claims._claims) == 4
    pool.answer.set()
    pool.until_ended(*due)
    assert not pool.world.claims._claims


def test_threads_call_for_other_events_while_one_writes(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pool, '_MAX_TRANSACTIONS', 1)

    def hold(_session: orm.Session, _lease: model.Lease | None) -> None:
        assert pool.answer.wait(PATIENCE)

    stuck, *others = [pool.lease(name) for name in 'abcde']
    pool.executor.calls_of = {each.id: lambda _job: pool.asked.release() for each in others}
    pool.executor.writes_of = {each.id: lambda _session, _lease: None for each in others}
    pool.executor.writes_of[stuck.id] = hold
    before = pool.commits
    pool.begin(stuck, *others)
    # One of the two threads writes, and the other one calls for all of them.
    pool.wait_for_calls(4)
    assert not pool.ended
    pool.answer.set()
    pool.until_ended(stuck, *others)
    # The last one may have come a little later than the others.
    assert pool.commits - before <= 3


def test_two_events_of_a_lease_are_written_one_after_the_other(pool: Pool) -> None:
    due = pool.lease('a')
    others = [
        DueEvent(f'other{n}', due.lease_id, 'end_lease', 0, 1, due.next_at) for n in range(2)
    ]

    def raise_generation(session: orm.Session, lease: model.Lease | None) -> int:
        assert lease is not None
        event = lease.events_of(model.START)[0]
        assert events.claim(session, event.id, event.generation, -1.0)
        return event.generation

    pool.executor.writes_of = {each.id: raise_generation for each in others}
    pool.begin(*others)
    pool.until_ended(*others)
    assert pool.executor.written == {'other0': 0, 'other1': 1}


def test_event_that_fails_keeps_no_other_from_being_done(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = [pool.lease(name) for name in 'abc']
    mistake = ValueError('a mistake')

    def fail(_job: EventJob) -> None:
        raise mistake

    pool.executor.calls_of = {due[1].id: fail}
    pool.begin(*due)
    pool.until_ended(*due)
    assert [pool.ended[each.id] for each in due] == [False, mistake, False]
    assert pool.statuses(*due) == ['DONE', 'UNDONE', 'DONE']


def test_what_a_transaction_raises_is_raised_by_each_of_its_events(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = [pool.lease(name) for name in 'ab']
    monkeypatch.setattr(pool.world.database, 'write', lambda *_args: 1 / 0)
    pool.begin(*due)
    pool.until_ended(*due)
    assert {type(each) for each in pool.ended.values()} == {ZeroDivisionError}


def test_event_that_gives_way_goes_on(pool: Pool) -> None:
    due = [pool.lease(name) for name in 'ab']

    def give_way(_session: orm.Session, _lease: model.Lease | None) -> Any:
        raise ClaimLost

    pool.executor.writes_of = {due[0].id: give_way}
    pool.begin(*due)
    pool.until_ended(*due)
    assert isinstance(pool.executor.written[due[0].id], ClaimLost)
    assert pool.statuses(due[1]) == [states.EventStatus.DONE]


def test_event_that_waits_for_a_thread_when_the_pool_is_closed_is_left(pool: Pool) -> None:
    due = [pool.lease(name) for name in 'abc']
    pool.hang(*'abc')
    pool.begin(*due)
    pool.wait_for_calls(2)
    pool.pool.close()
    pool.answer.set()
    pool.pool._pool.shutdown()
    # Two threads had called; what they had to write is taken up when its claim expires, too.
    assert len(pool.world.things.journal) <= 2
    assert pool.ended == {}


def test_share_that_is_freed_is_used_while_the_one_that_freed_it_writes(pool: Pool) -> None:
    bulkhead = ServiceBulkhead(4, 25, places=8)
    pool.pool = EventPool(pool.executor, 4, bulkhead)
    go_on = threading.Event()

    def hold(_session: orm.Session, _lease: model.Lease | None) -> None:
        assert pool.answer.wait(PATIENCE)

    def first(_job: EventJob) -> None:
        pool.asked.release()
        assert go_on.wait(PATIENCE)

    # One of the four threads may call the service.
    due = [dataclasses.replace(pool.lease(n), services=frozenset({'s'})) for n in 'ab']
    pool.executor.calls_of = {due[0].id: first, due[1].id: lambda _job: pool.asked.release()}
    pool.executor.writes_of = {due[0].id: hold}
    pool.begin(*due)
    pool.wait_for_calls(1)
    go_on.set()
    pool.wait_for_calls(1)
    pool.until_ended(due[1])
    assert due[0].id not in pool.ended
    pool.answer.set()
    pool.until_ended(due[0])


def test_services_are_not_called_by_the_thread_that_writes(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun too late is ended again; others that are to be written do not wait."""
    pool.pool = EventPool(pool.executor, 3, ServiceBulkhead(3, 100, places=8))
    monkeypatch.setattr(event_pool, '_MAX_TRANSACTIONS', 1)

    def end_superseded(_lease: model.Lease) -> None:
        pool.asked.release()
        assert pool.answer.wait(PATIENCE)

    monkeypatch.setattr(pool.world.executor.calls, 'end_superseded', end_superseded)
    lost, other = pool.lease('a'), pool.lease('b')

    def supersede() -> None:
        assert pool.world.database.write(events.renew, lost.id, lost.generation + 1, -1.0)
        again = dataclasses.replace(lost, generation=lost.generation + 1)
        assert pool.world.database.write(events.claim, again.id, again.generation, 60.0)

    pool.world.things.answers['wake', 'a'] = [supersede]
    pool.begin(lost)
    pool.wait_for_calls(1)
    pool.begin(other)
    pool.until_ended(other)
    assert lost.id not in pool.ended
    pool.answer.set()
    pool.until_ended(lost)
    assert pool.ended[lost.id] is True


def test_scheduler_that_stops_leaves_what_waits_for_a_thread_to_others(pool: Pool) -> None:
    world = pool.world
    loop = Scheduler(world.database, world.clock, pool.pool, 600)
    pool.hang(*'abcdef')
    ids = [world.create(name, end=NEVER) for name in 'abcdef']
    loop.start()
    pool.wait_for_calls(2)
    loop.stop()
    pool.answer.set()
    assert loop.wait(time.monotonic() + PATIENCE)
    assert len(world.things.calls) == 2
    assert [world.lease(each).status for each in ids].count('ACTIVE') == 2
    # Nobody has to wait until their claims expire.
    assert len(world.due()) == 4
    assert not world.claims._claims
    world.run_until_idle()
    assert {world.lease(each).status for each in ids} == {'ACTIVE'}


def test_what_begins_when_the_pool_has_stopped_is_left(pool: Pool) -> None:
    due = pool.lease('a')
    pool.pool.stop()
    pool.begin(due, dataclasses.replace(due, id='early', is_early=True))
    pool.until_ended(due, dataclasses.replace(due, id='early'))
    assert set(pool.ended.values()) == {False}
    assert pool.statuses(due) == ['UNDONE']


def test_thread_that_cannot_start_leaves_its_work_to_the_others(pool: Pool) -> None:
    due = [pool.lease(name) for name in 'abcd']
    submit, submitted = pool.pool._pool.submit, []

    def refuse(function: Callable[[], None]) -> Any:
        submitted.append(function)
        if len(submitted) != 1:
            raise RuntimeError("can't start new thread")
        return submit(function)

    pool.pool._pool.submit = refuse  # type: ignore[method-assign, assignment]
    pool.begin(*due)
    pool.until_ended(*due)
    assert len(submitted) > 1
    assert pool.statuses(*due) == ['DONE'] * 4


def test_end_that_is_not_taken_in_stops_no_thread(pool: Pool) -> None:
    pool.pool = EventPool(pool.executor, 1, ServiceBulkhead(1, 100, places=4))
    broken, due = pool.lease('a'), pool.lease('b')

    class Broken:
        def end_event(self, job: EventJob) -> None:
            raise RuntimeError

    pool.pool.begin([broken], Broken())
    pool.begin(due)
    pool.until_ended(due)
    assert pool.statuses(broken, due) == ['DONE', 'DONE']


def test_early_look_waits_for_no_transaction(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_pool, '_MAX_TRANSACTIONS', 0)
    due = dataclasses.replace(pool.lease('a'), is_early=True)

    def look(job: EventJob) -> None:
        pool.asked.release()
        job.stage = JobStage.ENDED

    pool.executor.calls_of = {due.id: look}
    pool.begin(due)
    pool.wait_for_calls(1)
    pool.until_ended(due)
