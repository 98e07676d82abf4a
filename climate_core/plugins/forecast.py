# SPDX-License-Identifier: Apache-2.0
"""Forecast when the shared hosts will have sufficient capacity for servers. Pure.

A forecast is expected and never guaranteed: nothing is claimed, and any user can take the capacity
first. It is conservative. A server without a known end stays forever; servers must fit together,
each on one host for the whole time; and the servers of later leases must still fit, too.
"""

import dataclasses
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from climate_common import words
from climate_core.concurrency import SearchBudget
from climate_core.plugins.server_placement import FreeCapacity, RunningServer, TargetHost

#: Maximum number of checks of servers and hosts in a search for windows: a second or two.
MAX_SEARCH_STEPS: Final = 300_000
#: Maximum number of resource classes in a message for users.
_MAX_CLASSES_REPORTED: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Nouns:
    """The words of a forecast for users.

    :param host: what has capacity
    :param server: what takes it
    :param unfit: why other hosts do not take it
    """

    host: str = 'host'
    server: str = 'server'
    unfit: str = 'lack a trait, or are in another availability zone'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The part of a host that a lease frees at its end.

    :param at: when, in microseconds
    :param amounts: by resource class of Placement
    """

    at: int
    host: str
    amounts: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FutureDemand:
    """The demand of a lease that has no hosts yet; times in microseconds.

    :param servers: each with another id
    """

    start: int
    end: int
    servers: Sequence[RunningServer]


class NotExpected(Exception):
    """The capacity of a window will be insufficient; the message has the reason for users."""


class _CapacityAtTime:
    """Track the free capacity of hosts at a moment that only moves forward.

    :param free: the free capacity before the first claim starts
    :param releases: what becomes free later, the latest first
    :ivar claims: how many claims have started
    """

    def __init__(self, free: FreeCapacity, releases: Iterable[Release], claims: int = 0) -> None:
        self.free = free
        self.claims = claims
        self._releases = [*releases]

    def copy(self) -> '_CapacityAtTime':
        """Return the same capacity, which moves on separately."""
        return _CapacityAtTime(self.free.copy(), self._releases, self.claims)

    def move(self, time: int) -> None:
        """Free what is freed until then.

        What is freed later is of no use to a claim that starts then; of claims that end before
        others begin both are counted.
        """
        while self._releases and self._releases[-1].at <= time:
            release = self._releases.pop()
            self.free.add(release.host, release.amounts)

    def place(self, claim: FutureDemand, budget: SearchBudget) -> Mapping[str, str] | None:
        """Move to the start of a claim, and subtract its capacity.

        :returns: the host of each of its servers by the id; None: capacity is insufficient
        """
        self.move(claim.start)
        places = self.free.take(claim.servers, budget)
        if places is not None:
            self._free_later(claim, places)
        return places

    def repeat(self, claim: FutureDemand, places: Mapping[str, str]) -> None:
        """Move to the start of a claim, and subtract its capacity from known hosts."""
        self.move(claim.start)
        for host, amounts in self._free_later(claim, places).items():
            self.free.subtract(host, amounts)

    def _free_later(
        self, claim: FutureDemand, places: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, int]]:
        """Free what a claim takes at its end; return that by the hosts."""
        taken: dict[str, dict[str, int]] = {}
        for server in claim.servers:
            amounts = taken.setdefault(places[server.id], {})
            for kind, amount in server.amounts.items():
                amounts[kind] = amounts.get(kind, 0) + amount
        for host, amounts in taken.items():
            release = Release(at=claim.end, host=host, amounts=amounts)
            insort(self._releases, release, key=_latest_first)
        return taken


def _start(claim: FutureDemand) -> int:
    return claim.start


def _latest_first(release: Release) -> int:
    return -release.at


class Forecast:
    """The capacity that hosts will have.

    :param hosts: with what is free now; a host may have less than nothing
    :param releases: what becomes free later; of a host that is not listed nothing does
    :param claims: what other leases will take, in the order of their requests
    :param nouns: for the messages to users
    :ivar budget: of checks for the request, and in :meth:`windows` for the claims beside it; that
        ends when none is left
    :ivar claim_budget: of other checks for the claims, which their number bounds; it ends no
        search. So a project does not pay for what the leases of other projects take.
    """

    def __init__(
        self,
        hosts: Iterable[TargetHost],
        releases: Iterable[Release] = (),
        claims: Iterable[FutureDemand] = (),
        nouns: Nouns = Nouns(),
    ) -> None:
        self.budget = SearchBudget(MAX_SEARCH_STEPS)
        self.claim_budget = SearchBudget(MAX_SEARCH_STEPS)
        self._nouns = nouns
        listed = {each.name: each for each in hosts}
        on_listed_hosts = (each for each in releases if each.host in listed)
        self._releases = sorted(on_listed_hosts, key=_latest_first)
        # In the order of their starts, as each finds its hosts at its start.
        self._claims = sorted(claims, key=_start)
        self._first = _CapacityAtTime(FreeCapacity(listed.values()), self._releases)
        self._forget()

    def _forget(self) -> None:
        """Forget the hosts of the claims; :meth:`_place` finds them again."""
        #: The host of each server of the first claims by the id; None: it does not fit.
        self._places: list[Mapping[str, str] | None] = []
        self._last = self._first.copy()

    def add(self, claim: FutureDemand) -> None:
        """Add a claim, as the latest request."""
        insort(self._claims, claim, key=_start)
        self._forget()

    def check(self, demand: FutureDemand) -> None:
        """Check that servers will fit together, beside the claims.

        :raises NotExpected: they will not
        :raises climate_core.exceptions.ServiceUnavailable: the caller no longer waits
        """
        capacity = self._first.copy()
        self._move(capacity, demand.start)
        if capacity.place(demand, self.budget) is None:
            raise NotExpected(self._reason(demand, capacity.free.hosts))
        if not self._leaves_capacity(demand, capacity, self.claim_budget):
            raise NotExpected(
                'There would be too little capacity left for another lease, which starts later.'
            )

    def windows(
        self, servers: Sequence[RunningServer], length: int, earliest: int, latest: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the windows in which servers will fit together, the earliest first.

        Of windows that follow each other without a break only the first. What there is after the
        budget is spent is not known.

        :param length: of each window, in microseconds
        :param earliest: when the first one starts at the earliest
        :param latest: when the last one ends at the latest
        """
        follows = False
        capacity = self._first.copy()
        for start in self._moments(length, earliest, latest - length):
            if self.budget.left <= 0:
                return
            self._move(capacity, start)
            demand = FutureDemand(start=start, end=start + length, servers=servers)
            later = capacity.copy()
            fits = later.place(demand, self.budget) is not None
            fits = fits and self._leaves_capacity(demand, later, self.budget)
            if fits and not follows:
                yield start, start + length
            follows = fits

    def _moments(self, length: int, first: int, last: int) -> list[int]:
        """Return when the capacity of a window may become sufficient, or insufficient."""
        moments = {first, *(each.at for each in self._releases)}
        for each in self._claims:
            # A window that starts after the first of these overlaps the claim; from its start on
            # the claim has its hosts already.
            moments |= {each.start - length + 1, each.start, each.end}
        return sorted(each for each in moments if first <= each <= last)

    def _move(self, capacity: _CapacityAtTime, time: int) -> None:
        """Move to a time; the claims that start until then have their hosts."""
        while capacity.claims < len(self._claims) and self._claims[capacity.claims].start <= time:
            places = self._place(capacity.claims)
            if places is not None:
                capacity.repeat(self._claims[capacity.claims], places)
            capacity.claims += 1
        capacity.move(time)

    def _place(self, number: int) -> Mapping[str, str] | None:
        """Return the hosts of a claim without the requested servers."""
        while len(self._places) <= number:
            claim = self._claims[len(self._places)]
            self._places.append(self._last.place(claim, self.claim_budget))
        return self._places[number]

    def _leaves_capacity(
        self, demand: FutureDemand, capacity: _CapacityAtTime, budget: SearchBudget
    ) -> bool:
        """Return whether all claims that start later still fit."""
        # Until then a claim has other hosts than without the request.
        until = demand.end
        for number in range(capacity.claims, len(self._claims)):
            claim = self._claims[number]
            if claim.start >= until:
                break
            before, after = self._place(number), capacity.place(claim, budget)
            # A claim that does not fit anyway is no reason to reject the request.
            if after is None and before is not None:
                return False
            if after != before:
                until = max(until, claim.end)
        return True

    def _reason(self, demand: FutureDemand, free: Sequence[TargetHost]) -> str:
        nouns = self._nouns
        # Equal servers are checked once.
        different = {
            (frozenset(each.amounts.items()), each.zone, each.required, each.forbidden): each
            for each in demand.servers
        }
        for server in different.values():
            matching = [each for each in free if each.takes(server)]
            if any(_missing(each, server) == [] for each in matching):
                continue
            missing_counts = Counter(kind for each in matching for kind in _missing(each, server))
            shortages = [
                f'{kind} on {words.counted(count, nouns.host)}'
                for kind, count in missing_counts.most_common(_MAX_CLASSES_REPORTED)
            ]
            verb = 'matches' if len(matching) == 1 else 'match'
            of = f'Of {words.counted(len(free), nouns.host)} {len(matching)} {verb}'
            if not shortages:
                return f'{of}: the others {nouns.unfit}.'
            little = f'there is too little {", ".join(shortages)}'
            return f'{of} by kind, but {little} for one of the {nouns.server}s.'
        number = words.counted(len(demand.servers), nouns.server)
        return f'Each would fit alone, but {number} do not fit together.'


def _missing(host: TargetHost, server: RunningServer) -> list[str]:
    """Return the resource classes of which a host has too little for a server."""
    return [kind for kind, amount in server.amounts.items() if host.free.get(kind, 0) < amount]
