# SPDX-License-Identifier: Apache-2.0
"""What a lease is when resources of it go away."""

import dataclasses
import datetime

import pytest

from climate_core.lease import changes, events, model, results

NOON = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
STACK = 'the-stack'
LOST = 'The server was deleted outside of the lease.'


def _reservation(
    name: str, status: str = 'active', reason: str | None = None, parent_id: str | None = None
):
    made = model.new_reservation('lease', 't', name, {}, NOON, parent_id=parent_id)
    return dataclasses.replace(made, id=name, status=status, status_reason=reason)


def _lease(*things: model.Reservation, status: str = 'ACTIVE', manual: bool = False):
    events = changes.create.first_events(
        'lease', NOON, NOON + 2 * HOUR, None, [], NOON, manual, ()
    )
    return model.Lease(
        *('lease', 'name', 'project', 'user', NOON, NOON + 2 * HOUR, None),
        *(status, None, False, 'trust', 0, NOON, None, None),
        start_policy='manual' if manual else 'auto',
        reservations=things,
        events=events,
    )


def _of(lease: model.Lease, name: str) -> model.Reservation:
    return next(r for r in lease.reservations if r.id == name)


def test_what_a_stack_has_less_is_not_lost() -> None:
    member = _reservation('m', parent_id=STACK)
    lease = _lease(_reservation(STACK), member)
    change = changes.lost_resources.apply(lease, {'m': LOST}, NOON + HOUR)
    after = _of(change.lease, 'm')
    assert (after.status, after.missing_resources) == ('deleted', False)
    assert after.freed_at == NOON + HOUR
    assert (change.lease.status, change.lease.status_reason) == ('ACTIVE', None)
    assert not change.lease.degraded
    assert list(change.notifications) == ['lease.update']
    assert 'by its stack' in str(change.notifications['lease.update'])


@pytest.mark.parametrize('abandoned', [True, False])
def test_what_no_stack_of_the_lease_keeps_is_lost(abandoned: bool) -> None:
    stack = _reservation(STACK, 'deleted') if abandoned else _reservation('other')
    stack = dataclasses.replace(stack, missing_resources=abandoned)
    lease = _lease(stack, _reservation('m', parent_id=STACK), _reservation('n'))
    change = changes.lost_resources.apply(lease, {'m': LOST}, NOON)
    assert _of(change.lease, 'm').missing_resources
    assert change.lease.degraded
    assert change.lease.status_reason == f't m: {LOST}'


@pytest.mark.parametrize(
    ('status', 'freed', 'lost'),
    [
        ('deleting', None, False),
        ('deleted', 0, False),
        ('deleted', 30, False),
        ('deleted', 90, True),
    ],
)
def test_what_went_with_its_stack_is_not_lost(status: str, freed: int | None, lost: bool) -> None:
    # What stays when a stack is freed may be deleted long after it.
    at = None if freed is None else NOON - datetime.timedelta(minutes=freed)
    stack = dataclasses.replace(_reservation(STACK, status), freed_at=at)
    lease = _lease(stack, _reservation('m', parent_id=STACK), _reservation('n'))
    after = changes.lost_resources.apply(lease, {'m': LOST}, NOON).lease
    assert (_of(after, 'm').status, after.degraded) == ('deleted', lost)
    assert after.status_reason == (f't m: {LOST}' if lost else None)


def test_a_stack_that_is_lost_with_its_members() -> None:
    lease = _lease(_reservation(STACK), _reservation('m', parent_id=STACK), _reservation('n'))
    after = changes.lost_resources.apply(lease, {STACK: 'It was deleted.', 'm': LOST}, NOON).lease
    assert [r.missing_resources for r in after.reservations] == [True, False, False]
    assert after.status_reason == f't {STACK}: It was deleted.'


def test_what_could_not_be_prepared_loses_no_members() -> None:
    stack = _reservation(STACK, 'error', 'No room.')
    lease = _lease(stack, _reservation('m', 'pending', parent_id=STACK), status='ERROR')
    failed = dataclasses.replace(
        model.new_event('lease', model.PREPARE, NOON, NOON, STACK), status='ERROR'
    )
    lease = dataclasses.replace(lease, status_reason='No room.').with_events(failed)
    after = changes.lost_resources.apply(
        lease, {'m': LOST, STACK: 'It was deleted.'}, NOON - HOUR
    ).lease
    assert (after.status, after.status_reason, after.degraded) == ('ERROR', 'No room.', False)


def test_a_lease_is_well_when_a_failed_member_goes() -> None:
    broken = _reservation('m', 'error', 'No valid host.', parent_id=STACK)
    lease = _lease(_reservation(STACK), broken, status='ERROR')
    lease = dataclasses.replace(lease, status_reason='t m: No valid host.')
    after = changes.lost_resources.apply(lease, {'m': LOST}, NOON + HOUR).lease
    assert (after.status, after.status_reason) == ('ACTIVE', None)


def _failing(lease: model.Lease, name: str) -> tuple[model.Lease, model.Event]:
    event = model.new_event('lease', model.PREPARE, NOON, NOON, name)
    return lease.with_events(event), event


def test_a_manual_lease_goes_on_waiting_when_all_is_prepared() -> None:
    lease = _lease(_reservation(STACK, 'pending', 'Heat is away.'), status='PENDING', manual=True)
    ready = lease.event(model.READY)
    assert ready is not None
    lease = events.of(ready.event_type).settle(lease, ready, {ready.id: results.DONE}, NOON).lease
    assert lease.status_reason == results.WAITS_FOR_USER
    lease, event = _failing(lease, STACK)
    after = events.of(model.PREPARE).settle(lease, event, {STACK: results.DONE}, NOON).lease
    assert after.status_reason == results.WAITS_FOR_USER


def test_what_was_taken_out_is_blamed_no_more() -> None:
    things = [_reservation(name, 'error', f'No room for {name}.') for name in ('one', 'two')]
    lease = _lease(*things, status='ERROR')
    lease = dataclasses.replace(lease, status_reason=results.summarize_errors(things))
    event = model.new_event('lease', model.END_RESERVATION, NOON, NOON, 'one')
    lease = lease.with_events(event)
    after = events.of(event.event_type).settle(lease, event, {'one': results.DONE}, NOON).lease
    assert (after.status, after.status_reason) == ('ERROR', 't two: No room for two.')
