# SPDX-License-Identifier: Apache-2.0
"""Leases of the kind retry whose servers found no room after the grant."""

import dataclasses

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import preparation, queue
from climate_core.lease.model import Event, Lease
from tests.support.leases import HOUR, NOON, event, lease, reservation

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
