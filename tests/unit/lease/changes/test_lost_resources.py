# SPDX-License-Identifier: Apache-2.0
"""What a lease is when resources of it go away."""

import dataclasses
import datetime

import pytest

from climate_core.lease import failures, model
from tests.support.leases import HOUR, NOON, lease, reservation

STACK = 'the-stack'
LOST = 'The server was deleted outside of the lease.'


def active(
    name: str, status: str = 'active', reason: str | None = None, parent_id: str | None = None
) -> model.Reservation:
    return reservation(name, status, reason, parent_id=parent_id)


def _lease(*things: model.Reservation, status: str = 'ACTIVE') -> model.Lease:
    return lease(reservations=things, status=status)


def _of(one: model.Lease, name: str) -> model.Reservation:
    return next(r for r in one.reservations if r.id == name)


def test_what_a_stack_has_less_is_not_lost() -> None:
    member = active('m', parent_id=STACK)
    one = _lease(active(STACK), member)
    change = failures.record_lost(one, {'m': LOST}, NOON + HOUR)
    after = _of(change.lease, 'm')
    assert (after.status, after.missing_resources) == ('deleted', False)
    assert after.freed_at == NOON + HOUR
    assert (change.lease.status, change.lease.status_reason) == ('ACTIVE', None)
    assert not change.lease.degraded
    assert list(change.notifications) == ['lease.update']
    assert 'by its stack' in str(change.notifications['lease.update'])


@pytest.mark.parametrize('abandoned', [True, False])
def test_what_no_stack_of_the_lease_keeps_is_lost(abandoned: bool) -> None:
    stack = active(STACK, 'deleted') if abandoned else active('other')
    stack = dataclasses.replace(stack, missing_resources=abandoned)
    one = _lease(stack, active('m', parent_id=STACK), active('n'))
    change = failures.record_lost(one, {'m': LOST}, NOON)
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
    stack = dataclasses.replace(active(STACK, status), freed_at=at)
    one = _lease(stack, active('m', parent_id=STACK), active('n'))
    after = failures.record_lost(one, {'m': LOST}, NOON).lease
    assert (_of(after, 'm').status, after.degraded) == ('deleted', lost)
    assert after.status_reason == (f't m: {LOST}' if lost else None)


def test_a_stack_that_is_lost_with_its_members() -> None:
    one = _lease(active(STACK), active('m', parent_id=STACK), active('n'))
    after = failures.record_lost(one, {STACK: 'It was deleted.', 'm': LOST}, NOON).lease
    assert [r.missing_resources for r in after.reservations] == [True, False, False]
    assert after.status_reason == f't {STACK}: It was deleted.'


def test_what_could_not_be_prepared_loses_no_members() -> None:
    stack = active(STACK, 'error', 'No room.')
    one = _lease(stack, active('m', 'pending', parent_id=STACK), status='ERROR')
    failed = dataclasses.replace(
        model.new_event('lease', model.PREPARE, NOON, NOON, STACK), status='ERROR'
    )
    one = dataclasses.replace(one, status_reason='No room.').with_events(failed)
    after = failures.record_lost(one, {'m': LOST, STACK: 'It was deleted.'}, NOON - HOUR).lease
    assert (after.status, after.status_reason, after.degraded) == ('ERROR', 'No room.', False)


def test_a_lease_is_well_when_a_failed_member_goes() -> None:
    broken = active('m', 'error', 'No valid host.', parent_id=STACK)
    one = _lease(active(STACK), broken, status='ERROR')
    one = dataclasses.replace(one, status_reason='t m: No valid host.')
    after = failures.record_lost(one, {'m': LOST}, NOON + HOUR).lease
    assert (after.status, after.status_reason) == ('ACTIVE', None)


@pytest.mark.parametrize(
    ('status', 'others', 'becomes'),
    [
        ('ERROR', ['active'], 'ACTIVE'),
        ('ERROR', ['active', 'error'], 'ERROR'),
        ('ACTIVE', ['active'], 'ACTIVE'),
        ('ACTIVE', [], 'TERMINATED'),
        ('DELETING', [], 'TERMINATED'),
    ],
)
def test_a_lease_that_loses_what_failed(status: str, others: list[str], becomes: str) -> None:
    held = [active('m', 'error', 'No room.'), *(active(str(n), s) for n, s in enumerate(others))]
    change = failures.record_lost(_lease(*held, status=status), {'m': LOST}, NOON)
    assert (change.lease.status, change.lease.degraded) == (becomes, True)
    assert change.lease.status_reason == f't m: {LOST}'
    told = ['lease.update'] if others else ['lease.update', 'lease.event.end_lease']
    told = ['lease.event.end_lease', 'lease.delete'] if status == 'DELETING' else told
    assert list(change.notifications) == told


def test_what_is_being_taken_out_is_not_lost() -> None:
    one = _lease(active('m', 'deleting'), active('n'))
    assert failures.record_lost(one, {'m': LOST}, NOON).lease == one
