# SPDX-License-Identifier: Apache-2.0
"""Decide which hosts of the pools may sleep, and which must wake: pure.

A host that sleeps is switched off. It keeps its place in the calendar, and is switched on in time
before it is needed. Each step of the way is a :class:`PowerState` in the database; a host without
one is awake.
"""

import dataclasses
import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

#: What is shown of a host that has no power state.
AWAKE: Final = 'awake'
#: The reason of a nova-compute that is disabled because its host sleeps.
DISABLED_REASON: Final = 'climate: the host sleeps until a lease needs it'


class PowerState(enum.StrEnum):
    """The step at which a host is on its way to sleep and back."""

    #: It is closed and switched off.
    FALLING_ASLEEP = 'falling_asleep'
    ASLEEP = 'asleep'
    #: It is switched on, and its nova-compute is waited for.
    WAKING = 'waking'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PowerHost:
    """A host of a pool, as far as its power goes.

    :param state: None: it is awake
    :param since: when it came into this state; None: it never slept
    :param slept_at: when it was put to sleep last
    :param kept_on: whether an operator wants it to stay awake
    :param wake_seconds: how long it took to wake; None: that was not measured
    :param usable: whether it takes promises, and no ordinary servers
    :param failed: whether it is written that it has failed
    :param need: when what is promised of it begins, or began; None: nothing is promised
    """

    id: int
    name: str
    service_name: str
    provider_id: str
    pool: str
    state: PowerState | None = None
    since: datetime | None = None
    slept_at: datetime | None = None
    kept_on: bool = False
    wake_seconds: int | None = None
    usable: bool = True
    failed: bool = False
    need: datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PowerTerms:
    """The options of section ``[power]`` by which is decided.

    :param sleep_after: a host sleeps if nothing is promised of it for so long
    :param wake: how long a host takes to wake for which that was not measured
    :param slack: how much earlier than that a host is woken
    :param min_awake: how many hosts of each pool stay awake that nothing is promised of
    :param min_cycle: the shortest time from one sleep of a host to the next
    """

    sleep_after: timedelta
    wake: timedelta
    slack: timedelta
    min_awake: int
    min_cycle: timedelta

    def wake_before(self, host: PowerHost) -> timedelta:
        """Return how long before it is needed a host is woken."""
        measured = host.wake_seconds
        return self.slack + (self.wake if measured is None else timedelta(seconds=measured))

    def is_late(self, host: PowerHost, now: datetime) -> bool:
        """Tell whether a host that wakes should be there by now."""
        return host.since is not None and now >= host.since + self.wake_before(host)


class PowerDecision(NamedTuple):
    """The ids of the hosts to put to sleep, and of those to wake."""

    sleep: Sequence[int]
    wake: Sequence[int]


def decide(
    hosts: Iterable[PowerHost], able: Collection[int], terms: PowerTerms, now: datetime
) -> PowerDecision:
    """Choose the hosts to put to sleep, and those to wake.

    All managers decide the same of the same hosts.

    :param able: the ids of hosts that can be put to sleep: empty, up, and with a driver
    """
    pools: dict[str, list[PowerHost]] = defaultdict(list)
    for host in hosts:
        pools[host.pool].append(host)
    sleep: list[int] = []
    wake: list[int] = []
    for pool in pools.values():
        needed = [each.id for each in pool if _must_wake(each, terms, now)]
        spare = [each for each in pool if _is_spare(each, terms, now)]
        lacking = terms.min_awake - len(spare)
        wake += [*needed, *_wake_more(pool, {*needed}, terms, lacking)]
        idle = [each for each in spare if each.id in able and _may_sleep(each, terms, now)]
        sleep += [each.id for each in sorted(idle, key=_by_need)[: max(0, -lacking)]]
    return PowerDecision(sorted(sleep), sorted(wake))


def _must_wake(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    if host.state is not PowerState.ASLEEP:
        return False
    is_needed = host.need is not None and host.need <= now + terms.wake_before(host)
    return host.kept_on or is_needed


def _is_spare(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    """Tell whether a host is awake, or soon is, for a lease that is not known yet."""
    is_on = host.state in (None, PowerState.WAKING)
    return is_on and host.usable and is_idle(host.need, terms.sleep_after, now)


def _may_sleep(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    """Tell whether a spare host can sleep; one that would be woken at once cannot."""
    is_rested = host.slept_at is None or now >= host.slept_at + terms.min_cycle
    has_time = host.need is None or host.need > now + 2 * terms.wake_before(host)
    return host.state is None and not host.kept_on and is_rested and has_time


def _by_need(host: PowerHost) -> tuple[bool, float, int]:
    """Order hosts so that those that are needed last come first."""
    need = host.need
    return need is not None, -need.timestamp() if need else 0.0, host.id


def _wake_more(
    pool: Iterable[PowerHost], needed: Collection[int], terms: PowerTerms, lacking: int
) -> list[int]:
    """Return hosts that are woken because too few are awake, the quickest first."""
    asleep = [
        each
        for each in pool
        if each.state is PowerState.ASLEEP and each.usable and each.id not in needed
    ]
    asleep.sort(key=lambda each: (each.need is not None, terms.wake_before(each), each.id))
    return [each.id for each in asleep[: max(0, lacking)]]


def is_idle(need: datetime | None, idle: timedelta, now: datetime) -> bool:
    """Return whether nothing is allocated of a host for a duration from now on.

    :param need: when the first allocation of the host starts, or started; None: it has none
    """
    return need is None or need > now + idle


def smooth_wake_seconds(before: int | None, seconds: float) -> int:
    """Return how long a host takes to wake, after it took so long.

    It grows at once and falls slowly, so that one quick start does not make the next one late.
    """
    taken = round(seconds)
    return taken if before is None else max(taken, round((3 * before + taken) / 4))


def saved_kwh(hours: float, watts: float | None) -> float | None:
    """Return the energy that hosts saved which slept for so many hours; None: not known."""
    return None if watts is None else round(hours * watts / 1000, 6)
