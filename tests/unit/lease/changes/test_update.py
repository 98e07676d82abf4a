# SPDX-License-Identifier: Apache-2.0
"""A user changes a lease, and its events move with it."""

import dataclasses
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import changes, model, transitions
from tests.support.leases import HOUR, MINUTE, NOON, event, lease, reservation

NOW = NOON - HOUR
ONE = lease(
    reservation(colour='grey'),
    now=NOW,
    before_end_date=NOON + HOUR,
    given=[('note', NOON + MINUTE)],
)
ONE_, TWO, FOUR = '2026-12-01 13:00', '2026-12-01 14:00', '2026-12-01 16:00'


def update(one: model.Lease, now: Any = NOW, **values: Any) -> transitions.Change:
    return changes.update_lease(one, values, now, changes.UpdateRules(300))


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
        ({'before_end_notification': TWO}, {'before_end_date': NOON + 2 * HOUR}),
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
    given = [{'event_type': 'note', 'time': '2026-12-01 12:01'}]
    assert update(ONE, events=given).lease == ONE
    assert update(ONE, events=given * 2).lease.events_of('note')[0] == note
    assert update(ONE, events=[]).lease.events_of('note') == ()


@pytest.mark.parametrize(
    ('fields', 'values', 'error', 'field'),
    [
        ({}, {'status': 'ACTIVE'}, exceptions.BadRequest, 'status'),
        ({}, {'end_date': FOUR, 'duration': '1h'}, exceptions.BadRequest, 'duration'),
        ({}, {'end_date': '2026-12-01 10:00'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'end_date': 'soon'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'before_end_date': '2026-12-01 14:01'}, exceptions.InvalidDate, 'before_end_date'),
        ({}, {'name': ''}, exceptions.BadRequest, 'name'),
        ({}, {'end_date': '2026-12-01 12:00'}, exceptions.InvalidDate, 'end_date'),
        ({}, {'start_date': '2026-12-01 10:00'}, exceptions.InvalidDate, 'start_date'),
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
                ('late', '2026-12-01 10:00', exceptions.InvalidDate, 'time'),
                ('later', '2026-12-01 20:00', exceptions.InvalidDate, 'time'),
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
