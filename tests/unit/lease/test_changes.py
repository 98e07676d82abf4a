# SPDX-License-Identifier: Apache-2.0
"""Changes of a lease and of its reservations by its user."""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import changes, model, resources, transitions
from climate_core.lease.events import preparation
from climate_core.lease.request import RequestRules
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation

NOW = NOON - HOUR
ONE = lease(
    reservation(colour='grey'),
    now=NOW,
    before_end_date=NOON + HOUR,
    given=[('note', NOON + MINUTE)],
)
ONE_, TWO, FOUR = '2082-12-01 13:00', '2082-12-01 14:00', '2082-12-01 16:00'


def update(one: model.Lease, now: Any = NOW, **values: Any) -> transitions.Change:
    return changes.update_lease(one, values, now, RequestRules())


@pytest.mark.parametrize(
    ('values', 'fields'),
    [
        ({'name': 'other'}, {'name': 'other'}),
        ({'end_date': FOUR}, {'end_date': NOON + 4 * HOUR, 'before_end_date': NOON + 3 * HOUR}),
        ({'duration': '4h'}, {'end_date': NOON + 4 * HOUR}),
        ({'start_date': ONE_}, {'start_date': NOON + HOUR, 'before_end_date': NOON + HOUR}),
        ({'start_date': ONE_, 'duration': '3h'}, {'end_date': NOON + 4 * HOUR}),
        ({'before_end_date': TWO}, {'before_end_date': NOON + 2 * HOUR}),
        (
            {'end_date': FOUR, 'before_end_date': TWO},
            {'end_date': NOON + 4 * HOUR, 'before_end_date': NOON + 2 * HOUR},
        ),
        ({'start_policy': 'manual'}, {'start_policy': 'manual'}),
        ({'before_start': [60]}, {'before_start': (60,)}),
    ],
)
def test_update_changes_the_fields_that_are_given(
    values: dict[str, Any], fields: dict[str, Any]
) -> None:
    change = update(ONE, **values)
    assert {name: getattr(change.lease, name) for name in fields} == fields
    assert change.notifications == {'lease.update': None}
    assert update(change.lease, **values).lease == change.lease


@pytest.mark.parametrize(
    ('values', 'kind', 'time'),
    [
        ({'start_date': ONE_}, model.START, NOON + HOUR),
        ({'start_date': ONE_, 'start_policy': 'manual'}, model.READY, NOON + HOUR),
        ({'end_date': FOUR}, model.END, NOON + 4 * HOUR),
        ({'end_date': FOUR}, model.BEFORE_END, NOON + 3 * HOUR),
        ({'before_start': [60]}, model.BEFORE_START, NOON - MINUTE),
        ({'events': [{'event_type': 'other', 'time': ONE_}]}, 'other', NOON + HOUR),
    ],
)
def test_events_move_with_the_dates(values: dict[str, Any], kind: str, time: Any) -> None:
    (moved,) = update(ONE, **values).lease.events_of(kind)
    assert (moved.time, moved.next_at) == (time, time)


def test_events_of_the_user_are_replaced() -> None:
    note = event(ONE, 'note')
    given = [{'event_type': 'note', 'time': '2082-12-01 12:01'}]
    assert update(ONE, events=given).lease == ONE
    assert update(ONE, events=given * 2).lease.events_of('note')[0] == note
    assert update(ONE, events=[]).lease.events_of('note') == ()


