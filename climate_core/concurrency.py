# SPDX-License-Identifier: Apache-2.0
"""Limit how many threads wait for Nova, Cinder or Heat, and have one work for those that wait.

A user's request to reserve a resource makes the lease service ask Nova, Cinder or Heat. These may
wait for the lease service at the same moment, with the requests of their extensions. If users'
requests took all threads, each side would wait for the other until it gave up.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from climate_common import resource_types
from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.context import RequestContext

T = TypeVar('T')

#: Seconds that a request waits for its turn, in which it keeps one more thread busy.
TURN_SECONDS = 0.25
#: The kind of lease for which hosts are emptied, see ``climate_core.lease.states.LeaseKind``.
_EMPTIES: Final = 'best_effort'


def _asks(values: Mapping[str, Any]) -> bool:
    """Tell whether another service is asked for what a lease, or a reservation, reserves."""
    listed = [values] if 'resource_type' in values else values.get('reservations') or ()
    promised = all(each['resource_type'] in resource_types.PROMISED for each in listed)
    return bool(listed) and (not promised or values.get('kind') == _EMPTIES)


class ReservingLimit:
    """Limit how many requests of users reserve resources in this process at once.

    :param most: None for no limit
    """

    def __init__(self, most: int | None) -> None:
        self._free = threading.Semaphore(most) if most else None

    @contextlib.contextmanager
    def turn(self, context: 'RequestContext', values: Mapping[str, Any]) -> Iterator[None]:
        """Count a request while it is worked on.

        A service that reserves what it builds is not counted: of servers and volumes it says what
        they hold, and Heat answers for a stack before it builds the first member. Nor is what the
        calendar promises alone, unless hosts may have to be emptied for it.

        :param values: of a new lease, or of a reservation
        :raises climate_core.exceptions.ServiceBusy: there are too many, and none ends in time
        """
        if self._free is None or not _asks(values) or context.by_service:
            yield
            return
        if not self._free.acquire(timeout=TURN_SECONDS):
            raise exceptions.ServiceBusy(
                'Too many requests are waiting for Nova, Cinder or Heat. Try again in a second.'
            )
        try:
            yield
        finally:
            self._free.release()


class _Turn(Generic[T]):
    """An item that waits in its thread until it is done, or until that thread is to do it."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.leads = False
        self.come = threading.Event()


class Batches(Generic[T]):
    """Do what threads ask for while others are at it in batches: the first that waits does all.

    :param work: does the items of a batch. It raises nothing: each of them keeps its outcome
    :param key: of those with the same key only one is done by a batch
    :param most: the most items of a batch
    :param at_once: how many batches there may be at once
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        key: Callable[[T], Hashable],
        most: int,
        at_once: int = 1,
    ) -> None:
        self._work, self._key, self._most = work, key, most
        self._free = at_once
        self._waiting: list[_Turn[T]] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Return how many items wait for a batch."""
        return len(self._waiting)

    def do(self, item: T) -> None:
        """Do an item, perhaps with others, and return when it is done."""
        turn = _Turn(item)
        with self._lock:
            if self._free:
                self._free -= 1
                turn.leads = True
            else:
                self._waiting.append(turn)
        if not turn.leads:
            turn.come.wait()
        if turn.leads:
            self._lead(turn)

    def _lead(self, first: _Turn[T]) -> None:
        batch = self._next_batch(first)
        try:
            self._work([each.item for each in batch])
        finally:
            self._hand_over()
            for each in batch:
                each.come.set()

    def _next_batch(self, first: _Turn[T]) -> list[_Turn[T]]:
        batch = {self._key(first.item): first}
        with self._lock:
            for each in self._waiting:
                if len(batch) < self._most:
                    batch.setdefault(self._key(each.item), each)
            chosen = list(batch.values())
            self._waiting = [each for each in self._waiting if each not in chosen]
        return chosen

    def _hand_over(self) -> None:
        """Have the first one that waits do the next batch."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            turn = self._waiting.pop(0)
        turn.leads = True
        turn.come.set()
