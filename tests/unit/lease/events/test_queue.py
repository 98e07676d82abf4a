# SPDX-License-Identifier: Apache-2.0
"""Queued leases: retries, draining of hosts, grants, and leases that are queued again."""

import dataclasses
import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import events, model, transitions
from climate_core.lease.events import preparation, queue
from climate_core.lease.model import Event, Lease
from climate_core.lease.transitions import Change, Outcome, Result
from tests.support import leases
from tests.support.leases import HOUR, NOON, event, lease, reservation

LATER = NOON + 5 * HOUR


def new(**fields) -> model.Lease:
    one = dataclasses.replace(leases.reservation('r'), amounts={'hosts': 1})
    return leases.lease(one, start=NOON + HOUR, **fields)


def waiting(duration: datetime.timedelta | None = None, **fields) -> model.Lease:
    return queue.queue_lease(new(**fields), 3, duration, 'none is free', NOON, 60.0)


def types(lease: model.Lease) -> list[str]:
    return sorted(each.event_type for each in lease.events if each.open)


@pytest.mark.parametrize(
    ('duration', 'kept'), [(None, [model.END, model.RETRY]), (HOUR, [model.RETRY])]
)
def test_lease_that_waits_holds_nothing_and_is_tried_later(duration, kept) -> None:
    lease = waiting(duration)
    assert (lease.status, lease.status_reason) == ('WAITING', 'none is free')
    assert lease.retries_left == 3
    assert [each.amounts for each in lease.reservations] == [{}]
    assert types(lease) == sorted(kept)
    assert lease.next_retry_at == NOON + datetime.timedelta(seconds=60)


def test_lease_for_which_hosts_are_emptied_counts_for_limits() -> None:
    lease = queue.drain_hosts_for(new(), {'until': 'x'}, HOUR, None, NOON)
    assert (lease.status, types(lease)) == ('IN_PROGRESS', [model.MAKE_ROOM])
    assert [(e.amounts, e.progress) for e in lease.reservations] == [
        ({'hosts': 1}, {'until': 'x'})
    ]
    assert lease.duration == 3600


@pytest.mark.parametrize(
    ('duration', 'now', 'start', 'end'),
    [
        (None, NOON, NOON + HOUR, NOON + 3 * HOUR),
        (None, NOON + 2 * HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR),
        (2 * HOUR, NOON, NOON + HOUR, NOON + 3 * HOUR),
        (2 * HOUR, LATER, LATER, LATER + 2 * HOUR),
    ],
)
def test_grant_moves_a_lease_to_now(duration, now, start, end) -> None:
    change = queue.grant_lease(waiting(duration), {'r': {'hosts': 2}}, now)
    lease = change.lease
    assert (lease.status, lease.start_date, lease.end_date) == ('PENDING', start, end)
    assert (lease.retries_left, lease.duration) == (None, None)
    assert lease.reservations[0].amounts == {'hosts': 2}
    assert types(lease) == sorted([model.START, model.END])
    assert {model.START: start, model.END: end} == {
        each.event_type: each.time for each in lease.events if each.open
    }
    assert change.notifications == {queue.RETRY_GRANTED: None}


def test_grant_of_emptied_hosts_is_told_as_room() -> None:
    lease = queue.drain_hosts_for(new(), {'until': 'x'}, None, None, NOON)
    change = queue.grant_lease(lease, {}, NOON)
    assert change.notifications == {queue.HOSTS_DRAINED: None}
    assert change.lease.reservations[0].progress is None


@pytest.mark.parametrize(
    ('fields', 'text'),
    [
        ({'status': 'TIMEDOUT'}, 'was never granted'),
        ({'status': 'IN_PROGRESS'}, 'Hosts are being drained'),
        ({'status': 'WAITING', 'retries_left': 2}, None),
        ({'status': 'ACTIVE'}, None),
    ],
)
def test_check_not_given_up(fields, text) -> None:
    lease = new(**fields)
    if text is None:
        transitions.check_changeable(lease)
        return
    with pytest.raises(exceptions.InvalidState, match=text):
        transitions.check_changeable(lease)


@pytest.mark.parametrize('duration', [None, HOUR])
def test_try_now_makes_the_next_try_due(duration) -> None:
    lease = queue.retry_now(waiting(duration), LATER)
    assert lease.next_retry_at == LATER
    assert (model.END in types(lease)) is (duration is None)


NONE_FREE = Outcome(Result.WAIT, 60.0, 'none is free')


