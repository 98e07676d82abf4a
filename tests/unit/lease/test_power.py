# SPDX-License-Identifier: Apache-2.0
"""Which hosts may sleep, and which must wake."""

import dataclasses
import datetime
from typing import Any

import pytest

from climate_hosts.power import states
from climate_hosts.power.states import PowerHost, PowerState, PowerTerms
from tests.support.leases import NOON

MINUTE = datetime.timedelta(minutes=1)
TERMS = PowerTerms(
    sleep_after=60 * MINUTE, wake=5 * MINUTE, slack=2 * MINUTE, min_awake=0, min_cycle=120 * MINUTE
)
ASLEEP, WAKING = PowerState.ASLEEP, PowerState.WAKING
FALLING = PowerState.FALLING_ASLEEP


def after(minutes: float) -> datetime.datetime:
    return NOON + minutes * MINUTE


def host(number: int = 1, **fields: Any) -> PowerHost:
    name = f'cn{number}'
    known = {'name': name, 'service_name': name, 'provider_id': name, 'pool': 'default'}
    return PowerHost(id=number, **{**known, **fields})


def decide(
    *hosts: PowerHost, able: set[int] | None = None, **terms: Any
) -> tuple[list[int], list[int]]:
    given = {each.id for each in hosts} if able is None else able
    found = states.decide(hosts, given, dataclasses.replace(TERMS, **terms), NOON)
    return list(found.sleep), list(found.wake)


@pytest.mark.parametrize(
    ('fields', 'sleeps'),
    [
        ({}, True),
        ({'need': after(61)}, True),
        ({'need': after(60)}, False),
        ({'need': after(-5)}, False),
        ({'slept_at': after(-120)}, True),
        ({'slept_at': after(-119)}, False),
        ({'kept_on': True}, False),
        ({'usable': False}, False),
        ({'state': FALLING}, False),
        ({'state': ASLEEP}, False),
        ({'state': WAKING}, False),
        # It would be woken at once.
        ({'need': after(61), 'wake_seconds': 30 * 60}, False),
        ({'need': after(65), 'wake_seconds': 30 * 60}, True),
    ],
)
def test_host_that_nobody_needs_sleeps(fields: dict[str, Any], sleeps: bool) -> None:
    assert decide(host(**fields)) == ([1] if sleeps else [], [])


def test_host_that_cannot_be_put_to_sleep_stays_awake() -> None:
    assert decide(host(), able=set()) == ([], [])


@pytest.mark.parametrize(
    ('fields', 'wakes'),
    [
        ({}, False),
        ({'need': after(8)}, False),
        ({'need': after(7)}, True),
        ({'need': after(-1)}, True),
        ({'need': after(12), 'wake_seconds': 600}, True),
        ({'need': after(3), 'wake_seconds': 30}, False),
        ({'kept_on': True}, True),
        # What is promised of it is promised, also if nothing more is.
        ({'need': after(1), 'usable': False}, True),
    ],
)
def test_host_wakes_before_it_is_needed(fields: dict[str, Any], wakes: bool) -> None:
    assert decide(host(state=ASLEEP, **fields)) == ([], [1] if wakes else [])


def test_host_that_falls_asleep_is_woken_when_it_sleeps() -> None:
    assert decide(host(state=FALLING, need=NOON)) == ([], [])


def test_spare_hosts_stay_awake() -> None:
    hosts = [host(number) for number in (1, 2, 3)]
    assert decide(*hosts, min_awake=2) == ([1], [])
    assert decide(*hosts, min_awake=3) == ([], [])
    # One that cannot sleep is a spare one all the same.
    assert decide(*hosts, able={1, 2}, min_awake=1) == ([1, 2], [])


def test_hosts_that_are_needed_last_sleep_first() -> None:
    hosts = [host(1, need=after(90)), host(2, need=after(200)), host(3)]
    assert decide(*hosts, min_awake=1) == ([2, 3], [])
    assert decide(*hosts, min_awake=2) == ([3], [])


def test_each_pool_has_spare_hosts_of_its_own() -> None:
    hosts = [host(1), host(2), host(3, pool='gpu')]
    assert decide(*hosts, min_awake=1) == ([1], [])


@pytest.mark.parametrize(
    ('others', 'wakes'),
    [
        ((), [1]),
        ((host(3),), []),
        ((host(3, state=WAKING),), []),
        # It is not spare: it is needed soon, or fails, or falls asleep.
        ((host(3, need=after(30)),), [1]),
        ((host(3, state=WAKING, usable=False),), [1]),
        ((host(3, state=FALLING),), [1]),
    ],
)
def test_host_wakes_when_too_few_are_spare(
    others: tuple[PowerHost, ...], wakes: list[int]
) -> None:
    hosts = [host(1, state=ASLEEP, wake_seconds=60), host(2, state=ASLEEP)]
    assert decide(*hosts, *others, min_awake=1) == ([], wakes)


def test_host_that_is_needed_is_none_of_those_that_are_spare() -> None:
    hosts = [host(1, state=ASLEEP, need=NOON), host(2, state=ASLEEP)]
    assert decide(*hosts, min_awake=1) == ([], [1, 2])


@pytest.mark.parametrize(
    ('before', 'seconds', 'known'),
    [(None, 100.4, 100), (100, 200.0, 200), (200, 100.0, 175), (100, 99.0, 100)],
)
def test_time_to_wake_grows_at_once_and_falls_slowly(
    before: int | None, seconds: float, known: int
) -> None:
    assert states.smooth_wake_seconds(before, seconds) == known


def test_host_is_late_when_it_takes_longer_than_it_was_given() -> None:
    waking = host(state=WAKING, since=NOON, wake_seconds=60)
    assert not TERMS.is_late(waking, after(2.9))
    assert TERMS.is_late(waking, after(3))
    assert not TERMS.is_late(host(state=WAKING), after(3))