@pytest.mark.parametrize(
    ('fields', 'values', 'error', 'field'),
    [
        ({}, {'status': 'ACTIVE'}, exceptions.BadRequest, 'status'),
        ({}, {'end_date': FOUR, 'duration': '1h'}, exceptions.BadRequest, 'duration'),
        ({}, {'end_date': '2082-12-01 10:00'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'end_date': 'soon'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'before_end_date': '2082-12-01 14:01'}, exceptions.InvalidDate, 'before_end_date'),
        ({}, {'name': ''}, exceptions.BadRequest, 'name'),
        ({}, {'end_date': '2082-12-01 12:00'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'start_date': '2082-12-01 10:00'}, exceptions.InvalidDate, 'start_date'),
        ({'status': 'ACTIVE'}, {'start_date': ONE_}, exceptions.InvalidState, 'start_date'),
        ({'status': 'ERROR'}, {'start_policy': 'manual'}, exceptions.InvalidState, 'start_policy'),
        ({'status': 'ACTIVE'}, {'before_start': [60]}, exceptions.InvalidState, 'before_start'),
        ({'status': 'TERMINATING'}, {'end_date': FOUR}, exceptions.InvalidState, None),
        ({'status': 'TERMINATED'}, {'before_end_date': TWO}, exceptions.InvalidState, None),
        ({}, {'reservations': [{'id': 'other'}]}, exceptions.ReservationNotFound, None),
        *(
            (
                {},
                {
                    'events': [
                        {'event_type': 'fine', 'time': ONE_},
                        {'event_type': kind, 'time': time},
                    ]
                },
                error,
                f'events[1].{field}',
            )
            for kind, time, error, field in (
                ('before_end_lease', ONE_, exceptions.BadRequest, 'event_type'),
                ('end_lease', ONE_, exceptions.BadRequest, 'event_type'),
                ('x.error', ONE_, exceptions.BadRequest, 'event_type'),
                ('late', '2082-12-01 10:00', exceptions.InvalidDate, 'time'),
                ('later', '2082-12-01 20:00', exceptions.InvalidDate, 'time'),
                ('never', 'soon', exceptions.InvalidDate, 'time'),
            )
        ),
    ],
)
def test_wrong_update_is_refused(
    fields: dict[str, str], values: dict[str, Any], error: type[Exception], field: str | None
) -> None:
    with pytest.raises(error) as caught:
        update(dataclasses.replace(ONE, **fields), **values)
    assert getattr(caught.value, 'field', None) == field


@pytest.mark.parametrize('status', ['TERMINATING', 'TERMINATED', 'DELETING'])
def test_only_the_name_of_what_ends_changes(status: str) -> None:
    one = dataclasses.replace(ONE, status=status)
    assert update(one, name='other').lease.name == 'other'


@pytest.mark.parametrize(
    ('values', 'waits'),
    [({'start_date': ONE_}, False), ({'start_policy': 'auto'}, False), ({'end_date': FOUR}, True)],
)
def test_a_lease_waits_for_its_user_until_its_start_moves(
    values: dict[str, Any], waits: bool
) -> None:
    one = lease(start_policy='manual', status_reason=transitions.WAITS_FOR_USER)
    assert bool(update(one, NOON, **values).lease.status_reason) == waits


@pytest.mark.parametrize(('told', 'revoked'), [(True, True), (False, False)])
def test_an_end_that_was_told_and_is_not_near_any_more(told: bool, revoked: bool) -> None:
    one = dataclasses.replace(ONE, status='ACTIVE')
    if told:
        one = one.with_events(transitions.complete_event(event(one, model.BEFORE_END), None, NOON))
    stop = ['lease.event.before_end_lease.stop'] if revoked else []
    assert list(update(one, NOON + HOUR, end_date=FOUR).notifications) == [*stop, 'lease.update']


def test_reservations_change_with_the_lease() -> None:
    change = update(ONE, reservations=[{'id': 'thing', 'colour': 'red'}])
    assert change.lease.reservations[0].params == {'colour': 'red'}


@pytest.mark.parametrize('values', [{}, {'name': None}, {'name': 'name'}, {'end_date': TWO}])
def test_update_with_the_same_values_changes_nothing(values: dict[str, Any]) -> None:
    change = update(ONE, **values)
    assert (change.lease, change.notifications) == (ONE, {})


TWO_LATER, FOUR_LATER, SIX = (NOON + hours * HOUR for hours in (2, 4, 6))


def extended(end: Any = FOUR_LATER, **early: Any) -> model.Lease:
    """Return a lease of the resources a and b, some of which end early."""
    one = lease(reservation('a', 'active'), reservation('b', 'active'), status='ACTIVE', end=end)
    return one.with_events(
        *(
            model.new_event('lease', model.END_RESERVATION, at, NOON, key)
            for key, at in early.items()
        )
    )


@pytest.mark.parametrize(
    ('values', 'partial'),
    [
        ({}, False),
        ({'partial': False, 'start_date': TWO_LATER}, False),
        ({'partial': True, 'end_date': FOUR_LATER}, True),
        ({'partial': True, 'duration': '4h', 'start_date': None}, True),
    ],
)
def test_change_is_partial_if_it_says_so(values: dict[str, Any], partial: bool) -> None:
    assert changes.read_partial(values) is partial


