# SPDX-License-Identifier: Apache-2.0
"""Lost resources, failed hosts, and starts that will fail."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from climate_core.lease import model, resources, transitions
from climate_core.lease.events import start
from climate_core.lease.events.start import START_WARNING
from climate_core.lease.transitions import Change
from tests.support.leases import HOUR, NOON, claimed, event, lease, reservation

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
    change = resources.record_lost(one, {'m': LOST}, NOON + HOUR)
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
    change = resources.record_lost(one, {'m': LOST}, NOON)
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
    after = resources.record_lost(one, {'m': LOST}, NOON).lease
    assert (_of(after, 'm').status, after.degraded) == ('deleted', lost)
    assert after.status_reason == (f't m: {LOST}' if lost else None)


def test_a_stack_that_is_lost_with_its_members() -> None:
    one = _lease(active(STACK), active('m', parent_id=STACK), active('n'))
    after = resources.record_lost(one, {STACK: 'It was deleted.', 'm': LOST}, NOON).lease
    assert [r.missing_resources for r in after.reservations] == [True, False, False]
    assert after.status_reason == f't {STACK}: It was deleted.'


def test_what_could_not_be_prepared_loses_no_members() -> None:
    stack = active(STACK, 'error', 'No room.')
    one = _lease(stack, active('m', 'pending', parent_id=STACK), status='ERROR')
    failed = dataclasses.replace(
        model.new_event('lease', model.PREPARE, NOON, NOON, STACK), status='ERROR'
    )
    one = dataclasses.replace(one, status_reason='No room.').with_events(failed)
    after = resources.record_lost(one, {'m': LOST, STACK: 'It was deleted.'}, NOON - HOUR).lease
    assert (after.status, after.status_reason, after.degraded) == ('ERROR', 'No room.', False)


def test_a_lease_is_well_when_a_failed_member_goes() -> None:
    broken = active('m', 'error', 'No valid host.', parent_id=STACK)
    one = _lease(active(STACK), broken, status='ERROR')
    one = dataclasses.replace(one, status_reason='t m: No valid host.')
    after = resources.record_lost(one, {'m': LOST}, NOON + HOUR).lease
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
    change = resources.record_lost(_lease(*held, status=status), {'m': LOST}, NOON)
    assert (change.lease.status, change.lease.degraded) == (becomes, True)
    assert change.lease.status_reason == f't m: {LOST}'
    told = ['lease.update'] if others else ['lease.update', 'lease.event.end_lease']
    told = ['lease.event.end_lease', 'lease.delete'] if status == 'DELETING' else told
    assert list(change.notifications) == told


def test_what_is_being_taken_out_is_not_lost() -> None:
    one = _lease(active('m', 'deleting'), active('n'))
    assert resources.record_lost(one, {'m': LOST}, NOON).lease == one


DOWN = 'failed, and no other is free. It is down.'
MISSING = f'Host a {DOWN}'
REPLACED = 'Host a was replaced by b, c.'
BOTH = f'{REPLACED} Host d {DOWN}'
NEW = {'a': ['b', 'c']}


def apply(
    one: model.Lease, replaced: Mapping[str, Sequence[str]], missing: Mapping[str, str]
) -> Change:
    return resources.record_host_replacement(one, 'thing', replaced, missing, NOON)


def lacking(reason: str = MISSING, status: str = 'PENDING') -> model.Lease:
    """Return a lease to begin in an hour that lacks a host."""
    thing = dataclasses.replace(reservation(reason=reason), missing_resources=True)
    told = f't thing: {reason}'
    return lease(thing, start=NOON + HOUR, status=status, degraded=True, status_reason=told)


@pytest.mark.parametrize(
    ('before', 'replaced', 'missing', 'reason', 'lacks', 'told'),
    [
        (lease(reservation(), start=NOON + HOUR), NEW, {}, REPLACED, False, REPLACED),
        (lease(reservation(), start=NOON + HOUR), {}, {'a': DOWN}, MISSING, True, MISSING),
        (lease(reservation(), start=NOON + HOUR), NEW, {'d': DOWN}, BOTH, True, BOTH),
        (lacking(), NEW, {}, REPLACED, False, REPLACED),
        (lacking(), NEW, {'d': DOWN}, BOTH, True, BOTH),
        (lacking(), {}, {}, None, False, 'All of its hosts are available again.'),
        # What is missing already is not told again.
        (lacking('Host a and others.'), {}, {'a': DOWN}, MISSING, True, None),
    ],
)
def test_lease_before_its_start_follows_a_failed_unit(
    before: model.Lease,
    replaced: Mapping[str, Sequence[str]],
    missing: Mapping[str, str],
    reason: str | None,
    lacks: bool,
    told: str | None,
) -> None:
    change = apply(before, replaced, missing)
    after, (thing,) = change.lease, change.lease.reservations
    assert (thing.status_reason, thing.missing_resources) == (reason, lacks)
    assert thing.resources_changed == bool(replaced)
    assert (after.status, after.degraded) == ('PENDING', lacks)
    assert after.status_reason == (f't thing: {reason}' if lacks else None)
    assert after.events == before.events
    assert change.notifications == ({'lease.update': told} if told else {})


@pytest.mark.parametrize(
    ('before', 'missing'), [(lacking(), {'a': DOWN}), (lease(reservation()), {})]
)
def test_nothing_new_is_no_change(before: model.Lease, missing: Mapping[str, str]) -> None:
    assert apply(before, {}, missing) == Change(before)


def test_hosts_of_a_lease_that_runs_are_opened_at_once() -> None:
    after = apply(lease(reservation(status='active'), status='ACTIVE'), NEW, {}).lease
    due = event(after, model.REALLOCATE)
    assert (due.reservation_id, due.next_at) == ('thing', NOON)
    after = apply(lease(reservation(status='active'), status='ACTIVE'), {}, {'a': DOWN}).lease
    assert after.event(model.REALLOCATE) is None


def test_what_a_start_waits_for_stays_told() -> None:
    after = apply(lacking(status='STARTING'), NEW, {}).lease
    assert (after.degraded, after.status_reason) == (False, f't thing: {MISSING}')


def test_lease_that_waits_for_its_user_says_so_again() -> None:
    one = dataclasses.replace(lacking(), start_policy='manual')
    ready = dataclasses.replace(event(one, model.START), event_type=model.READY)
    one = one.with_events(transitions.complete_event(ready, None, NOON))
    assert apply(one, NEW, {}).lease.status_reason == 'Waiting to be started by its user.'


def test_lease_that_lost_something_else_stays_degraded() -> None:
    lost = dataclasses.replace(
        reservation('other', 'deleted', 'It is gone.'), missing_resources=True
    )
    one = lacking()
    one = dataclasses.replace(one, reservations=(*one.reservations, lost))
    after = apply(one, NEW, {}).lease
    assert (after.degraded, after.status_reason) == (True, 't other: It is gone.')


TOLD = 'The start will fail: The trust is no more.'


def _told(**fields: Any) -> model.Lease:
    return lease(reservation(), status_reason=TOLD, **fields)


def test_what_will_fail_is_told() -> None:
    before = lease(reservation())
    change = start.record_start_warning(before, 'The trust is no more.')
    assert change.lease == dataclasses.replace(before, status_reason=TOLD)
    assert change.notifications == {START_WARNING: TOLD}


def test_what_is_told_already_is_not_told_again() -> None:
    before = _told()
    change = start.record_start_warning(before, 'It is disabled.')
    assert change.lease is before
    assert change.notifications == {}


def test_what_will_not_fail_any_more_is_told() -> None:
    change = start.record_start_warning(_told(), None)
    assert change.lease.status_reason is None
    assert change.notifications == {'lease.update': start.TRUST_ACCEPTED}


def test_nothing_is_told_where_nothing_was_wrong() -> None:
    before = lease(reservation(), status_reason='Something else.')
    assert start.record_start_warning(before, None).lease is before


def test_what_else_is_wrong_stays_readable() -> None:
    lost = dataclasses.replace(reservation(reason='It is gone.'), missing_resources=True)
    told = start.record_start_warning(lease(lost), 'The trust is no more.').lease
    assert told.status_reason == f'{TOLD} t thing: It is gone.'
    assert start.record_start_warning(told, None).lease.status_reason == 't thing: It is gone.'


@pytest.mark.parametrize(
    'begun',
    [
        claimed(lease(reservation()), model.START)[0],
        lease(reservation(), status='STARTING'),
        lease(reservation(), status='DELETING'),
        lease(reservation(), start_policy='manual'),
    ],
)
def test_start_that_has_begun_or_does_not_come_says_itself_what_becomes_of_it(
    begun: model.Lease,
) -> None:
    assert start.record_start_warning(begun, 'The trust is no more.').lease is begun
