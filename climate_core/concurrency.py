# SPDX-License-Identifier: Apache-2.0
"""Limit how many threads wait for Nova, Cinder or Heat, and have one work for those that wait.

A user's request to reserve a resource makes the lease service ask Nova, Cinder or Heat. These may
wait for the lease service at the same moment, with the requests of their extensions. If users'
requests took all threads, each side would wait for the other until it gave up.
"""

import collections
import contextlib
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from climate_common import resource_types
from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.context import RequestContext

T = TypeVar('T')

#: Until when the caller of this thread waits, by the monotonic clock; None: without end.
_DEADLINE: contextvars.ContextVar[float | None] = contextvars.ContextVar('deadline', default=None)

#: Seconds that a request waits for its turn, in which it keeps one more thread busy.
TURN_SECONDS = 0.25
#: The kind of lease for which hosts are emptied, see ``climate_core.lease.states.LeaseKind``.
_DRAINING_KIND: Final = 'best_effort'


def _types_to_look_up(values: Mapping[str, Any]) -> Collection[str]:
    """Return the types of what a lease, or a reservation, reserves; none if nobody is asked."""
    listed = [values] if 'resource_type' in values else values.get('reservations') or ()
    types = {each['resource_type'] for each in listed}
    is_promised = types <= resource_types.PROMISED and values.get('kind') != _DRAINING_KIND
    return () if is_promised else types


@contextlib.contextmanager
def deadline(at: float | None) -> Iterator[None]:
    """Have :func:`check_deadline` stop the work of this thread at a time.

    :param at: by ``time.monotonic``; None: nothing stops it, as what must be completed or undone
    """
    token = _DEADLINE.set(at)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Stop the work of this thread if its caller does not wait for it any more.

    It is called where nothing was created yet, so that nothing is left behind.

    :raises climate_core.exceptions.ServiceUnavailable: the deadline has passed
    """
    at = _DEADLINE.get()
    if at is not None and time.monotonic() >= at:
        raise exceptions.ServiceUnavailable(
            'The request takes longer than its caller waits (rpc_response_timeout), so it was '
            'stopped. Nothing was done. Request fewer reservations.'
        )


class ReservingLimit:
    """Limit how many requests of users reserve resources in this process at once.

    Those for one type of resource leave a quarter to the others: the service of that type may not
    answer. Those of one project leave half of them, rounded down, to other projects: a user can
    choose what takes a service a minute. So no project alone takes all turns of a type either.

    :param most: None for no limit
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken = 0
        self._by_type: Counter[str] = Counter()
        self._by_project: Counter[str | None] = Counter()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def turn(self, context: 'RequestContext', values: Mapping[str, Any]) -> Iterator[None]:
        """Count a request while it is worked on.

        A service that reserves what it builds is not counted: of servers and volumes it says what
        they hold, and Heat answers for a stack before it builds the first member. Nor is what the
        calendar promises alone, unless hosts may have to be emptied for it.

        :param values: of a new lease, or of a reservation
        :raises climate_core.exceptions.ServiceBusy: there are too many, and none ends in time
        :raises climate_core.exceptions.ServiceUnavailable: its caller does not wait any more
        """
        types = _types_to_look_up(values)
        if self._most is None or not types or context.by_service:
            yield
            return
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._has_room(types, context.project_id), TURN_SECONDS
            ):
                raise exceptions.ServiceBusy(
                    'Too many requests are waiting for Nova, Cinder or Heat. '
                    'Try again in a second.'
                )
            check_deadline()
            self._taken += 1
            self._by_type.update(types)
            self._by_project[context.project_id] += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._by_type.subtract(types)
                # Without those of projects that have no request now.
                self._by_project -= Counter([context.project_id])
                self._changed.notify_all()

    def _has_room(self, types: Collection[str], project_id: str | None) -> bool:
        most = self._most or 0
        of_type, of_project = most - most // 4, most - most // 2
        return (
            self._taken < most
            and self._by_project[project_id] < of_project
            and all(self._by_type[each] < of_type for each in types)
        )


