# SPDX-License-Identifier: Apache-2.0
"""A resource is taken out of a lease that goes on."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.lease import changes, model
from climate_core.lease.events import preparation
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation


@pytest.mark.parametrize('status', ['pending', 'active', 'error'])
def test_one_reservation_is_freed_now(status: str) -> None:
    one = lease(reservation('a', status), reservation('b'))
    change = changes.remove_reservation(one, 'a', NOON)
    after = change.lease
    assert [r.status for r in after.reservations] == ['deleting', 'pending']
    due = event(after, model.END_RESERVATION)
    assert (due.reservation_id, due.next_at) == ('a', NOON)
    assert change.notifications == {'lease.update': None}
    again = changes.remove_reservation(after, 'a', NOON)
    assert (again.lease, again.notifications) == (after, {})


def test_reservation_that_ends_early_is_freed_now_by_that_event() -> None:
    one = lease(reservation('a', 'active'), reservation('b', 'active'), status='ACTIVE')
    over = model.new_event('lease', model.END_RESERVATION, NOON, NOON, 'a')
    over = dataclasses.replace(over, status='DONE', next_at=None)
    early = model.new_event('lease', model.END_RESERVATION, NOON + HOUR, NOON, 'a')
    other = model.new_event('lease', model.END_RESERVATION, NOON + HOUR, NOON, 'b')
    after = changes.remove_reservation(one.with_events(over, early, other), 'a', NOON).lease
    found = {e.id: e.next_at for e in after.events_of(model.END_RESERVATION) if e.open}
    assert found == {early.id: NOON, other.id: NOON + HOUR}
    (moved,) = (e for e in after.events if e.id == early.id)
    assert (moved.time, moved.generation) == (NOON, 1)


@pytest.mark.parametrize(
    ('reservation_id', 'lease_status', 'error'),
    [
        ('nowhere', 'ACTIVE', exceptions.ReservationNotFound),
        ('gone', 'ACTIVE', exceptions.ReservationNotFound),
        ('gone', 'TERMINATED', exceptions.ReservationNotFound),
        ('a', 'TERMINATING', exceptions.InvalidState),
        ('a', 'DELETING', exceptions.InvalidState),
    ],
)
def test_reservation_that_cannot_be_removed_is_refused(
    reservation_id: str, lease_status: str, error: type[Exception]
) -> None:
    one = lease(reservation('a'), reservation('gone', 'deleted'), status=lease_status)
    with pytest.raises(error):
        changes.remove_reservation(one, reservation_id, NOON)


def test_lease_that_is_to_give_way_keeps_what_it_gives_up() -> None:
    one = lease(reservation('a', 'active'), status='ACTIVE', preemptible=True)
    one = one.with_events(model.new_event('lease', model.PREEMPT, NOON + HOUR, NOON))
    with pytest.raises(exceptions.InvalidState, match='gives up what it has on 2026-12-01 13:00'):
        changes.remove_reservation(one, 'a', NOON)


def test_reservation_of_a_lease_that_was_given_up_is_removed() -> None:
    one = lease(reservation('a', 'error'), status='TIMEDOUT')
    after = changes.remove_reservation(one, 'a', NOON).lease
    assert after.get_reservation('a').status == 'deleting'


def test_it_is_not_prepared_any_more() -> None:
    one = lease(reservation('a'), reservation('b'), start=NOON + HOUR)
    one = preparation.add_preparations(one, {'a': None, 'b': None}, NOON)
    after = changes.remove_reservation(one, 'a', NOON).lease
    left = [e.reservation_id for e in after.events_of(model.PREPARE) if e.open]
    assert left == ['b']
    (gone,) = after.events_of(model.PREPARE, reservation_id='a')
    assert gone.generation == 1


@pytest.mark.parametrize(
    ('status', 'event_status', 'minutes'),
    [
        ('STARTING', 'UNDONE', 0),
        ('STARTING', 'IN_PROGRESS', 5),
        ('ACTIVE', 'DONE', 5),
        ('PENDING', 'UNDONE', 5),
    ],
)
def test_a_start_that_may_wait_for_nothing_else_is_looked_at(
    status: str, event_status: str, minutes: int
) -> None:
    one = lease(reservation('a'), status=status)
    later = NOON + 5 * MINUTE
    start = dataclasses.replace(event(one, model.START), status=event_status, next_at=later)
    after = changes.remove_reservation(one.with_events(start), 'a', NOON).lease
    assert event(after, model.START).next_at == NOON + minutes * MINUTE
