# SPDX-License-Identifier: Apache-2.0
"""What does not go on is found, and pushed."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.db import events, listing, monitoring, tables
from climate_core.db.monitoring import StuckKind
from climate_core.lease import model
from climate_core.repair import operator_repair
from tests.support.world import NOON, Time, World

PATIENCE = monitoring.StuckThresholds(attempts=3, seconds=600, grace=60)


def find(world: World, lease_id: str | None = None) -> list[monitoring.Stuck]:
    return world.database.read(monitoring.find_stuck, PATIENCE, lease_id)


def kinds(world: World) -> list[str]:
    return [str(each.kind) for each in find(world)]


def unstick(world: World, lease_id: str) -> list[str]:
    return world.database.write(operator_repair.unstick, lease_id, find(world, lease_id), 'root')


def change(world: World, table: Any, where: Any, **values: Any) -> None:
    with world.database.writer() as session:
        session.execute(sa.update(table).where(where).values(**values))


def repairs(world: World, lease_id: str) -> list[Any]:
    page = world.database.read(listing.read_history_page, lease_id)[0]
    return [entry for _, entry in page if entry.action == operator_repair.REPAIR]


def test_a_lease_that_goes_on_is_not_stuck(world: World, time: Time) -> None:
    lease_id = world.create('a')
    time.forward(seconds=59)
    assert find(world) == []
    world.run_until_idle()
    time.forward(hours=1)
    assert find(world) == []
    time.forward(hours=1)
    world.run_until_idle()
    time.forward(days=1)
    assert world.lease(lease_id).status == 'TERMINATED'
    assert find(world) == []


def test_event_that_is_not_taken_up_is_stuck(world: World, time: Time) -> None:
    first = world.create('a')
    time.forward(seconds=60)
    [found] = find(world)
    told = found.kind, found.lease_id, found.event_type, found.name, found.project_id
    assert told == (StuckKind.NOT_TAKEN_UP, first, 'start_lease', 'lease1', 'project1')
    second = world.create('b')
    time.forward(seconds=60)
    # The oldest is first.
    assert [(each.lease_id, each.age) for each in find(world)] == [(first, 120.0), (second, 60.0)]
    assert [each.lease_id for each in find(world, second)] == [second]


def test_a_claim_that_expired_is_pushed(world: World, time: Time) -> None:
    lease_id = world.create('a')
    [due] = world.due()
    assert world.database.write(events.claim, due.id, due.generation, 30.0)
    time.forward(seconds=89)
    assert find(world) == []
    time.forward(seconds=1)
    assert kinds(world) == ['claim_expired']
    before = world.lease(lease_id).event(model.START)
    assert unstick(world, lease_id) == ['claim_expired: make the event due now (start_lease)']
    after = world.lease(lease_id).event(model.START)
    assert before is not None
    assert after is not None
    # The manager that had the claim cannot finish it any more.
    assert after.generation > before.generation
    assert (after.status, after.next_at) == ('UNDONE', time.now)
    [entry] = repairs(world, lease_id)
    assert (entry.user_id, entry.result, entry.time) == ('root', 'done', time.now)
    assert 'make the event due now' in entry.reason
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ACTIVE'


def test_event_that_fails_several_times_is_stuck(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Transient('no host')] * 3
    lease_id = world.create('a')
    for _ in range(2):
        world.run_until_idle()
        time.forward(seconds=30)
    assert find(world) == []
    world.run_until_idle()
    [found] = find(world)
    assert found.kind is StuckKind.RETRIED
    assert found.reason.startswith('failed 3 times:')
    assert 'no host' in found.reason
    unstick(world, lease_id)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ACTIVE'
    assert find(world) == []


def test_event_that_fails_for_long_is_stuck(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Transient('no host')]
    world.create('a')
    world.run_until_idle()
    event_time = tables.EVENTS.c.event_type == model.START
    change(world, tables.EVENTS, event_time, next_at=time.now.replace(hour=13))
    time.forward(seconds=599)
    assert find(world) == []
    time.forward(seconds=1)
    assert sorted(kinds(world)) == ['retried', 'starting']


def test_what_a_manager_works_on_is_left_alone(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Transient('no host')] * 3
    lease_id = world.create('a')
    for _ in range(3):
        world.run_until_idle()
        time.forward(seconds=30)
    [due] = world.due()
    assert world.database.write(events.claim, due.id, due.generation, 30.0)
    assert kinds(world) == ['retried']
    assert unstick(world, lease_id) == []
    assert repairs(world, lease_id) == []


def test_past_its_end_without_an_end(world: World, time: Time) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    is_end = tables.EVENTS.c.event_type == model.END
    change(world, tables.EVENTS, is_end, next_at=None, status='DONE')
    assert kinds(world) == ['no_end']
    time.forward(hours=2, seconds=599)
    world.run_until_idle()
    assert kinds(world) == ['no_end']
    time.forward(seconds=1)
    assert sorted(kinds(world)) == ['no_end', 'past_end']
    assert unstick(world, lease_id) == ['no_end: add the end event to the lease (lease)']
    world.run_until_idle()
    assert world.lease(lease_id).status == 'TERMINATED'
    assert world.things.count('end', 'a') == 1


def test_an_end_that_is_given_again_keeps_its_time(world: World, time: Time) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    change(world, tables.EVENTS, tables.EVENTS.c.event_type == model.END, next_at=None, status='X')
    unstick(world, lease_id)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ACTIVE'
    time.forward(hours=2)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'TERMINATED'


def test_an_error_is_for_a_person(world: World, time: Time) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Permanent('broken')]
    lease_id = world.create('a')
    world.run_until_idle()
    time.forward(seconds=599)
    assert find(world) == []
    time.forward(seconds=1)
    [found] = find(world)
    assert found.kind is StuckKind.ERROR
    assert 'broken' in found.reason
    assert unstick(world, lease_id) == []


def test_a_trust_that_was_kept(world: World, time: Time) -> None:
    world.trusts.trouble = [exceptions.Permanent('not allowed')]
    lease_id = world.create('a')
    world.run_until_idle()
    world.delete(lease_id)
    world.run_until_idle()
    assert kinds(world) == ['trust_kept']
    assert unstick(world, lease_id) == ['trust_kept: release the trust (lease)']
    assert len(repairs(world, lease_id)) == 1
    world.run_until_idle()
    assert world.trusts.present == set()
    assert find(world) == []


def test_what_was_repaired_meanwhile_is_left_alone(world: World, time: Time) -> None:
    lease_id = world.create('a')
    time.forward(seconds=60)
    found = find(world)
    world.run_until_idle()
    assert world.database.write(operator_repair.unstick, lease_id, found, 'root') == []
    assert world.database.write(operator_repair.unstick, 'unknown', found, 'root') == []


@pytest.mark.parametrize('number', [1, 30])
def test_the_cost_does_not_grow(world: World, time: Time, number: int) -> None:
    for each in range(number):
        world.create(f'thing{each}')
    time.forward(seconds=60)
    call: Callable[[], Any] = lambda: find(world)  # noqa: E731
    # Two, and one for the time, which a clock that is turned by hand saves.
    assert len(world.statements(call)) == 2


def test_stuck_leases_are_found_on_each_database(any_world: World) -> None:
    lease_id = any_world.create('a', start='now', end='2099-01-01 10:00')
    any_world.run_until_idle()
    long_ago = {'end_date': NOON.replace(year=2020), 'start_date': NOON.replace(year=2019)}
    change(any_world, tables.LEASES, sa.true(), status='STARTING', **long_ago)
    change(any_world, tables.EVENTS, sa.true(), next_at=NOON.replace(year=2020), status='UNDONE')
    assert {'not_taken_up', 'starting', 'past_end'} == set(kinds(any_world))
    assert unstick(any_world, lease_id)
    assert len(repairs(any_world, lease_id)) == 1
