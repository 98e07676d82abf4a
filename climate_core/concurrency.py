# SPDX-License-Identifier: Apache-2.0
"""Limits for requests and repeated work, shared results and work that one thread does for many.

A user's request to reserve a resource sends requests to Nova, Cinder or Heat. These may wait for
the lease service at the same moment, with the requests of their extensions. If users' requests
used all threads, both sides would wait for each other until they timed out: see
:class:`ReservingLimit`.
"""

import abc
import collections
import contextlib
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from climate_core import exceptions

if TYPE_CHECKING:
    from climate_core.context import RequestContext

I = TypeVar('I')  # noqa: E741 - an item
T = TypeVar('T')

#: The result of an item, or what was raised for it.
ItemResult = tuple[T | None, BaseException | None]

#: When the caller of this thread times out, by the monotonic clock; None: never.
_DEADLINE: contextvars.ContextVar[float | None] = contextvars.ContextVar('deadline', default=None)

#: Seconds for which a request waits for its turn, and keeps one more thread busy.
TURN_SECONDS = 0.25
#: The kind of lease for which hosts are drained, see ``climate_core.lease.states.LeaseKind``.
_DRAINING_KIND: Final = 'best_effort'


@contextlib.contextmanager
def deadline(at: float | None) -> Iterator[None]:
    """Set the time from which :func:`check_deadline` stops the work of this thread.

    :param at: by ``time.monotonic``; None: never, for work that must be completed or undone
    """
    token = _DEADLINE.set(at)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Stop the work of this thread if its caller no longer waits for it.

    Call it where nothing was created yet, so that nothing is left behind.

    :raises climate_core.exceptions.ServiceUnavailable: the deadline has passed
    """
    at = _DEADLINE.get()
    if at is not None and time.monotonic() >= at:
        raise exceptions.ServiceUnavailable(
            'The request takes longer than its caller waits (rpc_response_timeout), so it was '
            'stopped. Nothing was done. Request fewer reservations.'
        )


class SearchBudget:
    """Limit the cost of a search.

    :ivar left: the number of units that may still be checked
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, count: int = 1) -> bool:
        """Spend a part; return whether there was any left.

        :raises climate_core.exceptions.ServiceUnavailable: the deadline of the caller has passed
        """
        check_deadline()
        self.left -= count
        return self.left + count > 0


class ReservingLimit:
    """Limit how many requests of users reserve resources in this process at the same time.

    Requests for one type of resource leave a quarter to other types: the service of that type may
    not answer. Requests of one project leave half, rounded down, to other projects: a user can
    choose requests that take a service a minute. So no project uses all turns of a type either.

    :param maximum: maximum number; None for no limit
    :param local_types: the types of resources whose reservation calls no service
    """

    def __init__(self, maximum: int | None, local_types: Collection[str] = ()) -> None:
        self._maximum = maximum
        self._local_types = frozenset(local_types)
        self._count = 0
        self._by_type: Counter[str] = Counter()
        self._by_project: Counter[str | None] = Counter()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def turn(self, context: 'RequestContext', values: Mapping[str, Any]) -> Iterator[None]:
        """Count a request while it is handled.

        Requests of a service that reserves what it builds are not counted: it sends the amounts of
        servers and volumes itself, and Heat answers for a stack before it builds the first member.
        Nor are requests that only the calendar allocates, unless hosts may have to be drained.

        :param values: those of a new lease or of a reservation
        :raises climate_core.exceptions.ServiceBusy: there are too many, and none ends in time
        :raises climate_core.exceptions.ServiceUnavailable: its caller no longer waits
        """
        types = self._find_remote_types(values)
        if self._maximum is None or not types or context.by_service:
            yield
            return
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._has_free_slot(types, context.project_id), TURN_SECONDS
            ):
                raise exceptions.ServiceBusy(
                    'Too many requests are waiting for Nova, Cinder or Heat. '
                    'Try again in a second.'
                )
            check_deadline()
            self._count += 1
            self._by_type.update(types)
            self._by_project[context.project_id] += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._by_type.subtract(types)
                # This drops projects without a request.
                self._by_project -= Counter([context.project_id])
                self._changed.notify_all()

    def _find_remote_types(self, values: Mapping[str, Any]) -> Collection[str]:
        """Return the types of a lease or reservation if other services are called for them."""
        listed = [values] if 'resource_type' in values else values.get('reservations') or ()
        types = {reservation['resource_type'] for reservation in listed}
        is_local = types <= self._local_types and values.get('kind') != _DRAINING_KIND
        return () if is_local else types

    def _has_free_slot(self, types: Collection[str], project_id: str | None) -> bool:
        maximum = self._maximum or 0
        of_type, of_project = maximum - maximum // 4, maximum - maximum // 2
        return (
            self._count < maximum
            and self._by_project[project_id] < of_project
            and all(self._by_type[name] < of_type for name in types)
        )


