# SPDX-License-Identifier: Apache-2.0
"""Choose which shared hosts are emptied for a lease, and where their servers find room. Pure.

A host is only chosen if none of its servers is of a kind that cannot move, and if all servers of
all chosen hosts fit on other hosts together. Nova decides itself where each server goes, so room
is wanted for some more.
"""

import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from climate_common import words


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that would have to move.

    :param amounts: what it takes of a host, by resource class of Placement
    :param created_at: None: not known
    :param obstacle: why it cannot be moved, as the end of a sentence; None: it can
    """

    id: str
    amounts: Mapping[str, int]
    status: str = 'ACTIVE'
    created_at: datetime | None = None
    obstacle: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A shared host that could be emptied.

    :param id: of its unit
    :param servers: those that run there
    """

    id: int
    name: str
    servers: Sequence[Server] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host that takes ordinary servers, which may be a candidate as well.

    :param free: what servers can still take of it, by resource class of Placement
    """

    name: str
    free: Mapping[str, int]


#: Returns what candidates are sorted by: the least is emptied first.
Strategy = Callable[[Candidate], Any]


class CannotMakeRoom(Exception):
    """Too few hosts can be emptied; the message says why, for users."""


def fewest_servers(candidate: Candidate) -> Any:
    """Return the number of servers, and then the memory that they have."""
    return len(candidate.servers), *least_memory(candidate)


def least_memory(candidate: Candidate) -> Any:
    """Return the memory that is to be moved, and then the number of servers."""
    memory = sum(each.amounts.get('MEMORY_MB', 0) for each in candidate.servers)
    return memory, len(candidate.servers)


def oldest_first(candidate: Candidate) -> Any:
    """Return when its youngest server was created: what is left has been there for longest.

    A host without servers comes first, one whose servers have no known age last.
    """
    times = [each.created_at for each in candidate.servers]
    known = [each.timestamp() for each in times if each is not None]
    return len(known) < len(times), max(known, default=0.0)


def choose(
    candidates: Iterable[Candidate],
    count: int,
    targets: Iterable[Target],
    strategy: Strategy = fewest_servers,
    spares: int = 0,
) -> list[Candidate]:
    """Choose hosts to be emptied.

    :param count: so many of them
    :param targets: where their servers may go, unless they are chosen themselves
    :param spares: so many more servers must find room, each as large as the largest of those that
        are moved
    :raises CannotMakeRoom: so many cannot be emptied
    """
    listed = sorted(candidates, key=lambda each: (strategy(each), each.id))
    targets = list(targets)
    chosen: list[Candidate] = []
    without_room: list[Candidate] = []
    for each in listed:
        if len(chosen) == count:
            break
        if any(server.obstacle for server in each.servers):
            continue
        if place([*chosen, each], targets, spares) is None:
            without_room.append(each)
        else:
            chosen.append(each)
    if len(chosen) < count:
        _refuse(listed, len(chosen), count, without_room)
    return chosen


def _refuse(
    listed: Sequence[Candidate], found: int, count: int, without_room: Sequence[Candidate]
) -> NoReturn:
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
    would_do = words.counted(len(listed), 'shared host')
    told = f'{would_do} would do, {count} must be emptied for it, and {found} can be.'
    raise CannotMakeRoom(' '.join([told, *reasons]))


def place(
    chosen: Collection[Candidate], targets: Iterable[Target], spares: int = 0
) -> dict[str, str] | None:
    """Find room for all servers of chosen hosts together on others, the largest servers first.

    :returns: the id of each server -> the name of a host; None: none was found
    """
    leaving = {each.name for each in chosen}
    free = {each.name: dict(each.free) for each in targets if each.name not in leaving}
    moved = [server for each in chosen for server in each.servers]
    if not moved:
        return {}
    total = _total(free.values())
    extra = [max(moved, key=lambda each: _size(each.amounts, total))] * spares
    places: dict[str, str] = {}
    for server in sorted(
        [*moved, *extra], key=lambda each: _size(each.amounts, total), reverse=True
    ):
        name = _best(server.amounts, free, total)
        if name is None:
            return None
        for kind, amount in server.amounts.items():
            free[name][kind] -= amount
        places[server.id] = name
    return places


def _best(
    amounts: Mapping[str, int], free: Mapping[str, Mapping[str, int]], total: Mapping[str, int]
) -> str | None:
    """Return the host with the least room left that has enough."""
    fitting = [
        name
        for name, have in free.items()
        if all(have.get(kind, 0) >= amount for kind, amount in amounts.items())
    ]
    return min(fitting, key=lambda name: (_size(free[name], total), name), default=None)


def _total(rooms: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: collections.Counter[str] = collections.Counter()
    for each in rooms:
        total.update(each)
    return total


def _size(amounts: Mapping[str, int], total: Mapping[str, int]) -> float:
    """Return the largest share of all that is free that amounts are."""
    return max((each / max(total.get(kind, 0), 1) for kind, each in amounts.items()), default=0.0)
