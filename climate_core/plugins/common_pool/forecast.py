# SPDX-License-Identifier: Apache-2.0
"""Tell when servers will find room on the hosts that everybody uses. Pure.

That is expected and never guaranteed: nothing is held, and any user can take the room first. It is
conservative. What is not known to end stays for ever; servers must fit together, each on one host
for the whole time; and those of leases that are made later must still find their room, too.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from climate_common import words
from climate_core.concurrency import check_deadline
from climate_core.plugins.common_pool.emptying import FreeRoom, RunningServer, TargetHost

#: Users are told of so many resource classes.
_TOLD: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Nouns:
    """The words in which a forecast tells users of room.

    :param host: what has room
    :param server: what takes it
    :param unfit: of hosts on which it may not be, what they do
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

    def overlaps(self, start: int, end: int) -> bool:
        """Tell whether it takes anything in a window."""
        return self.start < end and start < self.end


class NotExpected(Exception):
    """There will not be enough room in a window; the message says why, for users."""


#: A claim, and the host of each of its servers by the id; None: it has no room.
_Placed = tuple[FutureDemand, Mapping[str, str] | None]


class Forecast:
    """The room that hosts will have.

    :param hosts: with what is free now; a host may have less than nothing
    :param releases: what becomes free later; of a host that is not listed nothing does
    :param claims: what others will take, in the order in which they were asked for
    :param nouns: for what users are told
    """

    def __init__(
        self,
        hosts: Iterable[TargetHost],
        releases: Iterable[Release] = (),
        claims: Iterable[FutureDemand] = (),
        nouns: Nouns = Nouns(),
    ) -> None:
        self._nouns = nouns
        self._hosts = {each.name: each for each in hosts}
        known = (each for each in releases if each.host in self._hosts)
        self._releases = sorted(known, key=lambda each: each.at)
        # In the order of their starts, as each finds its hosts at its start.
        self._placed: list[_Placed] = []
        for each in sorted(claims, key=lambda each: each.start):
            self._placed.append((each, self._place(each, self._placed)))

    def check(self, asked: FutureDemand) -> None:
        """Check that servers will find room together, beside the claims.

        :raises NotExpected: they will not
        :raises climate_core.exceptions.ServiceUnavailable: nobody waits for the answer any more
        """
        placed = [each for each in self._placed if each[0].start <= asked.start]
        places = self._place(asked, placed)
        if places is None:
            raise NotExpected(self._reason(asked, placed))
        placed.append((asked, places))
        is_as_before = True
        for claim, before in self._placed[len(placed) - 1 :]:
            after = before
            if not is_as_before or claim.overlaps(asked.start, asked.end):
                after = self._place(claim, placed)
            # One that has no room anyway is no reason to refuse another one.
            if after is None and before is not None:
                raise NotExpected(
                    'There would be too little room left for another lease, which starts later.'
                )
            is_as_before = is_as_before and after == before
            placed.append((claim, after))

    def windows(
        self, servers: Sequence[RunningServer], length: int, earliest: int, latest: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the windows in which servers will find room together, the earliest first.

        Of windows that follow each other without a break only the first.

        :param length: of each window, in microseconds
        :param earliest: when the first one starts at the earliest
        :param latest: when the last one ends at the latest
        """
        follows = False
        for start in self._moments(length, earliest, latest - length):
            fits = self._fits(FutureDemand(start=start, end=start + length, servers=servers))
            if fits and not follows:
                yield start, start + length
            follows = fits

    def _moments(self, length: int, first: int, last: int) -> list[int]:
        """Return when a window may begin to have room, or no room any more."""
        moments = {first, *(each.at for each in self._releases)}
        for each, _ in self._placed:
            # A window that starts after the first of these overlaps it; from its start on it has
            # its room already.
            moments |= {each.start - length + 1, each.start, each.end}
        return sorted(each for each in moments if first <= each <= last)

    def _fits(self, asked: FutureDemand) -> bool:
        try:
            self.check(asked)
        except NotExpected:
            return False
        return True

    def _place(self, claim: FutureDemand, placed: Sequence[_Placed]) -> Mapping[str, str] | None:
        # All that takes long comes here again and again.
        check_deadline()
        return FreeRoom(self._free(claim, placed)).place_servers(claim.servers)

    def _free(self, claim: FutureDemand, placed: Sequence[_Placed]) -> list[TargetHost]:
        """Return the hosts with what is free of them during all of a claim.

        What is freed after its start is of no use to it; of claims that end before others begin
        both are counted.
        """
        change: dict[str, Counter[str]] = {}
        for release in self._releases:
            if release.at > claim.start:
                break
            change.setdefault(release.host, Counter()).update(release.amounts)
        for other, places in placed:
            if places is not None and other.overlaps(claim.start, claim.end):
                for server in other.servers:
                    change.setdefault(places[server.id], Counter()).subtract(server.amounts)
        return [
            _changed(each, change[each.name]) if each.name in change else each
            for each in self._hosts.values()
        ]

    def _reason(self, asked: FutureDemand, placed: Sequence[_Placed]) -> str:
        free, nouns = self._free(asked, placed), self._nouns
        for server in asked.servers:
            would_do = [each for each in free if each.takes(server)]
            if any(_missing(each, server) == [] for each in would_do):
                continue
            lacking = Counter(kind for each in would_do for kind in _missing(each, server))
            told = [
                f'{kind} on {words.counted(count, nouns.host)}'
                for kind, count in lacking.most_common(_TOLD)
            ]
            of = f'Of {words.counted(len(free), nouns.host)} {len(would_do)} would do'
            if not told:
                return f'{of}: the others {nouns.unfit}.'
            little = f'there is too little {", ".join(told)}'
            return f'{of} by their kind, but {little} for one of the {nouns.server}s.'
        number = words.counted(len(asked.servers), nouns.server)
        return f'Each would find room alone, but {number} do not fit together.'


def _missing(host: TargetHost, server: RunningServer) -> list[str]:
    """Return the resource classes of which a host has too little for a server."""
    return [kind for kind, amount in server.amounts.items() if host.free.get(kind, 0) < amount]


def _changed(host: TargetHost, change: Mapping[str, int]) -> TargetHost:
    kinds = host.free.keys() | change.keys()
    free = {kind: host.free.get(kind, 0) + change.get(kind, 0) for kind in kinds}
    return dataclasses.replace(host, free=free)
