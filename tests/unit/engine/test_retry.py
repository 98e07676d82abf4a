# SPDX-License-Identifier: Apache-2.0
"""What follows from a failure: again, when, or never."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.engine import plugin_calls
from climate_core.lease import events, model
from climate_core.lease.transitions import Outcome, Result
from climate_core.threads import Backoff
from tests.support.leases import HOUR, NOON, lease, reservation

TYPES = [each.event_type for each in events.TABLE if each.on_failure]
BACKOFF = Backoff(2, 120)
AWAY, NEVER = exceptions.Transient('away'), exceptions.Permanent('never')
#: The end of the lease is so many seconds away.
FAR, NEAR = 7200, 1


def decide(kind: str, exc: Exception, attempts: int = 0, left: float = FAR) -> Outcome:
    one = lease(reservation(), start=NOON, end=NOON + HOUR * left / 3600)
    due = model.new_event('lease', kind, NOON, NOON, 'thing')
    due = dataclasses.replace(due, attempts=attempts)
    return plugin_calls.decide_retry(exc, due, one.with_events(due), NOON, BACKOFF)


@pytest.mark.parametrize('kind', TYPES)
@pytest.mark.parametrize(('attempts', 'seconds'), [(0, 2), (1, 4), (5, 64), (6, 120), (999, 120)])
def test_transient_failures_are_retried_with_backoff(
    kind: str, attempts: int, seconds: float
) -> None:
    assert decide(kind, AWAY, attempts) == Outcome(Result.RETRY, seconds, 'away')


def test_retry_after_lengthens_the_wait_up_to_the_longest_one() -> None:
    busy = exceptions.Transient('busy')
    for after, attempts, seconds in ((30, 0, 30), (1, 1, 4), (9999, 0, 120)):
        busy.retry_after = after
        assert decide(model.START, busy, attempts).seconds == seconds
    assert decide(model.START, busy, left=10).seconds == 5


@pytest.mark.parametrize('kind', TYPES)
def test_permanent_failures_are_retried_for_ever_by_what_frees(kind: str) -> None:
    frees = kind in (model.PREEMPT, model.END, model.END_RESERVATION)
    again, final = Outcome(Result.RETRY, 120, 'never'), Outcome(Result.FAILED, reason='never')
    assert decide(kind, NEVER) == (again if frees else final)


@pytest.mark.parametrize('kind', TYPES)
def test_only_what_wakes_is_given_up_shortly_before_the_end(kind: str) -> None:
    outcome = decide(kind, AWAY, left=NEAR)
    assert (outcome.result is Result.FAILED) == (kind in (model.START, model.REALLOCATE))
    assert decide(model.START, AWAY, 9, left=10).seconds == 5
    assert decide(model.START, AWAY, 9, left=2).seconds == 1


@pytest.mark.parametrize('kind', TYPES)
def test_only_a_start_fails_at_once_by_a_bug(kind: str) -> None:
    due = model.new_event('lease', kind, NOON, NOON)
    outcome = plugin_calls.decide_bug(KeyError('secret'), due, BACKOFF)
    assert outcome.result is (Result.FAILED if kind == model.START else Result.RETRY)
    assert 'KeyError' in str(outcome.reason)
    assert 'secret' not in str(outcome.reason)


@pytest.mark.parametrize(
    ('outcomes', 'left', 'given_up'),
    [
        ([], NEAR, False),
        ([Outcome(Result.FAILED)], FAR, False),
        ([Outcome(Result.FAILED)], NEAR, True),
    ],
)
def test_failure_shortly_before_the_end_is_given_up(
    outcomes: list[Outcome], left: float, given_up: bool
) -> None:
    one = lease(end=NOON + HOUR * left / 3600)
    assert (plugin_calls.decide_blocked(outcomes, one, True, NOON) is not None) == given_up


def test_reason_is_never_empty_nor_too_long() -> None:
    assert plugin_calls.describe_failure(exceptions.Transient('x' * 2000)) == 'x' * 1000
    assert plugin_calls.describe_failure(exceptions.Permanent()) != ''
