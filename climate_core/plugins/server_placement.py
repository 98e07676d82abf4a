# SPDX-License-Identifier: Apache-2.0
"""Choose the shared hosts to drain for a lease, and hosts for their servers. Pure.

A host is only chosen if all of its servers can move, and if all servers of all chosen hosts fit
together on other hosts. Nova chooses the host of each server itself, so capacity for spare servers
is required.
"""

import collections
import copy
import dataclasses
import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from climate_common import words
from climate_core.concurrency import SearchBudget


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
    """A shared host that could be drained.

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
        """Return whether a server may run here if the capacity is sufficient."""
        if server.zone not in (None, self.zone):
            return False
        if self.traits is None:
            return not (server.required or server.forbidden)
        return server.required <= self.traits and not server.forbidden & self.traits


#: Returns the sort key of candidates: the smallest is drained first.
Strategy = Callable[[CandidateHost], Any]


class CannotDrainHosts(Exception):
    """Too few hosts can be drained; the message has the reason for users.

    :param why: the reason without the numbers of hosts, for one named host
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
    known_times = [each.timestamp() for each in times if each is not None]
    return len(known_times) < len(times), max(known_times, default=0.0)


def choose_hosts(
    candidates: Iterable[CandidateHost],
    count: int,
    targets: 'Iterable[TargetHost] | FreeCapacity',
    strategy: Strategy = fewest_servers,
    spares: int = 0,
    moving: Sequence[CandidateHost] = (),
) -> list[CandidateHost]:
    """Choose hosts to drain.

    :param count: number of hosts
    :param targets: hosts for their servers, unless they are chosen themselves
    :param spares: number of spare servers that must fit, too, each as large as the largest server
        that is moved
    :param moving: hosts that are being drained, whose servers must fit, too
    :raises CannotDrainHosts: fewer can be drained
    """
    listed = sorted(candidates, key=lambda each: (strategy(each), each.id))
    free = targets if isinstance(targets, FreeCapacity) else FreeCapacity(targets)
    movable = [each for each in listed if not any(one.obstacle for one in each.servers)]
    chosen = movable[:count]
    if len(chosen) == count and free.place([*moving, *chosen], spares) is not None:
        return chosen
    chosen, unplaceable = [], list[CandidateHost]()
    for each in movable:
        if len(chosen) == count:
            break
        if free.place([*moving, *chosen, each], spares) is None:
            unplaceable.append(each)
        else:
            chosen.append(each)
    if len(chosen) < count:
        _raise_cannot_drain(listed, len(chosen), count, unplaceable)
    return chosen


def _raise_cannot_drain(
    listed: Sequence[CandidateHost],
    drainable: int,
    count: int,
    unplaceable: Sequence[CandidateHost],
) -> NoReturn:
    if not listed:
        raise CannotDrainHosts('No host can be drained for it: no shared host matches.')
    reasons = []
    obstacles = collections.Counter(
        server.obstacle for each in listed for server in each.servers if server.obstacle
    )
    if obstacles:
        counts = '; '.join(f'{number} {why}' for why, number in sorted(obstacles.items()))
        reasons.append(f'Servers cannot be moved: {counts}.')
    if unplaceable:
        names = words.counted(len(unplaceable), 'host')
        reasons.append(f'Other hosts have no capacity for the servers of {names}.')
    why = ' '.join(reasons)
    matching = words.counted(len(listed), 'shared host')
    message = f'{drainable} of {matching} can be drained for it, and {count} must be. {why}'
    raise CannotDrainHosts(message.rstrip(), why)


def place_servers(
    chosen: Collection[CandidateHost], targets: Iterable[TargetHost], spares: int = 0
) -> dict[str, str] | None:
    """Find hosts for all servers of chosen hosts together, see :meth:`FreeCapacity.place`."""
    return FreeCapacity(targets).place(chosen, spares)


#: The availability zone of a server, and the traits that its host must have, and must not have.
_Needs = tuple[str | None, frozenset[str], frozenset[str]]


