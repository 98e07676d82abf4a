# SPDX-License-Identifier: Apache-2.0
"""Decide which hosts of the pools may be powered off, and which must be powered on: pure.

A host that is asleep is powered off. Leases can still reserve it, and it is powered on in time
before it is needed. Each step of the way is a :class:`PowerState` in the database; a host without
a power state is on.
"""

import dataclasses
import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

#: The power state that the API shows of a host without one.
AWAKE: Final = 'awake'
#: The reason of a nova-compute that is disabled because its host is powered off.
DISABLED_REASON: Final = 'climate: the host sleeps until a lease needs it'


#: The signal of a transaction that marks a host as failed because it was not powered on in time.
WAKE_FAILED: Final = 'hosts.wake_failed'


class PowerState(enum.StrEnum):
    """The step of a host that is being powered off, is off, or is being powered on."""

    #: It is claimed and switched off.
    FALLING_ASLEEP = 'falling_asleep'
    ASLEEP = 'asleep'
    #: It is switched on, and its nova-compute is not up yet.
    WAKING = 'waking'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PowerHost:
    """A host of a pool, with what decides about its power.

    :param state: None: it is on
    :param since: when it entered this state; None: it was never off
    :param slept_at: when it was last powered off
    :param kept_on: whether an operator wants it to stay on
    :param wake_seconds: how long it takes to power on; None: not measured
    :param usable: whether it takes allocations, and no ordinary servers
    :param failed: whether it is marked as failed
    :param need: when its first allocation starts, or started; None: it has none
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
    """The options of section ``[power]`` that decide about the power of hosts.

    :param sleep_after: a host is powered off if nothing is allocated of it for this time
    :param wake: how long a host takes to power on for which that was not measured
    :param slack: how much earlier than that a host is powered on
    :param min_awake: the number of hosts of each pool without allocations that stay on
    :param min_cycle: the shortest time from one power off of a host to the next
    """

    sleep_after: timedelta
    wake: timedelta
    slack: timedelta
    min_awake: int
    min_cycle: timedelta

    def wake_before(self, host: PowerHost) -> timedelta:
        """Return how long before it is needed a host is powered on."""
        measured = host.wake_seconds
        return self.slack + (self.wake if measured is None else timedelta(seconds=measured))

    def is_late(self, host: PowerHost, now: datetime) -> bool:
        """Return whether a host that is being powered on should be up by now."""
        return host.since is not None and now >= host.since + self.wake_before(host)


class PowerDecision(NamedTuple):
    """The ids of the hosts to power off, and of those to power on."""

    sleep: Sequence[int]
    wake: Sequence[int]


def decide(
    hosts: Iterable[PowerHost], able: Collection[int], terms: PowerTerms, now: datetime
) -> PowerDecision:
    """Choose the hosts to power off, and those to power on.

    All managers decide the same for the same hosts.

    :param able: the ids of hosts that can be powered off: empty, up, and with a driver
    """
    pools: dict[str, list[PowerHost]] = defaultdict(list)
    for host in hosts:
        pools[host.pool].append(host)
    sleep: list[int] = []
    wake: list[int] = []
    for pool in pools.values():
        needed = [host.id for host in pool if _must_wake(host, terms, now)]
        spare = [host for host in pool if _is_spare(host, terms, now)]
        lacking = terms.min_awake - len(spare)
        wake += [*needed, *_wake_more(pool, {*needed}, terms, lacking)]
        idle = [host for host in spare if host.id in able and _may_sleep(host, terms, now)]
        sleep += [host.id for host in sorted(idle, key=_by_need)[: max(0, -lacking)]]
    return PowerDecision(sorted(sleep), sorted(wake))


def _must_wake(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    if host.state is not PowerState.ASLEEP:
        return False
    is_needed = host.need is not None and host.need <= now + terms.wake_before(host)
    return host.kept_on or is_needed


def _is_spare(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    """Return whether a host is on, or soon is, for leases that are created later."""
    is_on = host.state in (None, PowerState.WAKING)
    return is_on and host.usable and is_idle(host.need, terms.sleep_after, now)


def _may_sleep(host: PowerHost, terms: PowerTerms, now: datetime) -> bool:
    """Return whether a spare host can be powered off, and would not be needed soon."""
    is_rested = host.slept_at is None or now >= host.slept_at + terms.min_cycle
    has_time = host.need is None or host.need > now + 2 * terms.wake_before(host)
    return host.state is None and not host.kept_on and is_rested and has_time


def _by_need(host: PowerHost) -> tuple[bool, float, int]:
    """Return the sort key by which hosts that are needed last come first."""
    need = host.need
    return need is not None, -need.timestamp() if need else 0.0, host.id


def _wake_more(
    pool: Iterable[PowerHost], needed: Collection[int], terms: PowerTerms, missing_count: int
) -> list[int]:
    """Return hosts to power on because too few are on, the quickest first."""
    asleep = [
        host
        for host in pool
        if host.state is PowerState.ASLEEP and host.usable and host.id not in needed
    ]
    asleep.sort(key=lambda host: (host.need is not None, terms.wake_before(host), host.id))
    return [host.id for host in asleep[: max(0, missing_count)]]


def is_idle(need: datetime | None, idle: timedelta, now: datetime) -> bool:
    """Return whether nothing is allocated of a host for a duration from now on.

    :param need: when the first allocation of the host starts, or started; None: it has none
    """
    return need is None or need > now + idle


def smooth_wake_seconds(before: int | None, seconds: float) -> int:
    """Return how long a host takes to power on, with a new measurement.

    It grows immediately and falls slowly, so that a quick start does not delay the next start.
    """
    taken = round(seconds)
    return taken if before is None else max(taken, round((3 * before + taken) / 4))


def saved_kwh(hours: float, watts: float | None) -> float | None:
    """Return the energy that was saved in a number of hours; None: unknown."""
    return None if watts is None else round(hours * watts / 1000, 6)
