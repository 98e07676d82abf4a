# SPDX-License-Identifier: Apache-2.0
"""Claims, fences and supersession, on each database and by its own clock."""

import datetime
import math
import time
from concurrent import futures

import pytest
from oslo_db import exception as db_exc

from climate_common import dates
from climate_core.db import events, leases, store
from climate_core.db.engine import Stale
from climate_core.engine.claims import Claims, EventClaim
from climate_core.lease.events import end
from climate_core.lease.history import Cause
from climate_core.plugins.base import PollAgain
from tests.support.stopping import stop
from tests.support.world import Time, World, statuses

NEVER = '2099-01-01 00:00'


def _claim(world: World, due: events.DueEvent, ttl: float = 30) -> bool:
    return world.database.write(events.claim, due.id, due.generation, ttl)


def _claimed(world: World) -> tuple[Claims, EventClaim]:
    """Claim the start of a new lease for 30 seconds."""
    claims = Claims(world.database, ttl=30)
    world.create('a', end=NEVER)
    (due,) = world.due()
    claim = world.database.write(claims.claim, due)
    assert claim is not None
    return claims, claim


def test_one_of_many_wins(any_world: World) -> None:
    any_world.create('a', end=NEVER)
    (due,) = any_world.due()
    with futures.ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda _: _claim(any_world, due), range(8)))
    assert sum(won) == 1
    assert any_world.due() == []


def test_what_is_not_due_cannot_be_claimed(any_world: World) -> None:
    any_world.create('a', start='2098-01-01 00:00', end=NEVER)
    _, rows = any_world.database.read(events.read_due, 10)
    # Beside what is due, only the one that comes next is read.
    assert [row.event_type for row in rows] == ['start_lease']
    assert not _claim(any_world, rows[0])


def test_an_expired_claim_is_due_again(any_world: World) -> None:
    any_world.create('a', end=NEVER)
    (due,) = any_world.due()
    assert _claim(any_world, due, ttl=-1)
    (again,) = any_world.due()
    assert (again.id, again.generation) == (due.id, due.generation + 1)
    assert _claim(any_world, again)
    assert not _claim(any_world, again)


def test_a_claim_is_not_due_before_it_expires(world: World, time: Time) -> None:
    world.create('a')
    (due,) = world.due()
    assert _claim(world, due)
    time.forward(seconds=29)
    assert world.due() == []
    time.forward(seconds=1)
    assert len(world.due()) == 1


def test_a_lost_claim_cannot_finish(any_world: World) -> None:
    """The first manager sleeps on its feet; the second finishes; the first changes nothing."""
    world = any_world

    def other_manager() -> None:
        # The claim of the first has expired.
        lease = world.lease(lease_id)
        event = lease.event('start_lease')
        assert event is not None
        world.database.write(events.renew, event.id, event.generation, -1)
        (due,) = world.due()
        world.new_executor(Claims(world.database, 30)).run(due)

    world.things.answers['wake', 'a'] = [other_manager]
    lease_id = world.create('a', end=NEVER)
    world.run()
    assert world.lease(lease_id).status == 'ACTIVE'
    assert world.things.count('wake', 'a') == 1
    assert world.told().count('lease.event.start_lease') == 1


def test_renewing_keeps_a_claim_and_notices_its_loss(any_world: World) -> None:
    world = any_world
    claims, claim = _claimed(world)
    claims.hold(claim)
    assert world.database.write(events.renew, claim.event_id, claim.generation, -1)
    assert world.due()
    claims.renew(claim.renew_at)
    assert world.due() == []
    assert not claim.lost
    world.database.write(events.renew, claim.event_id, claim.generation, -1)
    (again,) = world.due()
    assert _claim(world, again)
    claims.renew(claim.renew_at)
    assert claim.lost


def test_only_a_claim_that_is_renewed_before_the_others_wakes_the_thread_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(world.database, ttl=30)
    nudged: list[str] = []
    for name, renew_at in (('first', 50.0), ('later', 60.0), ('earlier', 40.0)):
        monkeypatch.setattr(claims, 'nudge', lambda name=name: nudged.append(name))
        claims.hold(EventClaim(name, 'lease', 'start_lease', 1, renew_at))
    assert nudged == ['first', 'earlier']


def test_claim_that_did_not_wake_the_thread_up_is_renewed_in_time(world: World) -> None:
    ids = [world.create(name, end=NEVER) for name in 'ab']
    claims = Claims(world.database, ttl=1.5)
    made = [world.database.write(claims.claim, due) for due in world.due()]
    assert len(made) == len(ids)
    first, second = (claim for claim in made if claim is not None)
    claims.start()
    try:
        claims.hold(first)
        claims.hold(second)
        claims.drop(first)
        before = second.renew_at
        deadline = time.monotonic() + 60
        while second.renew_at == before:
            assert time.monotonic() < deadline
    finally:
        assert stop(claims)
    assert not second.lost


def test_who_lost_a_claim_touches_nothing_more(world: World) -> None:
    def lose() -> None:
        (event,) = (e for e in world.lease(lease_id).events if e.status == 'IN_PROGRESS')
        world.database.write(events.renew, event.id, event.generation, -1)
        (due,) = world.due()
        assert _claim(world, due)
        world.claims.renew(math.inf)

    world.things.answers['wake', 'a'] = [lose]
    lease_id = world.create('a', 'b', end=NEVER)
    world.run()
    assert world.things.calls == [('wake', 'a')]