def waiting_for_retry(retries: int = 1, duration: datetime.timedelta | None = None) -> model.Lease:
    new = leases.lease(leases.reservation('r'), start=NOON + HOUR)
    return queue.queue_lease(new, retries, duration, 'none is free', NOON, 60.0)


def settle(lease: model.Lease, outcome: Outcome, now: datetime.datetime = NOON) -> Change:
    busy, event = leases.claimed(lease, model.RETRY)
    return queue.RetryLease().settle(busy, event, {event.id: outcome}, now)


@pytest.mark.parametrize(
    ('retries', 'outcome', 'status', 'left', 'told'),
    [
        (2, NONE_FREE, 'WAITING', 1, []),
        (1, NONE_FREE, 'WAITING', 0, []),
        (0, NONE_FREE, 'ERROR', 0, [queue.RETRY_FAILED]),
        # Another lease was preferred.
        (None, NONE_FREE, 'WAITING', None, []),
        # What failed for a while is not counted.
        (0, Outcome(Result.RETRY, 5.0, 'away'), 'WAITING', 0, []),
        (2, Outcome(Result.FAILED, reason='no flavor'), 'ERROR', 0, [queue.RETRY_FAILED]),
    ],
)
def test_tries_are_counted_and_the_last_gives_up(retries, outcome, status, left, told) -> None:
    change = settle(waiting_for_retry(retries), outcome)
    assert (change.lease.status, change.lease.retries_left) == (status, left)
    assert [*change.notifications] == told


@pytest.mark.parametrize(
    ('duration', 'now', 'end'),
    [(None, NOON, NOON + 3 * HOUR), (HOUR, NOON + 9 * HOUR, NOON + 10 * HOUR)],
)
def test_lease_that_is_given_up_stays_readable_until_an_end(duration, now, end) -> None:
    lease = settle(waiting_for_retry(0, duration), NONE_FREE, now).lease
    assert lease.never_granted
    assert leases.event(lease, model.END).time == end
    assert [(each.status, each.amounts) for each in lease.reservations] == [('error', {})]


@pytest.mark.parametrize(
    ('outcome', 'status', 'reason', 'progress', 'told'),
    [
        (
            Outcome(Result.WAIT, 2.0, 'moved 1 of 2', {'closed': {}}),
            'IN_PROGRESS',
            'moved 1 of 2',
            {'closed': {}},
            {},
        ),
        (Outcome(Result.RETRY, 2.0), 'IN_PROGRESS', 'full', {'until': 'x'}, {}),
        (
            Outcome(Result.FAILED, reason='too late'),
            'TIMEDOUT',
            'too late',
            {'until': 'x'},
            {queue.DRAIN_TIMED_OUT: 'too late'},
        ),
    ],
)
def test_room_is_made_until_the_time_is_over(outcome, status, reason, progress, told) -> None:
    new = leases.lease(leases.reservation('r'), start=NOON + HOUR)
    lease = queue.drain_hosts_for(new, {'until': 'x'}, None, 'full', NOON)
    busy, event = leases.claimed(lease, model.MAKE_ROOM)
    change = queue.MakeRoom().settle(busy, event, {event.id: outcome}, NOON)
    after = change.lease
    assert (after.status, after.status_reason) == (status, reason)
    assert after.reservations[0].progress == progress
    assert change.notifications == told
    assert leases.event(after, model.MAKE_ROOM).open is (status == 'IN_PROGRESS')


@pytest.mark.parametrize('handler', [queue.RetryLease(), queue.MakeRoom()])
def test_event_of_a_lease_in_another_status_is_skipped(handler: queue.UngrantedEvent) -> None:
    lease = leases.lease(leases.reservation('r'))
    event = model.new_event(lease.id, handler.event_type, NOON, NOON)
    assert handler.begin(lease, event, NOON).skip_reason == handler.obsolete_reason
    after = handler.settle(lease.with_events(event), event, {}, NOON).lease
    assert leases.event(after, handler.event_type).status == 'DONE'


HANDLER = events.get_handler(model.PREPARE)
NO_ROOM = transitions.Outcome(transitions.Result.FAILED, reason='No room.', lacks_capacity=True)
FAILED = dataclasses.replace(NO_ROOM, lacks_capacity=False)


