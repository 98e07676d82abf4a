# SPDX-License-Identifier: Apache-2.0
"""What came of work on an event, and how it is told."""

import dataclasses

import pytest

from climate_core.lease import transitions
from climate_core.lease.transitions import DONE, Outcome, Result
from tests.support.leases import HOUR, NOON, lease, reservation

WAIT = Outcome(Result.WAIT, 5)
SLOW = Outcome(Result.WAIT, 5, 'slow')
RETRY = Outcome(Result.RETRY, 2, 'away')
FAILED = Outcome(Result.FAILED, reason='never')


@pytest.mark.parametrize(
    ('status', 'outcome', 'done', 'becomes', 'reason'),
    [
        ('pending', DONE, 'active', 'active', None),
        ('pending', WAIT, 'active', 'pending', 'old'),
        ('pending', SLOW, 'active', 'pending', 'slow'),
        ('pending', RETRY, 'active', 'pending', 'away'),
        ('pending', FAILED, 'active', 'error', 'never'),
        ('deleting', DONE, 'active', 'deleting', 'old'),
        ('active', DONE, 'deleted', 'deleted', None),
        ('active', RETRY, 'deleted', 'active', 'away'),
        ('deleting', DONE, 'deleted', 'deleted', None),
        ('pending', DONE, 'deleted', 'deleted', 'old'),
        ('error', DONE, 'deleted', 'deleted', 'old'),
        ('error', RETRY, 'deleted', 'error', 'old'),
        ('deleted', DONE, 'deleted', 'deleted', 'old'),
    ],
)
def test_outcomes_change_only_their_reservations(
    status: str, outcome: Outcome, done: str, becomes: str, reason: str | None
) -> None:
    one = lease(reservation('a', status, 'old'), reservation('b', status))
    after = transitions.apply_outcomes(one, {'a': outcome}, done, NOON + HOUR)
    assert after.reservations[1] == one.reservations[1]
    changed = after.reservations[0]
    assert (changed.status, changed.status_reason) == (becomes, reason)
    assert changed.woken_at == (NOON + HOUR if becomes == 'active' != status else None)
    assert changed.freed_at == (NOON + HOUR if becomes == 'deleted' != status else None)


@pytest.mark.parametrize(
    ('outcome', 'progress'),
    [
        (WAIT, {'tries': 1}),
        (Outcome(Result.WAIT, 5, None, {'tries': 2}), {'tries': 2}),
        (Outcome(Result.RETRY, 5, 'away', {'tries': 2}), {'tries': 2}),
        (RETRY, {'tries': 1}),
        (FAILED, None),
        (DONE, None),
    ],
)
def test_progress_is_kept_until_nothing_is_left_to_do(outcome: Outcome, progress: object) -> None:
    one = dataclasses.replace(reservation('a'), progress={'tries': 1})
    after = transitions.apply_outcomes(lease(one), {'a': outcome}, 'active', NOON)
    assert after.reservations[0].progress == progress


@pytest.mark.parametrize(
    ('status', 'started', 'reservations', 'becomes'),
    [
        ('ACTIVE', True, ['error'], 'ACTIVE'),
        ('ERROR', True, ['active', 'deleted'], 'ACTIVE'),
        ('ERROR', True, ['active', 'pending'], 'ERROR'),
        ('ERROR', True, ['error'], 'ERROR'),
        ('ERROR', False, ['pending'], 'PENDING'),
        ('ERROR', False, ['error'], 'ERROR'),
    ],
)
def test_recovered_status_follows_from_the_reservations(
    status: str, started: bool, reservations: list[str], becomes: str
) -> None:
    one = lease(*(reservation(str(n), s) for n, s in enumerate(reservations)), status=status)
    assert transitions.recovered_status(one, NOON if started else NOON - HOUR) == becomes


def test_permanent_errors_are_what_failed_and_what_was_lost() -> None:
    lost = dataclasses.replace(reservation('c', 'deleted', 'gone'), missing_resources=True)
    one = lease(reservation('a', 'error', 'never'), reservation('b', 'pending', 'away'), lost)
    assert transitions.summarize_permanent_errors(one) == 't a: never; t c: gone'
    assert transitions.summarize_permanent_errors(lease(reservation())) is None


def test_hosts_are_named_by_their_reservation() -> None:
    made = reservation('a', 'error', 'never')
    hosts = dataclasses.replace(made, id='b', unit_kind='host')
    assert transitions.summarize_permanent_errors(lease(hosts)) == 't b: never'


def test_summary_of_many_names_the_first_ten() -> None:
    many = [reservation(str(n), 'error', 'x') for n in range(12)]
    assert transitions.summarize_errors(many[:10]).count('x') == 10
    assert transitions.summarize_errors(many).endswith('t 9: x; and 2 more')