def test_the_end_supersedes_the_start_at_work(any_world: World) -> None:
    world = any_world

    def end_meanwhile() -> None:
        world.update(lease_id, end_date='now')
        (end,) = (d for d in _wait_due(world) if d.event_type == 'end_lease')
        world.new_executor().run(end)

    world.things.answers['wake', 'a'] = [end_meanwhile]
    lease_id = world.create('a', 'b', end=NEVER)
    (start,) = world.due()
    world.executor.run(start)
    lease = world.settle(lease_id)
    assert lease.status == 'TERMINATED'
    assert statuses(lease.reservations) == ['deleted', 'deleted']
    assert ('wake', 'b') not in world.things.journal
    event = lease.event('start_lease')
    assert event is not None
    assert event.status_reason == 'The lease ended first.'


def _wait_due(world: World) -> list[events.DueEvent]:
    """Return what is due, once the database's clock has passed the microsecond asked for."""
    while not (due := world.due()):
        pass
    return due


def test_deleting_while_the_end_is_at_work(any_world: World) -> None:
    world = any_world
    lease_id = world.create('a', end=NEVER)
    world.run_until_idle()
    world.delete(lease_id)
    world.things.answers['end', 'a'] = [lambda: world.delete(lease_id)]
    assert world.settle(lease_id).deleted_at is not None
    assert world.told()[-1] == 'lease.delete'
    assert world.trusts.present == set()
    assert world.due() == []


def test_a_stale_lease_is_not_written(any_world: World) -> None:
    world = any_world
    lease_id = world.create('a', end=NEVER)
    before = world.lease(lease_id)
    world.update(lease_id, name='other')
    now = world.clock.now()
    session_of = world.database.writer
    with pytest.raises(Stale), session_of() as session:
        store.save(session, before, end.delete_lease(before, now), now, Cause('lease.delete'))
    assert world.lease(lease_id).status == 'PENDING'


def test_waiting_gives_the_claim_back(any_world: World) -> None:
    world = any_world
    world.things.answers['wake', 'a'] = [PollAgain(3600)]
    lease_id = world.create('a', end=NEVER)
    world.run_until_idle()
    event = world.lease(lease_id).event('start_lease')
    assert event is not None
    assert (event.status, event.attempts) == ('UNDONE', 0)
    assert event.next_at is not None
    assert event.next_at - world.clock.now() > datetime.timedelta(minutes=59)


def test_times_keep_their_microseconds(any_world: World) -> None:
    world = any_world
    lease_id = world.create(end='2098-01-01T00:00:00.123456+02:00')
    lease = world.database.read(leases.get, lease_id)
    assert dates.serialize(lease.end_date) == '2097-12-31T22:00:00.123456'
    assert lease.created_at.tzinfo is not None


def test_the_clock_is_the_database_s(any_world: World) -> None:
    local = datetime.datetime.now(datetime.UTC)
    assert abs(any_world.clock.now() - local) < datetime.timedelta(hours=1)
    assert abs(any_world.clock.now() - any_world.clock.now()) < datetime.timedelta(seconds=1)


def test_event_that_cannot_be_begun_is_tried_again_when_its_claim_expires(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = any_world
    lease_id = world.create('a', end=NEVER)
    (due,) = world.due()

    def refuse(*_: object) -> None:
        raise ValueError('a mistake')

    with monkeypatch.context() as patched:
        patched.setattr(store, 'save', refuse)
        with pytest.raises(ValueError, match='a mistake'):
            world.executor.run(due)
    assert world.due() == []
    event = world.lease(lease_id).event('start_lease')
    assert event is not None
    assert world.database.write(events.renew, event.id, event.generation, -1)
    world.run()
    assert world.lease(lease_id).status == 'ACTIVE'


def test_claim_that_has_waited_is_confirmed(any_world: World) -> None:
    world = any_world
    claims, claim = _claimed(world)
    assert world.statements(lambda: claims.confirm(claim)) == []
    claim.renew_at -= 2
    found: list[bool] = []
    assert len(world.statements(lambda: found.append(claims.confirm(claim)))) == 1
    world.database.write(events.renew, claim.event_id, claim.generation, -1)
    (again,) = world.due()
    assert _claim(world, again)
    claim.renew_at -= 2
    found.append(claims.confirm(claim))
    assert found == [True, False]
    assert claim.lost


def test_claim_that_is_given_back_is_due(any_world: World) -> None:
    world = any_world
    claims, claim = _claimed(world)
    claims.give_back(claim)
    assert [each.id for each in world.due()] == [claim.event_id]


@pytest.mark.parametrize(
    ('error', 'statements'), [(db_exc.DBConnectionError(), 0), (ValueError(), 1)]
)
def test_event_that_cannot_begin_is_claimed_alone_unless_the_database_is_away(
    world: World, error: Exception, statements: int
) -> None:
    world.create('a', end=NEVER)
    (due,) = world.due()
    job = world.executor.create_job(due)

    def fail() -> None:
        world.executor._record_claim(job, None, error)

    assert len(world.statements(fail)) == statements
    assert job.error is error
    assert len(world.due()) == 1 - statements
