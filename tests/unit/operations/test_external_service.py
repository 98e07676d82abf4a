# SPDX-License-Identifier: Apache-2.0
"""The external service is asked about new leases and changes, and told of ends."""

import types
from collections.abc import Callable
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import model, states, views
from tests.support.quotas import (
    LATER,
    Judge,
    judge,
    limit,
    nothing_is_left,
)
from tests.support.world import Time, World, at


def test_the_external_service_permits(world: World) -> None:
    external = judge(world)
    lease_id = world.create('a')
    (asked,) = external.creates
    assert asked.id == lease_id
    assert [each.resource_id for each in asked.reservations] == ['a']


@pytest.mark.parametrize(
    'answer',
    [exceptions.LeaseNotPermitted('No budget.'), exceptions.ServiceUnavailable('Try again.')],
)
def test_the_external_service_does_not(world: World, answer: exceptions.ClimateError) -> None:
    judge(world).answer = answer
    with pytest.raises(type(answer), match=answer.message):
        world.create('a')
    assert nothing_is_left(world)


def test_what_is_over_a_limit_is_not_asked_about(world: World) -> None:
    limit(world, leases=0)
    external = judge(world)
    with pytest.raises(exceptions.LimitExceeded):
        world.create('a')
    assert not external.creates


def test_it_is_asked_about_changes_of_the_time_and_of_the_resources(world: World) -> None:
    lease_id = world.create('a')
    external = judge(world)
    world.update(lease_id, name='b')
    assert not external.updates
    world.update(lease_id, end_date=LATER)
    (before, after) = external.updates.pop()
    assert (before.end_date, after.end_date) == (at('2082-12-01 14:00'), at(LATER))
    world.join(lease_id, 'b')
    (before, after) = external.updates.pop()
    assert [len(each.reservations) for each in (before, after)] == [1, 2]


def test_a_change_that_it_does_not_permit_changes_nothing(world: World) -> None:
    lease_id = world.create('a')
    judge(world).answer = exceptions.LeaseNotPermitted('No budget.')
    with pytest.raises(exceptions.LeaseNotPermitted):
        world.update(lease_id, end_date=LATER)
    with pytest.raises(exceptions.LeaseNotPermitted):
        world.join(lease_id, 'b')
    lease = world.lease(lease_id)
    assert (lease.end_date, len(lease.reservations)) == (at('2082-12-01 14:00'), 1)


def test_a_lease_that_is_changed_while_it_is_asked_about(world: World) -> None:
    lease_id = world.create('a')

    class Slow(Judge):
        def check_update(self, before: model.Lease, after: model.Lease) -> None:
            self.on_update = False
            world.update(lease_id, name='other')

    world.operations.quota.external = Slow()
    with pytest.raises(exceptions.GenerationConflict):
        world.update(lease_id, end_date=LATER)
    assert world.lease(lease_id).end_date == at('2082-12-01 14:00')


def tells(world: World, told: Callable[[model.Lease], None]) -> None:
    operations = world.operations
    actions: Any = types.SimpleNamespace(
        lease_calls={
            'notify_external_end': told,
            'release_trust': operations.owner_trusts.release,
        },
        preempt_servers=operations.preempt_servers,
    )
    world.executor = world.new_executor(actions=actions)


@pytest.mark.parametrize('way', ['end', 'delete'])
def test_the_end_is_told_when_all_is_freed(world: World, time: Time, way: str) -> None:
    judge(world)
    told: list[model.Lease] = []
    tells(world, told.append)
    lease_id = world.create('a')
    world.run_until_idle()
    assert not told
    if way == 'end':
        time.forward(hours=3)
    else:
        world.delete(lease_id)
    world.run_until_idle()
    (lease,) = told
    assert (lease.id, lease.live) == (lease_id, ())
    assert all(e.event_type != model.EXTERNAL_END for e in views.visible_events(lease))
    if way == 'end':
        world.delete(lease_id)
        world.run_until_idle()
        assert len(told) == 1


def test_the_end_is_told_until_it_is_heard(world: World, time: Time) -> None:
    judge(world)
    answers: list[Exception | None] = [exceptions.Transient('away')] * 3 + [None]
    heard: list[str] = []

    def told(lease: model.Lease) -> None:
        answer = answers.pop(0)
        if answer:
            raise answer
        heard.append(lease.id)

    tells(world, told)
    lease_id = world.create('a')
    time.forward(hours=3)
    world.run_until_idle()
    # The end is done all the same, and what it held is free.
    assert world.lease(lease_id).status == states.LeaseStatus.TERMINATED
    assert not world.lease(lease_id).live
    for _ in range(3):
        assert not heard
        time.forward(minutes=5)
        world.run_until_idle()
    assert heard == [lease_id]


def test_nobody_is_told_of_a_lease_about_which_nobody_was_asked(world: World, time: Time) -> None:
    told: list[model.Lease] = []
    tells(world, told.append)
    world.create('a')
    judge(world)
    time.forward(hours=3)
    world.run_until_idle()
    assert not told


def test_a_move_does_not_make_the_end_due(world: World) -> None:
    judge(world)
    told: list[model.Lease] = []
    tells(world, told.append)
    lease_id = world.create('a')
    world.update(lease_id, end_date=LATER)
    world.update(lease_id, end_date='2082-12-01 13:00')
    world.run_until_idle()
    event = world.lease(lease_id).event(model.EXTERNAL_END)
    assert event is not None
    assert event.next_at is None
    assert not told
