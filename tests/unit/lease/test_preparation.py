# SPDX-License-Identifier: Apache-2.0
"""What is prepared before the start, and what others did to the lease meanwhile.

An end, a start and a removal close what prepares; one by a manager of an older version does not.
"""

import dataclasses
import datetime

import pytest

from climate_core.lease import changes, events, model, results

NOON = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
START = NOON + datetime.timedelta(hours=1)
END = NOON + datetime.timedelta(hours=2)
FAILED = results.Outcome(results.Result.FAILED, reason='No room.')


def preparing(
    status: str = 'PENDING', reservation: str = 'pending', reason: str | None = None
) -> tuple[model.Lease, model.Event]:
    """A lease of one reservation that is being prepared."""
    held = dataclasses.replace(
        model.new_reservation('lease', 't', 'thing', {}, NOON),
        id='thing',
        status=reservation,
        status_reason=reason,
    )
    lease = model.Lease(
        *('lease', 'name', 'project', 'user', START, END, None),
        *(status, reason, False, 'trust', 0, NOON, None, None),
        reservations=(held,),
        events=changes.create.first_events('lease', START, END, None, [], NOON, False, ()),
    )
    event = model.new_event('lease', model.PREPARE, NOON, NOON, 'thing')
    return lease.with_events(event), event


def closed(lease: model.Lease) -> model.Event:
    (event,) = [each for each in lease.events if each.event_type == model.PREPARE]
    return event


@pytest.mark.parametrize('status', ['TERMINATING', 'DELETING'])
def test_nothing_is_prepared_in_a_lease_that_ends(status: str) -> None:
    lease, event = preparing(status)
    work = events.of(model.PREPARE).begin(lease, event, NOON)
    assert (bool(work.skip_reason), work.reservations) == (True, ())


@pytest.mark.parametrize('status', ['active', 'deleting'])
@pytest.mark.parametrize('outcome', [FAILED, results.DONE])
def test_what_came_of_it_is_too_late(status: str, outcome: results.Outcome) -> None:
    """It is awake already, or taken out."""
    lease, event = preparing('STARTING', status)
    after = events.of(model.PREPARE).settle(lease, event, {'thing': outcome}, NOON).lease
    assert (after.status, after.reservations) == (lease.status, lease.reservations)
    assert closed(after).status == 'DONE'


def test_the_reason_stays_while_it_is_waited_for() -> None:
    lease, event = preparing(reason='Heat is away.')
    outcome = results.Outcome(results.Result.WAIT, 5)
    after = events.of(model.PREPARE).settle(lease, event, {'thing': outcome}, NOON).lease
    assert after.reservations[0].status_reason == 'Heat is away.'
    assert closed(after).open
    done = events.of(model.PREPARE).settle(lease, event, {'thing': results.DONE}, NOON).lease
    assert done.reservations[0].status_reason is None


def test_the_end_closes_it() -> None:
    """Whoever prepares can no longer write down what came of it."""
    lease, event = preparing()
    end = lease.event(model.END)
    assert end is not None
    after = closed(events.of(end.event_type).begin(lease, end, END).lease)
    assert (after.open, after.generation) == (False, event.generation + 1)


def test_a_removal_closes_it() -> None:
    lease, event = preparing()
    after = closed(changes.remove_reservation.apply(lease, 'thing', NOON).lease)
    assert (after.open, after.generation) == (False, event.generation + 1)