def granted(
    status: str = 'PENDING', retries: int | None = 3, second: str = 'pending', kind: str = 'retry'
) -> tuple[Lease, Event]:
    """Return a lease of two servers of one group, and the event that makes the first."""
    made = [reservation('a', group='g'), reservation('b', second, group='g')]
    made = [
        dataclasses.replace(each, params={model.GROUP: 'g'}, amounts={'vcpus': 1}) for each in made
    ]
    one = lease(*made, status=status, kind=kind, retries_left=retries, duration=3600)
    due = [model.new_event('lease', model.PREPARE, NOON, NOON, each.id) for each in made]
    tried = model.new_event('lease', model.RETRY, NOON - HOUR, NOON - HOUR)
    return one.with_events(*due, dataclasses.replace(tried, status='DONE', next_at=None)), due[0]


@pytest.mark.parametrize('status', ['PENDING', 'STARTING'])
def test_it_waits_again_and_frees_what_was_made(status: str) -> None:
    one, due = granted(status)
    change = HANDLER.settle(one, due, {'a': NO_ROOM}, NOON)
    after = change.lease
    assert (after.status, after.status_reason, after.retries_left) == ('WAITING', 'No room.', 2)
    assert change.notifications == {'lease.update': 'No room.'}
    assert [each.status for each in after.reservations] == ['error', 'error']
    assert queue.is_freeing(after)
    assert after.next_retry_at == NOON + preparation.RETRY_PAUSE
    assert {each.event_type for each in after.events} == {model.PREPARE, model.RETRY}
    assert len(after.events_of(model.RETRY)) == 1
    for each in after.reservations:
        assert HANDLER.plugin_method(after, each) == 'rollback_prepare'


def test_what_is_freed_is_to_be_made_again() -> None:
    one, due = granted()
    after = HANDLER.settle(one, due, {'a': NO_ROOM}, NOON).lease
    for name in ('a', 'b'):
        (freed,) = after.events_of(model.PREPARE, reservation_id=name)
        assert queue.is_freeing(after)
        after = HANDLER.settle(after, freed, {name: transitions.DONE}, NOON).lease
    assert not queue.is_freeing(after)
    for each in after.reservations:
        assert (each.status, each.status_reason, each.amounts) == ('pending', None, {})
        assert not each.is_made
    assert not any(each.open for each in after.events_of(model.PREPARE))


@pytest.mark.parametrize(
    ('outcome', 'fields'),
    [
        (FAILED, {}),
        (NO_ROOM, {'retries': 0}),
        (NO_ROOM, {'retries': None}),
        (NO_ROOM, {'kind': 'scheduled'}),
        (NO_ROOM, {'second': 'active', 'status': 'STARTING'}),
    ],
)
def test_what_cannot_wait_again_is_in_error(outcome: transitions.Outcome, fields: dict) -> None:
    one, due = granted(**fields)
    after = HANDLER.settle(one, due, {'a': outcome}, NOON).lease
    assert after.status == 'ERROR'


def test_start_waits_for_all_of_a_group() -> None:
    one, _ = granted()
    (other,) = one.events_of(model.PREPARE, reservation_id='b')
    one = HANDLER.settle(one, other, {'b': transitions.DONE}, NOON).lease
    work = events.get_handler(model.START).begin(one, event(one, model.START), NOON)
    assert work.reservations == ()


def test_lease_that_runs_does_not_wait_any_more() -> None:
    one, _ = granted('STARTING')
    woken = {each.id: transitions.DONE for each in one.reservations}
    after = events.get_handler(model.START).settle(one, event(one, model.START), woken, NOON).lease
    assert (after.status, after.retries_left, after.duration) == ('ACTIVE', None, None)


GIVE_WAY = dataclasses.replace(NO_ROOM, preempts_others=True)


@pytest.mark.parametrize('kind', ['immediate', 'scheduled'])
@pytest.mark.parametrize(('retries', 'left'), [(None, preparation.PREEMPTOR_RETRIES - 1), (3, 2)])
def test_one_for_which_others_give_way_waits_whatever_its_kind_is(
    kind: str, retries: int | None, left: int
) -> None:
    one, due = granted(retries=retries, kind=kind)
    after = HANDLER.settle(one, due, {'a': GIVE_WAY}, NOON).lease
    assert (after.status, after.retries_left) == ('WAITING', left)


@pytest.mark.parametrize(
    ('outcome', 'retries', 'preemptible'),
    [(NO_ROOM, None, False), (GIVE_WAY, 0, False), (GIVE_WAY, None, True)],
)
def test_one_for_which_nobody_gives_way_fails(
    outcome: transitions.Outcome, retries: int | None, preemptible: bool
) -> None:
    one, due = granted(retries=retries, kind='immediate')
    one = dataclasses.replace(one, preemptible=preemptible)
    assert HANDLER.settle(one, due, {'a': outcome}, NOON).lease.status == 'ERROR'