class RateLimit:
    """Limit how often something happens in a period, for each key.

    :param most: maximum number in a period, which starts with the first time
    :param seconds: length of a period
    """

    #: Maximum number of keys. Keys whose period has ended are removed; more are not allowed.
    MOST_KEYS: Final = 100_000

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._lock = threading.Lock()
        #: Key -> the end of its period, and how often it happened in that.
        self._counts: dict[Hashable, tuple[float, int]] = {}

    def take(self, key: Hashable = None) -> bool:
        """Count one more time; return whether it is allowed."""
        now = time.monotonic()
        with self._lock:
            end, count = self._counts.get(key, (0.0, 0))
            if end <= now:
                if len(self._counts) >= self.MOST_KEYS:
                    self._counts = {k: v for k, v in self._counts.items() if v[0] > now}
                    if len(self._counts) >= self.MOST_KEYS:
                        return False
                end, count = now + self._seconds, 0
            self._counts[key] = end, count + 1
        return count < self._most


class _Turn(Generic[T]):
    """An item that waits in its thread until it is done, or until that thread is to do it."""

    def __init__(self, item: T) -> None:
        self.item = item
        self.leads = False
        self.come = threading.Event()


class BatchRunner(Generic[T]):
    """Do what threads ask for while others are at it in batches: the first that waits does all.

    :param work: does the items of a batch. It raises nothing: each of them keeps its outcome
    :param key: of those with the same key only one is done by a batch
    :param most: the most items of a batch
    :param line: those of different lines neither share a batch nor wait for each other
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        key: Callable[[T], Hashable],
        most: int,
        line: Callable[[T], Hashable] = lambda _: None,
    ) -> None:
        self._work, self._key, self._most, self._line = work, key, most, line
        self._busy: set[Hashable] = set()
        self._waiting: list[_Turn[T]] = []
        self._changed = threading.Condition(threading.Lock())

    def await_waiting(self, count: int, seconds: float) -> bool:
        """Wait until so many items wait for a batch; tell whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._waiting) >= count, seconds)

    def run(self, item: T) -> None:
        """Do an item, perhaps with others, and return when it is done."""
        turn, line = _Turn(item), self._line(item)
        with self._changed:
            if line not in self._busy:
                self._busy.add(line)
                turn.leads = True
            else:
                self._waiting.append(turn)
                self._changed.notify_all()
        if not turn.leads:
            turn.come.wait()
        if turn.leads:
            self._lead(turn)

    def _lead(self, first: _Turn[T]) -> None:
        batch = self._next_batch(first)
        try:
            self._work([each.item for each in batch])
        finally:
            self._hand_over(self._line(first.item))
            for each in batch:
                each.come.set()

    def _next_batch(self, first: _Turn[T]) -> list[_Turn[T]]:
        batch, line = {self._key(first.item): first}, self._line(first.item)
        with self._changed:
            for each in self._waiting:
                if len(batch) < self._most and self._line(each.item) == line:
                    batch.setdefault(self._key(each.item), each)
            chosen = list(batch.values())
            self._waiting = [each for each in self._waiting if each not in chosen]
        return chosen

    def _hand_over(self, line: Hashable) -> None:
        """Have the first one of a line that waits do the next batch."""
        with self._changed:
            turn = next((each for each in self._waiting if self._line(each.item) == line), None)
            if turn is None:
                self._busy.discard(line)
                return
            self._waiting.remove(turn)
        turn.leads = True
        turn.come.set()


class RecentCache(Generic[T]):
    """A bounded memory of things that are costly to make; the least recently used goes first.

    :param size: how many are kept
    :param seconds: how long one is kept after it was made
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[str, tuple[float, T]] = collections.OrderedDict()

    def find(self, key: str, seconds: float = 0.0) -> T | None:
        """Return what is kept under the key, for so many seconds more; None if nothing is."""
        with self._lock:
            found = self._find(key, seconds)
        return None if found is None else found[1]

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what is kept under the key; make it, outside of the lock, if nothing is.

        Of what several threads make at once the first is kept, and all get that one.
        """
        with self._lock:
            found = self._find(key)
        if found is not None:
            return found[1]
        made = make()
        with self._lock:
            found = self._find(key)
            if found is not None:
                return found[1]
            self._put(key, made)
        return made

    def put(self, key: str, made: T) -> None:
        """Keep this one, in place of what is kept under the key."""
        with self._lock:
            self._put(key, made)

    def _find(self, key: str, seconds: float = 0.0) -> tuple[float, T] | None:
        found = self._kept.get(key)
        if found is None or self._clock() + seconds >= found[0] + self._seconds:
            return None
        self._kept.move_to_end(key)
        return found

    def _put(self, key: str, made: T) -> None:
        self._kept[key] = (self._clock(), made)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def drop(self, key: str) -> None:
        """Forget one; it is fine if it is not there."""
        with self._lock:
            self._kept.pop(key, None)