@pytest.mark.parametrize(
    'values',
    [
        {},
        {'name': 'other'},
        {'end_date': None},
        {'end_date': FOUR_LATER, 'start_date': TWO_LATER},
    ],
)
def test_partial_change_that_is_no_extension_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(exceptions.BadRequest, match='partial: must be left out unless') as refused:
        changes.read_partial({'partial': True, **values})
    assert refused.value.field == 'partial'


def test_refused_resources_keep_the_end_that_they_had() -> None:
    after = changes.add_early_ends(
        extended(TWO_LATER, b=NOON + HOUR), extended(FOUR_LATER), ['a', 'b'], NOON
    )
    assert after.early_ends == {'a': TWO_LATER, 'b': NOON + HOUR}


def test_resource_that_is_being_freed_has_no_early_end() -> None:
    one = extended(FOUR_LATER, a=TWO_LATER)
    freed = dataclasses.replace(one.reservations[0], status='deleting')
    assert one.with_reservations(freed).early_ends == {}


@pytest.mark.parametrize(
    ('end', 'partial', 'minutes', 'resumes'),
    [
        (SIX, False, 0, False),
        (SIX, True, 0, True),
        (TWO_LATER, False, 0, True),
        # It is due: what has ended is not taken back.
        (SIX, True, 120, False),
    ],
)
def test_resource_ends_with_its_lease_again_if_that_can_be(
    end: Any, partial: bool, minutes: int, resumes: bool
) -> None:
    before = extended(FOUR_LATER, a=TWO_LATER)
    moved = dataclasses.replace(before, end_date=end)
    after = changes.cancel_early_ends(before, moved, partial, NOON + minutes * MINUTE)
    assert changes.resumed_ends(before, after) == ({'a'} if resumes else set())
    assert after.early_ends == ({} if resumes else {'a': TWO_LATER})


def test_partial_change_to_an_earlier_end_is_refused() -> None:
    before = extended(FOUR_LATER, a=TWO_LATER)
    moved = dataclasses.replace(before, end_date=NOON + 3 * HOUR)
    with pytest.raises(exceptions.BadRequest, match='does not end later'):
        changes.cancel_early_ends(before, moved, True, NOON)


@pytest.mark.parametrize('status', ['TERMINATING', 'TERMINATED', 'DELETING'])
def test_nothing_joins_what_ends(status: str) -> None:
    with pytest.raises(exceptions.InvalidState, match=f'is {status}'):
        resources.add_reservations(lease(status=status), [reservation()], NOON)


@pytest.mark.parametrize(
    ('status', 'start_done', 'next_at'),
    [
        ('PENDING', False, NOON),
        ('STARTING', False, NOON),
        ('ACTIVE', True, NOON + HOUR),
        ('ERROR', True, NOON + HOUR),
    ],
)
def test_what_joins_a_lease_that_has_started_is_woken_now(
    status: str, start_done: bool, next_at: object
) -> None:
    one = lease(reservation('a', 'active'), status=status)
    if start_done:
        one = one.with_events(transitions.complete_event(event(one, model.START), None, NOON))
    change = resources.add_reservations(one, [reservation('b')], NOON + HOUR)
    assert [r.id for r in change.lease.reservations] == ['a', 'b']
    assert event(change.lease, model.START).next_at == next_at
    assert change.notifications == {'lease.update': None}


def test_what_joins_comes_after_all_that_the_lease_has() -> None:
    one = lease(reservation('a', made_at=NOON))
    joining = [reservation('b', made_at=NOON - MINUTE), reservation('c', made_at=NOON + MINUTE)]
    after = resources.add_reservations(one, joining, NOON).lease
    times = [r.created_at for r in after.reservations]
    assert times == sorted(set(times))
    assert times[2] == NOON + MINUTE


@pytest.mark.parametrize(('now', 'prepared'), [(NOON - HOUR, 1), (NOON, 0)])
def test_what_joins_before_the_start_is_prepared(now: datetime.datetime, prepared: int) -> None:
    after = resources.add_reservations(lease(), [reservation('b')], now, {'b': None}).lease
    assert len(after.events_of(model.PREPARE, reservation_id='b')) == prepared


