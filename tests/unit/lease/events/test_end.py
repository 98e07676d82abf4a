# SPDX-License-Identifier: Apache-2.0
"""The end of a lease or a reservation: end, cancellation, deletion and cleanup."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import end, schedule
from climate_core.lease.transitions import DONE, Outcome, Result
from tests.support.leases import HOUR, MINUTE, NOON, claimed, event, lease, reservation

HANDLER = events.get_handler(model.END)
REMOVAL = events.get_handler(model.END_RESERVATION)
WAIT = Outcome(Result.WAIT, 5)
RETRY = Outcome(Result.RETRY, 2, 'Nova is away.')


def _with(one: model.Lease, *types: str) -> model.Lease:
    return one.with_events(*(model.new_event('lease', t, NOON, NOON, 'thing') for t in types))


@pytest.mark.parametrize(
    ('status', 'becomes'),
    [
        ('PENDING', 'TERMINATING'),
        ('STARTING', 'TERMINATING'),
        ('ACTIVE', 'TERMINATING'),
        ('ERROR', 'TERMINATING'),
        ('TERMINATING', 'TERMINATING'),
        ('DELETING', 'DELETING'),
    ],
)
def test_end_begins_with_its_reservations(status: str, becomes: str) -> None:
    one = _with(lease(reservation(), status=status), model.END_RESERVATION, model.PREPARE, 'note')
    one, event_ = claimed(one, model.END)
    work = HANDLER.begin(one, event_, one.end_date)
    assert (work.lease.status, len(work.reservations)) == (becomes, 1)
    assert {e.event_type for e in work.lease.events if e.open} == {model.END, 'note'}
    told = status not in ('TERMINATING', 'DELETING')
    why = 'The lease ended before it could be started.'
    assert work.notifications == ({'lease.event.start_lease.error': why} if told else {})


@pytest.mark.parametrize(
    ('params', 'told'),
    [
        ({'on_end': 'migrate'}, 'The servers on its hosts are migrated.'),
        ({'grace': 60}, 'The servers on its hosts are deleted at 2082-12-01 14:01 UTC.'),
        ({'grace': 0}, None),
    ],
)
@pytest.mark.parametrize('status', ['ACTIVE', 'DELETING'])
def test_grace_of_servers_is_told_once(
    status: str, params: Mapping[str, Any], told: str | None
) -> None:
    hosts = reservation(status='active', **params)
    hosts = dataclasses.replace(hosts, unit_kind='host', woken_at=NOON)
    one, event_ = claimed(lease(hosts, status=status), model.END)
    started = transitions.complete_event(event(one, model.START), None, NOON)
    work = HANDLER.begin(one.with_events(started), event_, one.end_date)
    assert work.notifications == ({'lease.update': told} if told and status == 'ACTIVE' else {})


@pytest.mark.parametrize(
    ('status', 'reason', 'why'),
    [
        ('STARTING', None, end.NEVER_AWAKE),
        ('PENDING', None, end.NEVER_AWAKE),
        ('STARTING', 'Nova is away.', 'Nova is away.'),
    ],
)
def test_a_lease_that_was_not_active_says_so_for_ever(
    status: str, reason: str | None, why: str
) -> None:
    asleep = reservation(reason=reason)
    one, event_ = claimed(lease(asleep, status=status), model.END)
    begun = HANDLER.begin(one, event_, one.end_date).lease
    told = f'{asleep.resource_type} {asleep.resource_id}: {why}'
    assert (begun.status, begun.status_reason) == ('TERMINATING', told)
    after = HANDLER.settle(begun, event_, {asleep.id: DONE}, one.end_date).lease
    assert (after.status, after.status_reason) == ('TERMINATED', told)
    (freed,) = after.reservations
    assert (freed.status, freed.status_reason, freed.woken_at) == ('deleted', why, None)


def test_begin_of_what_is_over() -> None:
    one, event_ = claimed(lease(reservation(status='deleted'), status='TERMINATED'), model.END)
    assert HANDLER.begin(one, event_, NOON).skip_reason == 'The lease has ended.'


def test_begin_of_what_was_started_tells_no_error() -> None:
    one = lease(reservation(status='active'), status='ACTIVE')
    one = one.with_events(transitions.complete_event(event(one, model.START), None, NOON))
    one, event_ = claimed(one, model.END)
    assert HANDLER.begin(one, event_, NOON).notifications == {}


@pytest.mark.parametrize(
    ('status', 'outcomes', 'becomes', 'reason', 'told'),
    [
        ('TERMINATING', [DONE, DONE], 'TERMINATED', None, ['lease.event.end_lease']),
        ('DELETING', [DONE, DONE], 'TERMINATED', None, ['lease.event.end_lease', 'lease.delete']),
        ('TERMINATING', [DONE, WAIT], 'TERMINATING', None, []),
        ('TERMINATING', [RETRY, WAIT], 'TERMINATING', 't a: Nova is away.', []),
        ('TERMINATING', [DONE, None], 'TERMINATING', None, []),
    ],
)
def test_end_is_settled_by_its_outcomes(
    status: str, outcomes: list[Outcome | None], becomes: str, reason: str, told: list[str]
) -> None:
    held = [reservation(each, 'active') for each in 'ab']
    one, event_ = claimed(lease(*held, status=status), model.END)
    one = one.with_events(transitions.complete_event(event(one, model.START), None, NOON))
    given = {key: o for key, o in zip('ab', outcomes, strict=True) if o is not None}
    change = HANDLER.settle(one, event_, given, NOON + HOUR)
    after = change.lease
    assert (after.status, after.status_reason) == (becomes, reason)
    assert list(change.notifications) == told
    assert (after.deleted_at is not None) == ('lease.delete' in told)
    assert [r.freed_at for r in after.reservations if not r.live] == [
        NOON + HOUR for o in outcomes if o is DONE
    ]
    over = becomes == 'TERMINATED'
    assert {e.event_type for e in after.events if e.open} == (
        {model.RELEASE_TRUST} if over else {model.END}
    )


def test_settle_keeps_why_a_resource_was_not_woken() -> None:
    one, event_ = claimed(lease(reservation('a', 'error', 'No image.'), status='ERROR'), model.END)
    one = dataclasses.replace(one, status='TERMINATING')
    after = HANDLER.settle(one, event_, {'a': RETRY}, NOON).lease
    assert after.status_reason == 't a: Nova is away.'
    after = HANDLER.settle(after, event(after, model.END), {'a': DONE}, NOON).lease
    assert (after.status_reason, after.reservations[0].status) == ('t a: No image.', 'deleted')


@pytest.mark.parametrize(
    ('kind', 'why', 'reservations', 'reason'),
    [
        ('auto', None, ['active'], None),
        ('auto', end.CANCELLED, ['pending'], end.CANCELLED),
        ('manual', None, ['pending'], end.NOT_STARTED),
        ('manual', end.CANCELLED, ['pending'], end.CANCELLED),
        ('auto', None, ['error'], 't 0: why'),
        ('manual', None, ['error'], 't 0: why'),
    ],
)
def test_end_reason_says_what_was_not_served(
    kind: str, why: str | None, reservations: list[str], reason: str | None
) -> None:
    held = (
        reservation(str(n), s, 'why' if s == 'error' else None) for n, s in enumerate(reservations)
    )
    one = lease(*held, start_policy=kind)
    start = one.events_of(model.START, model.READY)[0]
    one = one.with_events(transitions.cancel_event(start, why, NOON))
    assert end.end_reason(one) == reason


def test_end_reason_forgets_what_was_taken_out() -> None:
    one = _with(lease(reservation('thing', 'deleted', 'why')), model.END_RESERVATION)
    assert end.end_reason(one) is None


def test_due_now_leaves_an_end_that_is_worked_on() -> None:
    one = lease(end=NOON + HOUR)
    due = end.end_now(one, NOON)
    assert (due.next_at, due.generation) == (NOON, 1)
    busy, event_ = claimed(one, model.END)
    assert end.end_now(busy, NOON) == event_
    assert end.end_now(dataclasses.replace(one, events=()), NOON).event_type == model.END


def test_move_follows_the_end() -> None:
    before = lease(end=NOON + HOUR)
    after = dataclasses.replace(before, end_date=NOON + 3 * HOUR)
    assert (
        schedule.follow_dates(event(before, model.END), before, after, NOON).time
        == NOON + 3 * HOUR
    )


def removing(status: str, *others: model.Reservation, **fields: str) -> model.Lease:
    """Return a lease out of which ``a`` is taken."""
    one = lease(reservation('a', 'deleting', 'No image.'), *others, status=status, **fields)
    return one.with_events(model.new_event('lease', model.END_RESERVATION, NOON, NOON, 'a'))


@pytest.mark.parametrize(
    ('status', 'worked_on'),
    [('ACTIVE', ['a']), ('PENDING', ['a']), ('TERMINATING', []), ('DELETING', [])],
)
def test_begin_of_a_removal(status: str, worked_on: list[str]) -> None:
    one = removing(status, reservation('b', 'active'))
    work = REMOVAL.begin(one, event(one, model.END_RESERVATION), NOON)
    assert [r.id for r in work.reservations] == worked_on
    assert bool(work.skip_reason) == (not worked_on)


@pytest.mark.parametrize(
    ('status', 'others', 'becomes', 'reason'),
    [
        ('ACTIVE', [reservation('b', 'active')], 'ACTIVE', None),
        ('ERROR', [reservation('b', 'active')], 'ACTIVE', None),
        ('ERROR', [reservation('b', 'error', 'No room.')], 'ERROR', 't b: No room.'),
        ('ERROR', [reservation('b', 'pending')], 'ERROR', None),
        ('PENDING', [], 'PENDING', None),
    ],
)
def test_settle_of_a_removal(
    status: str, others: list[model.Reservation], becomes: str, reason: str | None
) -> None:
    one = removing(status, *others)
    change = REMOVAL.settle(one, event(one, model.END_RESERVATION), {'a': DONE}, NOON + HOUR)
    after = change.lease
    assert (after.status, after.status_reason) == (becomes, reason)
    assert after.reservations[0].status == 'deleted'
    assert event(after, model.END_RESERVATION).status == 'DONE'
    assert list(change.notifications) == ['lease.update']


def test_removal_before_the_start_recovers_a_pending_lease() -> None:
    one = removing('ERROR', reservation('b'), start_policy='manual')
    one = one.with_events(transitions.complete_event(event(one, model.READY), None, NOON))
    after = REMOVAL.settle(one, event(one, model.END_RESERVATION), {'a': DONE}, NOON).lease
    assert (after.status, after.status_reason) == ('PENDING', transitions.WAITS_FOR_USER)


def test_removal_that_fails_is_retried_and_not_told() -> None:
    one = removing('ACTIVE')
    change = REMOVAL.settle(one, event(one, model.END_RESERVATION), {'a': RETRY}, NOON)
    settled = event(change.lease, model.END_RESERVATION)
    assert (settled.open, settled.attempts, change.notifications) == (True, 1, {})
    assert change.lease.reservations[0].status_reason == 'Nova is away.'


def test_removal_of_what_is_not_there_any_more_is_skipped() -> None:
    one = removing('ACTIVE')
    gone = dataclasses.replace(one.reservations[0], status='deleted')
    one = one.with_reservations(gone)
    assert REMOVAL.begin(one, event(one, model.END_RESERVATION), NOON).skip_reason


def _lease(*held: model.Reservation, **fields: Any) -> model.Lease:
    return lease(
        *held,
        before_end_date=NOON + HOUR,
        given=[('note', NOON + MINUTE)],
        now=NOON - HOUR,
        **fields,
    )


@pytest.mark.parametrize(
    ('status', 'minutes', 'ends', 'told_at', 'reason'),
    [
        ('ACTIVE', 30, 30, 30, None),
        ('ACTIVE', 90, 90, 60, None),
        ('STARTING', 180, 120, 60, None),
        ('PENDING', -30, 120, 60, end.CANCELLED),
        ('PENDING', 0, 120, 60, end.CANCELLED),
    ],
)
def test_what_is_held_is_freed_now(
    status: str, minutes: int, ends: int, told_at: int, reason: str | None
) -> None:
    now = NOON + minutes * MINUTE
    change = end.end_lease(_lease(reservation(), status=status), now)
    after = change.lease
    assert (after.status, after.status_reason) == ('TERMINATING', reason)
    assert (after.end_date, after.before_end_date) == (
        NOON + ends * MINUTE,
        NOON + told_at * MINUTE,
    )
    assert [(e.event_type, e.next_at) for e in after.events if e.open] == [(model.END, now)]
    assert event(after, model.END).time == after.end_date
    assert change.notifications == {'lease.update': None}


def test_what_holds_nothing_is_over_at_once() -> None:
    change = end.end_lease(_lease(), NOON - MINUTE)
    assert (change.lease.status, change.lease.status_reason) == ('TERMINATED', end.CANCELLED)
    assert list(change.notifications) == ['lease.update', end.ENDED]
    assert [e.event_type for e in change.lease.events if e.open] == [model.RELEASE_TRUST]


@pytest.mark.parametrize('status', ['PENDING', 'STARTING', 'ACTIVE', 'ERROR', 'TERMINATING'])
@pytest.mark.parametrize('held', [True, False])
def test_delete_hides_a_lease_when_it_holds_nothing(status: str, held: bool) -> None:
    one = lease(
        reservation(status='active' if held else 'deleted'),
        status=status,
        status_reason='why',
        given=[('note', NOON + HOUR)],
    )
    change = end.delete_lease(one, NOON)
    after = change.lease
    assert after.status == ('DELETING' if held else 'TERMINATED')
    assert after.status_reason == 'why'
    assert after.deleted_at == (None if held else NOON)
    assert list(change.notifications) == ([] if held else ['lease.delete'])
    due = [(e.event_type, e.next_at) for e in after.events if e.open]
    assert due == [(model.END if held else model.RELEASE_TRUST, NOON)]


def test_what_is_being_deleted_is_left_alone() -> None:
    one = end.delete_lease(lease(reservation()), NOON).lease
    assert end.delete_lease(one, NOON + HOUR).lease == one


def test_delete_of_a_lease_that_is_over_hides_it() -> None:
    one = lease(reservation(status='deleted'), status='TERMINATED', trust_id=None, events=())
    after = end.delete_lease(one, NOON).lease
    assert (after.status, after.deleted_at, after.events) == ('TERMINATED', NOON, ())


TYPES = [model.RELEASE_TRUST, model.EXTERNAL_END]


def _over(kind: str) -> model.Lease:
    return lease(status='TERMINATED').with_events(model.new_event('lease', kind, NOON, NOON))


@pytest.mark.parametrize('kind', TYPES)
@pytest.mark.parametrize(
    ('outcome', 'status', 'reason'),
    [
        (DONE, 'DONE', None),
        (Outcome(Result.RETRY, 2, 'away'), 'UNDONE', 'away'),
        (Outcome(Result.FAILED, reason='refused'), 'ERROR', 'refused'),
    ],
)
def test_cleanup_is_settled_without_a_notification(
    kind: str, outcome: Outcome, status: str, reason: str | None
) -> None:
    one = _over(kind)
    due = event(one, kind)
    change = events.get_handler(kind).settle(one, due, {due.id: outcome}, NOON)
    settled = event(change.lease, kind)
    assert (settled.status, settled.status_reason) == (status, reason)
    assert change.notifications == {}
    gone = kind == model.RELEASE_TRUST and outcome is DONE
    assert change.lease.trust_id == (None if gone else 'trust')


def test_a_lease_that_is_over_gives_its_trust_back_once() -> None:
    handler = events.get_handler(model.RELEASE_TRUST)
    after = handler.after_termination(lease(), NOON)
    assert event(after, model.RELEASE_TRUST).next_at == NOON
    assert handler.after_termination(after, NOON) == after
    without = lease(trust_id=None)
    assert handler.after_termination(without, NOON) == without


def test_the_external_service_is_told_when_the_lease_is_over() -> None:
    handler = events.get_handler(model.EXTERNAL_END)
    waiting = lease().with_events(end.new_external_end('lease', NOON))
    assert event(waiting, model.EXTERNAL_END).next_at is None
    due = handler.after_termination(waiting, NOON + HOUR)
    told = event(due, model.EXTERNAL_END)
    assert (told.next_at, told.time) == (NOON + HOUR, NOON + HOUR)
    assert handler.after_termination(due, NOON + 2 * HOUR) == due
