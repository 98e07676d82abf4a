# SPDX-License-Identifier: Apache-2.0
"""What a lease is when hosts of it fail, are replaced, or are there again."""

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from climate_core.lease import failures, model, transitions
from climate_core.lease.transitions import Change
from tests.support.leases import HOUR, NOON, event, lease, reservation

DOWN = 'failed, and no other is free. It is down.'
MISSING = f'Host a {DOWN}'
REPLACED = 'Host a was replaced by b, c.'
BOTH = f'{REPLACED} Host d {DOWN}'
NEW = {'a': ['b', 'c']}


def apply(
    one: model.Lease, replaced: Mapping[str, Sequence[str]], missing: Mapping[str, str]
) -> Change:
    return failures.record_host_replacement(one, 'thing', replaced, missing, NOON)


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
        (lacking(), {}, {}, None, False, 'All of its hosts are there again.'),
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
