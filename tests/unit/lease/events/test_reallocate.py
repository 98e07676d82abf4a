# SPDX-License-Identifier: Apache-2.0
"""A resource of a lease that runs follows the calendar; what fails leaves the lease as it is."""

import dataclasses

import pytest

from climate_core.lease import events, model, transitions
from climate_core.lease.events import start
from tests.support.leases import HOUR, NOON, event, lease, reservation

HANDLER = events.get_handler(model.REALLOCATE)
FAILED = transitions.Outcome(transitions.Result.FAILED, reason='No such lane.')
AWAY = transitions.Outcome(transitions.Result.RETRY, 2, 'Nova is away.')
WAIT = transitions.Outcome(transitions.Result.WAIT, 5)
BUSY = transitions.Outcome(transitions.Result.WAIT, 5, 'It is busy.')


def running(
    status: str = 'ACTIVE', held: str = 'active', reason: str | None = None
) -> tuple[model.Lease, model.Event]:
    """Return a lease of one reservation that follows the calendar, and the event that does so."""
    one = start.add_reallocations(
        lease(reservation('thing', held), status=status, status_reason=reason), ['thing'], NOON
    )
    return one, event(one, model.REALLOCATE)


@pytest.mark.parametrize(
    ('status', 'held', 'hours', 'skipped'),
    [
        ('ACTIVE', 'active', 0, False),
        ('STARTING', 'pending', 0, False),
        ('ERROR', 'active', 0, False),
        ('ERROR', 'error', 0, True),
        ('ACTIVE', 'deleting', 0, True),
        ('ACTIVE', 'deleted', 0, True),
        ('ACTIVE', 'active', 2, True),
        ('TERMINATING', 'active', 0, True),
        ('DELETING', 'active', 0, True),
    ],
)
def test_reallocation_is_skipped_unless_the_reservation_runs(
    status: str, held: str, hours: int, skipped: bool
) -> None:
    one, due = running(status, held)
    work = HANDLER.begin(one, due, NOON + hours * HOUR)
    assert (bool(work.skip_reason), len(work.reservations)) == (skipped, 0 if skipped else 1)
    assert work.lease == one


@pytest.mark.parametrize('before', [None, 't thing: Nova is away.'])
@pytest.mark.parametrize(
    ('outcome', 'reason', 'event_status'),
    [
        (transitions.DONE, None, 'DONE'),
        (WAIT, ..., 'UNDONE'),
        (BUSY, 't thing: It is busy.', 'UNDONE'),
        (AWAY, 't thing: Nova is away.', 'UNDONE'),
        (FAILED, 't thing: No such lane.', 'ERROR'),
    ],
)
def test_reallocation_is_settled_by_its_outcome(
    outcome: transitions.Outcome, reason: str | None, event_status: str, before: str | None
) -> None:
    one, due = running(reason=before)
    change = HANDLER.settle(one, due, {'thing': outcome}, NOON)
    expected = before if reason is ... else reason
    assert (change.lease.status, change.lease.status_reason) == ('ACTIVE', expected)
    assert change.lease.reservations == one.reservations
    assert event(change.lease, model.REALLOCATE).status == event_status
    assert change.notifications == ({'lease.update': outcome.reason} if outcome is FAILED else {})


def test_what_is_lost_is_told_with_the_trouble_and_after_it() -> None:
    one, due = running()
    lost = reservation('other', 'deleted', 'It is gone.')
    lost = dataclasses.replace(lost, missing_resources=True)
    one = dataclasses.replace(one, reservations=(*one.reservations, lost))
    after = HANDLER.settle(one, due, {'thing': AWAY}, NOON).lease
    assert after.status_reason == 't other: It is gone.; t thing: Nova is away.'
    after = HANDLER.settle(after, due, {'thing': transitions.DONE}, NOON).lease
    assert after.status_reason == 't other: It is gone.'


@pytest.mark.parametrize(('status', 'held'), [('STARTING', 'pending'), ('ERROR', 'active')])
def test_other_reasons_of_the_lease_stay(status: str, held: str) -> None:
    one, due = running(status, held, 't other: why')
    after = HANDLER.settle(one, due, {'thing': FAILED}, NOON).lease
    assert after.status_reason == 't other: why'


def test_what_came_of_it_is_too_late() -> None:
    one, due = running(held='deleting')
    after = HANDLER.settle(one, due, {'thing': FAILED}, NOON).lease
    assert (after.reservations, after.status_reason) == (one.reservations, None)
    assert event(after, model.REALLOCATE).status == 'DONE'


@pytest.mark.parametrize('status', ['DONE', 'ERROR', 'IN_PROGRESS'])
def test_add_does_it_once_more_and_supersedes_a_claim(status: str) -> None:
    one, due = running()
    ended = transitions.complete_event(due, None, NOON)
    one = one.with_events(dataclasses.replace(ended, status=status, generation=3))
    (again,) = start.add_reallocations(one, ['thing'], NOON + HOUR).events_of(model.REALLOCATE)
    assert (again.status, again.generation, again.next_at) == ('UNDONE', 4, NOON + HOUR)