class FreeCapacity:
    """Track the capacity that hosts have free for servers.

    The hosts that may take a server are in the order of what they have free of the resource class
    that was searched: so a search takes no longer the more hosts there are.
    """

    def __init__(self, targets: Iterable[TargetHost]) -> None:
        self._targets = {each.name: each for each in targets}
        self._free = {name: each.free for name, each in self._targets.items()}
        self._total: dict[str, int] = {}
        #: resource class -> what a server needs -> what each host that may take it has free, and
        #: the name of the host, in this order
        self._orders: dict[str, dict[_Needs, list[tuple[int, str]]]] = {}
        #: What a server needs -> the names of the hosts that may take it; shared by all copies.
        self._taking: dict[_Needs, frozenset[str]] = {}
        #: Resource classes and servers whose orders exist in any copy; shared by all copies.
        self._searched: dict[tuple[str, _Needs], RunningServer] = {}
        self._alike: dict[Any, list[TargetHost]] = {}
        for name, target in self._targets.items():
            self._alike.setdefault((target.zone, target.traits), []).append(target)
            for kind, amount in self._free[name].items():
                self._total[kind] = self._total.get(kind, 0) + max(amount, 0)

    def copy(self) -> 'FreeCapacity':
        """Return the same capacity, which changes separately."""
        # The next copies need not sort these again.
        for (kind, _), server in self._searched.items():
            self._order(kind, server)
        other = copy.copy(self)
        other._free = self._free.copy()
        other._total = self._total.copy()
        other._orders = {
            kind: {needs: order[:] for needs, order in orders.items()}
            for kind, orders in self._orders.items()
        }
        return other

    @property
    def hosts(self) -> list[TargetHost]:
        """Return the hosts with their present free capacity."""
        free = self._free
        return [dataclasses.replace(each, free=free[name]) for name, each in self._targets.items()]

    def subtract(self, name: str, amounts: Mapping[str, int]) -> None:
        """Subtract amounts from the free capacity of a host."""
        self.add(name, {kind: -amount for kind, amount in amounts.items()})

    def add(self, name: str, amounts: Mapping[str, int]) -> None:
        """Add amounts to the free capacity of a host."""
        free = dict(self._free[name])
        for kind, amount in amounts.items():
            if amount:
                before = free.get(kind)
                free[kind] = after = (before or 0) + amount
                for needs, order in self._orders.get(kind, {}).items():
                    if name in self._taking[needs]:
                        if before is not None:
                            del order[bisect_left(order, (before, name))]
                        insort(order, (after, name))
                change = max(after, 0) - max(before or 0, 0)
                self._total[kind] = self._total.get(kind, 0) + change
        self._free[name] = free

    def place(self, chosen: Collection[CandidateHost], spares: int = 0) -> dict[str, str] | None:
        """Find other hosts for all servers of chosen hosts together; subtract nothing.

        :returns: see :meth:`take`
        """
        moved = [server for each in chosen for server in each.servers]
        if not moved:
            return {}
        moved += [max(moved, key=self._size)] * spares
        # No search is cut off here, so the budget is not checked.
        return self.copy().take(moved, SearchBudget(0), {each.name for each in chosen})

    def take(
        self,
        moved: Collection[RunningServer],
        budget: SearchBudget,
        leaving: Collection[str] = (),
    ) -> dict[str, str] | None:
        """Find hosts for servers together, the largest first, and subtract their capacity.

        Each goes where the least is left of what it needs most of, as far as that is enough.

        :param budget: spends one for equal servers that follow each other, and for each host that
            is checked
        :param leaving: the names of hosts to which none of them may go
        :returns: the id of each server -> the name of a host; None: none was found, so nothing is
            taken
        """
        equal = _group_equal([each] for each in moved)
        budget.spend(len(equal))
        if self._is_too_little(equal, leaving):
            return None
        # What is taken does not change these.
        listed = [(max(self._shares(each[0]), default=(0.0, '')), each) for each in equal]
        listed.sort(key=lambda each: each[0][0], reverse=True)
        scarcest = {id(each[0]): kind for (_, kind), each in listed}
        places: dict[str, str] = {}
        taken: list[tuple[str, dict[str, int]]] = []
        for servers in _group_equal(each for _, each in listed):
            server, done = servers[0], 0
            for name in self._find(server, scarcest[id(server)], budget, leaving):
                count = self._count(server, name, len(servers) - done)
                places |= dict.fromkeys((each.id for each in servers[done : done + count]), name)
                amounts = {kind: amount * count for kind, amount in server.amounts.items()}
                self.subtract(name, amounts)
                taken.append((name, amounts))
                done += count
                if done == len(servers):
                    break
            else:
                for name, amounts in taken:
                    self.add(name, amounts)
                return None
        return places

    def _find(
        self, server: RunningServer, scarcest: str, budget: SearchBudget, leaving: Collection[str]
    ) -> Iterator[str]:
        """Yield hosts on which a server fits, each as soon as it does not fit on the last one."""
        needed = server.amounts.items()
        order = self._order(scarcest, server)
        first = bisect_left(order, (server.amounts.get(scarcest, 0), ''))
        while True:
            fitting = (
                each
                for each in itertools.islice(order, first, None)
                if each[1] not in leaving
                if all(self._free[each[1]].get(kind, 0) >= amount for kind, amount in needed)
            )
            last = next(fitting, None)
            checked = len(order) if last is None else bisect_left(order, last) + 1
            budget.spend(checked - first)
            if last is None:
                return
            yield last[1]
            # It fitted on no host before this one, which is before them now.
            first = bisect_left(order, last)

    def _count(self, server: RunningServer, name: str, limit: int) -> int:
        """Return how many servers like this one, which fits, a host can take."""
        free = self._free[name]
        return min([limit, *(free[kind] // n for kind, n in server.amounts.items() if n)])

    def _order(self, kind: str, server: RunningServer) -> list[tuple[int, str]]:
        """Return what the hosts that may take a server have free, and their names, in order."""
        needs = server.zone, server.required, server.forbidden
        if needs not in self._taking:
            alike = (each for each in self._alike.values() if each[0].takes(server))
            names = (each.name for each in itertools.chain.from_iterable(alike))
            self._taking[needs] = frozenset(names)
        # Of zones without hosts, which users may name, nothing is stored that copies contain.
        if not self._taking[needs]:
            return []
        orders = self._orders.setdefault(kind, {})
        if needs not in orders:
            taking = ((name, self._free[name]) for name in self._taking[needs])
            orders[needs] = sorted((free[kind], name) for name, free in taking if kind in free)
            self._searched[kind, needs] = server
        return orders[needs]

    def _is_too_little(
        self, equal: Iterable[Sequence[RunningServer]], leaving: Iterable[str]
    ) -> bool:
        """Return whether the total free capacity is insufficient, however it is divided."""
        left = dict(self._total)
        for name in leaving:
            if name in self._targets:
                for kind, amount in self._free[name].items():
                    left[kind] -= max(amount, 0)
        for servers in equal:
            for kind, amount in servers[0].amounts.items():
                left[kind] = left.get(kind, 0) - amount * len(servers)
        return any(amount < 0 for amount in left.values())

    def _size(self, server: RunningServer) -> float:
        """Return the largest share of all that is free that a server needs."""
        return max(self._shares(server), default=(0.0, ''))[0]

    def _shares(self, server: RunningServer) -> Iterator[tuple[float, str]]:
        total = self._total
        return (
            (amount / max(total.get(kind, 0), 1), kind) for kind, amount in server.amounts.items()
        )


def _group_equal(groups: Iterable[list[RunningServer]]) -> list[list[RunningServer]]:
    """Join groups of equal servers that follow each other."""
    found: list[list[RunningServer]] = []
    for each in groups:
        if found and _are_equal(found[-1][0], each[0]):
            found[-1] += each
        else:
            found.append(each)
    return found


def _are_equal(server: RunningServer, other: RunningServer) -> bool:
    """Return whether two servers fit on the same hosts."""
    return (
        server.amounts == other.amounts
        and server.zone == other.zone
        and server.required == other.required
        and server.forbidden == other.forbidden
    )
