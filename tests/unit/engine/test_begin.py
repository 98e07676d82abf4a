# SPDX-License-Identifier: Apache-2.0
"""What the beginning of an event does, and that who worked on a closed event has lost it."""

import dataclasses

import pytest

from climate_core.lease import events, model, schedule, states
from tests.support.world import NOON, World


@pytest.mark.parametrize('status', sorted(states.ENDING))
def test_nothing_is_started_in_a_lease_that_ends(world: World, status: str) -> None:
    lease = world.lease(world.create('a'))
    start = lease.event(model.START)
    ending = dataclasses.replace(lease, status=status)
    assert start is not None
    assert events.of(start.event_type).begin(ending, start, NOON).skip_reason
    assert events.of(start.event_type).begin(ending, start, NOON).reservations == ()


def test_what_is_taken_out_is_not_woken(world: World) -> None:
    lease_id = world.create('a', 'b')
    world.remove(lease_id, 'a')
    lease = world.lease(lease_id)
    start = lease.event(model.START)
    assert start is not None
    todo = events.of(start.event_type).begin(lease, start, NOON).reservations
    assert [each.resource_id for each in todo] == ['b']


def test_the_end_closes_the_start_and_what_is_taken_out(world: World) -> None:
    lease_id = world.create('a', 'b')
    world.remove(lease_id, 'a')
    lease = world.lease(lease_id)
    end = lease.event(model.END)
    assert end is not None
    after = events.of(end.event_type).begin(lease, end, lease.end_date).lease
    assert {e.event_type for e in after.events if e.open} & {
        model.START,
        model.READY,
        model.END_RESERVATION,
    } == set()


def test_who_works_on_what_is_closed_or_moved_has_lost_it(world: World) -> None:
    event = world.lease(world.create('a')).event(model.END)
    assert event is not None
    assert schedule.cancel_event(event, None, NOON).generation == event.generation + 1
    assert schedule.reschedule(event, NOON, NOON).generation == event.generation + 1