THING = reservation(on_end='stop', size='1')


@pytest.mark.parametrize('status', ['pending', 'active', 'error'])
def test_the_new_value_takes_the_place_of_the_old(status: str) -> None:
    one = lease(reservation(status=status, on_end='stop', size='1'))
    change = resources.change_reservation(one, 'thing', {'on_end': 'delete'}, NOON + HOUR)
    assert change.lease.reservations[0].params == {'on_end': 'delete', 'size': '1'}
    assert change.lease.reservations[0].updated_at == NOON + HOUR
    assert change.notifications == {'lease.update': None}


@pytest.mark.parametrize('status', ['ACTIVE', 'TERMINATED'])
def test_the_same_value_is_no_change(status: str) -> None:
    one = lease(THING, status=status)
    change = resources.change_reservation(one, 'thing', {'on_end': 'stop'}, NOON)
    assert (change.lease, change.notifications) == (one, {})


@pytest.mark.parametrize(
    ('lease_status', 'status'),
    [
        ('TERMINATING', 'active'),
        ('TERMINATED', 'deleted'),
        ('DELETING', 'active'),
        ('ACTIVE', 'deleting'),
        ('ACTIVE', 'deleted'),
    ],
)
def test_nothing_changes_after_its_end_has_begun(lease_status: str, status: str) -> None:
    one = lease(reservation(status=status, on_end='stop'), status=lease_status)
    with pytest.raises(exceptions.InvalidState, match='has started'):
        resources.change_reservation(one, 'thing', {'on_end': 'delete'}, NOON)


def test_what_the_lease_does_not_have() -> None:
    with pytest.raises(exceptions.ReservationNotFound, match='no reservation other'):
        resources.change_reservation(lease(THING), 'other', {}, NOON)


@pytest.mark.parametrize('status', ['pending', 'active', 'error'])
def test_one_reservation_is_freed_now(status: str) -> None:
    one = lease(reservation('a', status), reservation('b'))
    change = resources.remove_reservation(one, 'a', NOON)
    after = change.lease
    assert [r.status for r in after.reservations] == ['deleting', 'pending']
    due = event(after, model.END_RESERVATION)
    assert (due.reservation_id, due.next_at) == ('a', NOON)
    assert change.notifications == {'lease.update': None}
    again = resources.remove_reservation(after, 'a', NOON)
    assert (again.lease, again.notifications) == (after, {})


def test_reservation_that_ends_early_is_freed_now_by_that_event() -> None:
    one = lease(reservation('a', 'active'), reservation('b', 'active'), status='ACTIVE')
    over = model.new_event('lease', model.END_RESERVATION, NOON, NOON, 'a')
    over = dataclasses.replace(over, status='DONE', next_at=None)
    early = model.new_event('lease', model.END_RESERVATION, NOON + HOUR, NOON, 'a')
    other = model.new_event('lease', model.END_RESERVATION, NOON + HOUR, NOON, 'b')
    after = resources.remove_reservation(one.with_events(over, early, other), 'a', NOON).lease
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
        resources.remove_reservation(one, reservation_id, NOON)


def test_lease_that_is_to_give_way_keeps_what_it_gives_up() -> None:
    one = lease(reservation('a', 'active'), status='ACTIVE', preemptible=True)
    one = one.with_events(model.new_event('lease', model.PREEMPT, NOON + HOUR, NOON))
    with pytest.raises(exceptions.InvalidState, match='is preempted on 2082-12-01 13:00'):
        resources.remove_reservation(one, 'a', NOON)


def test_reservation_of_a_lease_that_was_given_up_is_removed() -> None:
    one = lease(reservation('a', 'error'), status='TIMEDOUT')
    after = resources.remove_reservation(one, 'a', NOON).lease
    assert after.get_reservation('a').status == 'deleting'


def test_it_is_not_prepared_any_more() -> None:
    one = lease(reservation('a'), reservation('b'), start=NOON + HOUR)
    one = preparation.add_preparations(one, {'a': None, 'b': None}, NOON)
    after = resources.remove_reservation(one, 'a', NOON).lease
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
    after = resources.remove_reservation(one.with_events(start), 'a', NOON).lease
    assert event(after, model.START).next_at == NOON + minutes * MINUTE
