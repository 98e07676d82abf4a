# SPDX-License-Identifier: Apache-2.0
"""Choose the queued leases that a pass through the queue handles; projects take turns."""

import collections
import itertools
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from climate_core.db.leases import QueueEntry

#: Maximum cost of a pass: a lease of hosts, capacity, addresses or networks costs one.
_PASS_BUDGET: Final = 100
#: Cost of a lease that needs the forecast of the common pool.
_FORECAST_COST: Final = 5
#: Places of a project in each turn.
_PLACES_PER_TURN: Final = 2


class QueueTurns:
    """Choose the leases of a pass in turns, and remember them. Any thread may use it.

    Each manager has its own memory, and a new manager starts at the head of the queue: it chooses
    fairly, and only repeats passes of other managers.

    :param budget: the maximum cost of a pass
    """

    def __init__(self, budget: int = _PASS_BUDGET) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._passes = 0
        #: The number of the pass by which a lease, or one of a project, was handled last.
        self._leases: dict[str, int] = {}
        self._projects: dict[str, int] = {}
        #: The same before the last pass.
        self._before = self._leases, self._projects
        #: The leases that were handled in this round through the queue.
        self._round: set[str] = set()

    def choose(
        self, waiting: Sequence[QueueEntry], wanted: str | None = None
    ) -> tuple[list[str], bool]:
        """Choose what the next pass handles.

        The project that was handled longest ago is first. A project has two places in each turn:
        one for the first lease of its queue, one for the lease that was handled longest ago.

        :param waiting: all leases that wait, in the order of the queue
        :param wanted: the id of a lease that is handled in any case
        :returns: the ids of leases, in the order of the turns, and whether no lease is left
            that was not handled in this round
        """
        with self._lock:
            self._passes += 1
            chosen = list(self._affordable(self._in_turn(waiting, wanted)))
            present = {each.id for each in waiting}
            projects = {each.project_id for each in waiting}
            self._before = self._leases, self._projects
            self._leases = _keep_present(self._leases, present)
            self._projects = _keep_present(self._projects, projects)
            for each in chosen:
                self._leases[each.id] = self._projects[each.project_id] = self._passes
            self._round |= {each.id for each in chosen}
            is_over = present <= self._round
            if is_over:
                self._round = set()
            return [each.id for each in chosen], is_over

    def repeat(self, lease_ids: Iterable[str]) -> None:
        """Handle leases soon again for which the pass had no budget left."""
        with self._lock:
            for each in lease_ids:
                self._leases.pop(each, None)

    def put_back(self, chosen: Iterable[QueueEntry], read: Collection[str]) -> None:
        """Handle leases in the next passes that the last pass has chosen and not read.

        :param chosen: all its leases, in the order of the turns
        :param read: the ids of those that it has read
        """
        with self._lock:
            leases, projects = self._before
            counts = collections.Counter[str]()
            for entry in chosen:
                counts[entry.project_id] += 1
                if entry.id in read:
                    continue
                self._leases[entry.id] = leases.get(entry.id, 0)
                self._round.discard(entry.id)
                # A project has had its turn with both its places.
                if counts[entry.project_id] <= _PLACES_PER_TURN:
                    self._projects[entry.project_id] = projects.get(entry.project_id, 0)

    def _affordable(self, groups: Iterable[Sequence[QueueEntry]]) -> Iterator[QueueEntry]:
        left = self._budget
        for group in groups:
            left -= sum(_FORECAST_COST if each.needs_forecast else 1 for each in group)
            if left < 0:
                return
            yield from group

    def _in_turn(
        self, waiting: Sequence[QueueEntry], wanted: str | None
    ) -> Iterator[Sequence[QueueEntry]]:
        """Yield the leases that have a turn together, of one project."""
        queues: dict[str, list[QueueEntry]] = {}
        for each in waiting:
            queues.setdefault(each.project_id, []).append(each)
        found = [each for each in waiting if each.id == wanted]
        yield found
        # What comes before it in its project is handled with it.
        first = {each.project_id for each in found}
        order = sorted(queues, key=lambda each: (each not in first, self._projects.get(each, 0)))
        for turn in itertools.zip_longest(*(self._pairs(queues[each]) for each in order)):
            for pair in turn:
                yield [each for each in pair or () if each.id != wanted]

    def _pairs(self, queue: Sequence[QueueEntry]) -> Iterator[tuple[QueueEntry, ...]]:
        oldest = sorted(queue, key=lambda each: self._leases.get(each.id, 0))
        both = itertools.chain.from_iterable(zip(queue, oldest, strict=True))
        unique = iter(dict.fromkeys(both))
        while pair := tuple(itertools.islice(unique, _PLACES_PER_TURN)):
            yield pair


def _keep_present(passes: dict[str, int], present: Collection[str]) -> dict[str, int]:
    return {key: number for key, number in passes.items() if key in present}
