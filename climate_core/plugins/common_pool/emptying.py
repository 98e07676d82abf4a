# SPDX-License-Identifier: Apache-2.0
"""Choose the shared hosts to empty for a lease, and find room for their servers. Pure.

A host is only chosen if none of its servers is of a kind that cannot move, and if all servers of
all chosen hosts fit on other hosts together. Nova decides itself where each server goes, so room
is wanted for some more.
"""

import collections
import dataclasses
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from climate_common import words


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that would have to move.

    :param amounts: what it takes of a host, by resource class of Placement
    :param created_at: None: not known
    :param zone: the availability zone that it must stay in; None: it may go to any
    :param required: traits that its host must have
    :param forbidden: traits that its host must not have
    :param obstacle: why it cannot be moved, as the end of a sentence; None: it can
    """

    id: str
    amounts: Mapping[str, int]
    status: str = 'ACTIVE'
    created_at: datetime | None = None
    obstacle: str | None = None
    zone: str | None = None
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CandidateHost:
    """A shared host that could be emptied.

    :param id: of its unit
    :param servers: those that run there
    """

    id: int
    name: str
    servers: Sequence[RunningServer] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TargetHost:
    """A host that takes ordinary servers, which may be a candidate as well.

    :param free: what servers can still take of it, by resource class of Placement
    :param zone: its availability zone; None: not known, so it is no one's
    :param traits: None: not known, so no server comes that must have or must not have some
    """

    name: str
    free: Mapping[str, int]
    zone: str | None = None
    traits: frozenset[str] | None = frozenset()

    def takes(self, server: RunningServer) -> bool:
        """Tell whether a server may come here, if there is room for it."""
        if server.zone not in (None, self.zone):
            return False
        if self.traits is None:
            return not (server.required or server.forbidden)
        return server.required <= self.traits and not server.forbidden & self.traits


#: Returns the sort key of candidates: the smallest is emptied first.
Strategy = Callable[[CandidateHost], Any]


class CannotMakeRoom(Exception):
    """Too few hosts can be emptied; the message says why, for users.

    :param why: the same without how many can be and must be, for one host that was named
    """

    def __init__(self, message: str = '', why: str = '') -> None:
        super().__init__(message)
        self.why = why


def fewest_servers(candidate: CandidateHost) -> Any:
    """Return the number of servers, and then the memory that they have."""
    return len(candidate.servers), *least_memory(candidate)


def least_memory(candidate: CandidateHost) -> Any:
    """Return the memory that is to be moved, and then the number of servers."""
    memory = sum(each.amounts.get('MEMORY_MB', 0) for each in candidate.servers)
    return memory, len(candidate.servers)


def oldest_first(candidate: CandidateHost) -> Any:
    """Return when its youngest server was created: what is left has been there for longest.

    A host without servers comes first, one whose servers have no known age last.
    """
    times = [each.created_at for each in candidate.servers]
    known = [each.timestamp() for each in times if each is not None]
    return len(known) < len(times), max(known, default=0.0)


def choose(
    candidates: Iterable[CandidateHost],
    count: int,
    targets: 'Iterable[TargetHost] | FreeRoom',
    strategy: Strategy = fewest_servers,
    spares: int = 0,
    moving: Sequence[CandidateHost] = (),
) -> list[CandidateHost]:
    """Choose hosts to be emptied.

    :param count: so many of them
    :param targets: where their servers may go, unless they are chosen themselves
    :param spares: so many more servers must find room, each as large as the largest of those that
        are moved
    :param moving: hosts that are being emptied, whose servers must find room, too
    :raises CannotMakeRoom: so many cannot be emptied
    """
    listed = sorted(candidates, key=lambda each: (strategy(each), each.id))
    room = targets if isinstance(targets, FreeRoom) else FreeRoom(targets)
    movable = [each for each in listed if not any(one.obstacle for one in each.servers)]
    chosen = movable[:count]
    if len(chosen) == count and room.place([*moving, *chosen], spares) is not None:
        return chosen
    chosen, without_room = [], list[CandidateHost]()
    for each in movable:
        if len(chosen) == count:
            break
        if room.place([*moving, *chosen, each], spares) is None:
            without_room.append(each)
        else:
            chosen.append(each)
    if len(chosen) < count:
        _refuse(listed, len(chosen), count, without_room)
    return chosen


def _refuse(
    listed: Sequence[CandidateHost], found: int, count: int, without_room: Sequence[CandidateHost]
) -> NoReturn:
    if not listed:
        raise CannotMakeRoom('No host can be emptied for it: no shared host would do.')
    reasons = []
    obstacles = collections.Counter(
        server.obstacle for each in listed for server in each.servers if server.obstacle
    )
    if obstacles:
        told = '; '.join(f'{number} {why}' for why, number in sorted(obstacles.items()))
        reasons.append(f'Servers cannot be moved: {told}.')
    if without_room:
        names = words.counted(len(without_room), 'host')
        reasons.append(f'There is no room elsewhere for the servers of {names}.')
    why = ' '.join(reasons)
    would_do = words.counted(len(listed), 'shared host')
    message = f'{found} of {would_do} can be emptied for it, and {count} must be. {why}'
    raise CannotMakeRoom(message.rstrip(), why)


def place(
    chosen: Collection[CandidateHost], targets: Iterable[TargetHost], spares: int = 0
) -> dict[str, str] | None:
    """Find room for all servers of chosen hosts together, see :meth:`FreeRoom.place`."""
    return FreeRoom(targets).place(chosen, spares)


class FreeRoom:
    """The room that hosts have for servers that move.

    They are in the order of what they have free, for each resource class: so to place a server
    takes no longer the more hosts there are.
    """

    def __init__(self, targets: Iterable[TargetHost]) -> None:
        self._targets = {each.name: each for each in targets}
        self._total: dict[str, int] = {}
        self._orders: _Orders = {}
        for name, each in self._targets.items():
            for kind, amount in each.free.items():
                self._total[kind] = self._total.get(kind, 0) + max(amount, 0)
                self._orders.setdefault(kind, []).append((amount, name))
        for order in self._orders.values():
            order.sort()

    def place(self, chosen: Collection[CandidateHost], spares: int = 0) -> dict[str, str] | None:
        """Find room for all servers of chosen hosts together on others, the largest first.

        Each goes where the least is left of what it needs most of, as far as that is enough.

        :returns: the id of each server -> the name of a host; None: none was found
        """
        moved = [server for each in chosen for server in each.servers]
        if not moved:
            return {}
        moved += [max(moved, key=self._size)] * spares
        return self.place_servers(moved, {each.name for each in chosen})

    def place_servers(
        self, moved: Collection[RunningServer], leaving: Collection[str] = ()
    ) -> dict[str, str] | None:
        """Find room for servers together, see :meth:`place`.

        :param leaving: the names of hosts to which none of them may go
        """
        if self._is_too_little(moved, leaving):
            return None
        placing = _Placing(self._targets, self._orders, leaving)
        places: dict[str, str] = {}
        for server in sorted(moved, key=self._size, reverse=True):
            name = placing.place(server, self._scarcest(server))
            if name is None:
                return None
            places[server.id] = name
        return places

    def _is_too_little(self, moved: Iterable[RunningServer], leaving: Iterable[str]) -> bool:
        """Tell whether all that is free is not enough, however it is divided."""
        left = dict(self._total)
        for name in leaving:
            if name in self._targets:
                for kind, amount in self._targets[name].free.items():
                    left[kind] -= max(amount, 0)
        for server in moved:
            for kind, amount in server.amounts.items():
                left[kind] = left.get(kind, 0) - amount
        return any(amount < 0 for amount in left.values())

    def _size(self, server: RunningServer) -> float:
        """Return the largest share of all that is free that a server needs."""
        return max(self._shares(server), default=(0.0, ''))[0]

    def _scarcest(self, server: RunningServer) -> str:
        """Return the resource class of which a server needs the largest share."""
        return max(self._shares(server), default=(0.0, ''))[1]

    def _shares(self, server: RunningServer) -> Iterator[tuple[float, str]]:
        total = self._total
        return (
            (amount / max(total.get(kind, 0), 1), kind) for kind, amount in server.amounts.items()
        )


#: resource class -> what each host has free, and its name, in this order
_Orders = dict[str, list[tuple[int, str]]]


class _Placing:
    """Servers that are placed one by one; what they leave is free for the next ones."""

    def __init__(
        self, targets: Mapping[str, TargetHost], orders: _Orders, leaving: Collection[str]
    ) -> None:
        self._targets = targets
        self._orders = {kind: order[:] for kind, order in orders.items()}
        self._leaving = leaving
        self._left: dict[str, dict[str, int]] = {}

    def place(self, server: RunningServer, scarcest: str) -> str | None:
        """Place a server; return the name of its host, or None."""
        needed = server.amounts.items()
        order = self._orders.get(scarcest, ())
        for index in range(bisect_left(order, (server.amounts.get(scarcest, 0), '')), len(order)):
            name = order[index][1]
            target = self._targets[name]
            free = self._left.get(name, target.free)
            if (
                all(free.get(kind, 0) >= amount for kind, amount in needed)
                and name not in self._leaving
                and target.takes(server)
            ):
                self._take(server, name)
                return name
        return None

    def _take(self, server: RunningServer, name: str) -> None:
        left = self._left.setdefault(name, dict(self._targets[name].free))
        for kind, amount in server.amounts.items():
            if amount:
                order = self._orders[kind]
                del order[bisect_left(order, (left[kind], name))]
                left[kind] -= amount
                insort(order, (left[kind], name))