class RateLimit:
    """Limit how often something happens in a period, for each key.

    :param maximum: maximum number in a period, which starts with the first time
    :param seconds: length of a period
    """

    #: Maximum number of keys. Keys whose period has ended are removed; more are not allowed.
    MOST_KEYS: Final = 100_000

    def __init__(self, maximum: int, seconds: float) -> None:
        self._maximum, self._seconds = maximum, seconds
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
        return count < self._maximum


class _Turn(Generic[I, T]):
    """An item whose thread waits until the item is done, or until it must lead a batch."""

    def __init__(self, item: I, key: Hashable, line: Hashable) -> None:
        self.item, self.key, self.line = item, key, line
        self.leads = False
        self.come = threading.Event()
        self.outcome: ItemResult[T] = (None, None)


class BatchRunner(abc.ABC, Generic[I, T]):
    """Run the items of many threads in batches: one thread runs those that wait concurrently.

    :param max_items: maximum number of items of a batch
    """

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._busy: set[Hashable] = set()
        self._waiting: list[_Turn[I, T]] = []
        self._changed = threading.Condition(threading.Lock())

    @abc.abstractmethod
    def run_batch(self, items: Sequence[I]) -> Sequence[ItemResult[T]]:
        """Run items; return an outcome for each. What it raises is the outcome of all."""

    def run(self, item: I, key: Hashable, line: Hashable = None) -> T:
        """Run an item, perhaps with others; return its result, or raise its error.

        :param key: a batch has at most one item with the same key
        :param line: items of different lines neither share a batch nor wait for each other
        """
        turn = _Turn[I, T](item, key, line)
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
        result, error = turn.outcome
        if error is not None:
            raise error
        return cast(T, result)

    def await_waiting(self, count: int, seconds: float) -> bool:
        """Wait until a number of items wait for a batch; return whether they did in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._waiting) >= count, seconds)

    def _lead(self, first: _Turn[I, T]) -> None:
        batch = self._next_batch(first)
        outcomes: Sequence[ItemResult[T]]
        try:
            outcomes = self.run_batch([turn.item for turn in batch])
        except BaseException as exc:  # noqa: BLE001 - the thread of each item raises it
            outcomes = [(None, exc)] * len(batch)
        self._hand_over(first.line)
        for turn, outcome in zip(batch, outcomes, strict=True):
            turn.outcome = outcome
            turn.come.set()

    def _next_batch(self, first: _Turn[I, T]) -> list[_Turn[I, T]]:
        batch = {first.key: first}
        with self._changed:
            for waiting in self._waiting:
                if len(batch) < self._max_items and waiting.line == first.line:
                    batch.setdefault(waiting.key, waiting)
            chosen = list(batch.values())
            self._waiting = [waiting for waiting in self._waiting if waiting not in chosen]
        return chosen

    def _hand_over(self, line: Hashable) -> None:
        """Let the first thread that waits in a line run the next batch."""
        with self._changed:
            turn = next((waiting for waiting in self._waiting if waiting.line == line), None)
            if turn is None:
                self._busy.discard(line)
                return
            self._waiting.remove(turn)
        turn.leads = True
        turn.come.set()


class RecentCache(Generic[T]):
    """A bounded cache of values that are costly to create; it drops the least recently used.

    :param size: maximum number of values
    :param seconds: how long a value is cached after it was created
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: collections.OrderedDict[str, tuple[float, T]] = collections.OrderedDict()

    def find(self, key: str, seconds: float = 0.0) -> T | None:
        """Return the value of a key; None if it is not cached for some seconds more."""
        with self._lock:
            entry = self._find(key, seconds)
        return None if entry is None else entry[1]

    def get(self, key: str, create: Callable[[], T]) -> T:
        """Return the value of a key; create it, outside of the lock, if it is not cached.

        If several threads create it at the same time, all of them get the first value.
        """
        with self._lock:
            entry = self._find(key)
        if entry is not None:
            return entry[1]
        created = create()
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                return entry[1]
            self._put(key, created)
        return created

    def put(self, key: str, value: T) -> None:
        """Set the value of a key."""
        with self._lock:
            self._put(key, value)

    def _find(self, key: str, seconds: float = 0.0) -> tuple[float, T] | None:
        entry = self._entries.get(key)
        if entry is None or self._clock() + seconds >= entry[0] + self._seconds:
            return None
        self._entries.move_to_end(key)
        return entry

    def _put(self, key: str, value: T) -> None:
        self._entries[key] = (self._clock(), value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def drop(self, key: str) -> None:
        """Remove a key; it is no error if it is missing."""
        with self._lock:
            self._entries.pop(key, None)
