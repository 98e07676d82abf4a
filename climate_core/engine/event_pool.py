# SPDX-License-Identifier: Apache-2.0
"""Work on many events with few threads, and write for many of them at once.

Most of what a transaction costs is the same for one event and for sixteen. So no thread waits for
one: what is to be written while others write is left to them, and they write it together when they
are done, while its thread calls services for the next event. For that more events are claimed than
there are threads. Alone, an event is written at once.
"""

import dataclasses
import functools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent import futures
from typing import Any, Final

from climate_core import context
from climate_core.db.engine import Database
from climate_core.db.events import Due
from climate_core.db.groups import Outcome
from climate_core.engine import group_commit
from climate_core.engine.group_commit import Write
from climate_core.engine.shares import ThreadShares
from climate_core.engine.steps import CALLS, NOTHING, Result, Step, Work, advance

#: The most events that are claimed in one transaction, and so many are finished in it as well: the
#: rows of their leases are locked until the commit.
_MOST: Final = 16
#: How many transactions there may be at once: rows that others have locked hold up one of them.
_WRITERS: Final = 2

#: Told what came of the work on an event: its result, or what was raised.
Ended = Callable[[Due, Result | None, BaseException | None], None]


@dataclasses.dataclass(eq=False, slots=True)
class _Job:
    """The work on an event, and what came of its last step."""

    due: Due
    work: Work
    ended: Ended
    outcome: Outcome[Any] = NOTHING
    write: Write | None = None


class EventPool:
    """Work on events.

    :param work: begins the work on an event, which does nothing before its first step
    :param workers: how many threads
    :param shares: how many events, and threads, each service may have
    """

    def __init__(
        self,
        database: Database,
        work: Callable[[Due], Work],
        workers: int,
        shares: ThreadShares,
    ) -> None:
        self.shares = shares
        self._database = database
        self._work = work
        self._workers = workers
        self._pool = futures.ThreadPoolExecutor(workers, thread_name_prefix='event')
        self._lock = threading.Lock()
        self._closed = False
        self._running = 0
        self._writing = 0
        #: What has not begun, what is to call services, and what is to be written.
        self._new: deque[_Job] = deque()
        self._ready: dict[str, _Job] = {}
        self._writes: list[_Job] = []
        shares.freed.append(self._help)

    @property
    def places(self) -> int:
        """Return how many events may be worked on at the same time."""
        return self.shares.places

    def begin(self, batch: Sequence[Due], ended: Ended) -> None:
        """Work on events; ``ended`` is called once for each of them."""
        jobs = [_Job(due, self._work(due), ended) for due in batch]
        with self._lock:
            self._new.extend(jobs)
            self._add_thread()

    def close(self) -> None:
        """Begin no other step: what is left is taken up when its claim expires."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _add_thread(self) -> None:
        if self._running < self._workers and not self._closed:
            self._running += 1
            self._pool.submit(self._run)

    def _help(self) -> None:
        """Have another thread look at what waits for a service."""
        with self._lock:
            if self._ready:
                self._add_thread()

    def _run(self) -> None:
        while True:
            with self._lock:
                turn = None if self._closed else self._next_turn()
                if turn is None:
                    self._running -= 1
                    return
            turn()

    def _next_turn(self) -> Callable[[], None] | None:
        if (self._new or self._writes) and self._writing < _WRITERS:
            self._writing += 1
            new = [self._new.popleft() for _ in range(min(len(self._new), _MOST))]
            if self._new:
                self._add_thread()
            return functools.partial(self._begin, new, self._take_writes())
        # Of those that wait for a service this thread takes one, and another thread another.
        found = self._callable()
        job, another = next(found, None), next(found, None)
        if job is None:
            return None
        if another is not None:
            self._add_thread()
        del self._ready[job.due.id]
        self.shares.take_thread(job.due)
        return functools.partial(self._call, job)

    def _callable(self) -> Iterator[_Job]:
        """Find the events for which a thread may call services."""
        # Of many that call the same services only the first finds out that these have no room.
        full: set[Collection[str]] = set()
        for job in self._ready.values():
            services = job.due.services
            if services in full:
                continue
            if self.shares.has_thread(job.due):
                yield job
            else:
                full.add(services)

    def _take_writes(self) -> list[_Job]:
        taken, self._writes = self._writes[:_MOST], self._writes[_MOST:]
        return taken

    def _begin(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Begin the work on events, and write their claims with what others have to write."""
        self._file(jobs, writes)
        self._write(writes)
        with self._lock:
            self._writing -= 1

    def _call(self, job: _Job) -> None:
        step = self._go_on(job)
        self.shares.leave_thread(job.due.id)
        if step is not None:
            with self._lock:
                self._put(job, step, self._writes)

    def _write(self, jobs: list[_Job]) -> None:
        """Write for events, and go on with each until its next step."""
        while jobs:
            group, jobs = _one_of_each_lease(jobs)
            writes = [each.write for each in group if each.write is not None]
            try:
                outcomes = group_commit.write_all(self._database, writes)
            except BaseException as exc:  # noqa: BLE001 - it is raised where they are written
                outcomes = [(None, exc)] * len(group)
            for each, outcome in zip(group, outcomes, strict=True):
                each.outcome = outcome
            later: list[_Job] = []
            self._file(group, later)
            jobs += later

    def _file(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Go on with events until their next steps, and put them where these are done."""
        steps = [(each, self._go_on(each)) for each in jobs]
        with self._lock:
            for job, step in steps:
                if step is not None:
                    self._put(job, step, writes)

    def _put(self, job: _Job, step: Step, writes: list[_Job]) -> None:
        if step is CALLS:
            self._ready[job.due.id] = job
            self._add_thread()
        else:
            job.write = step
            writes.append(job)

    def _go_on(self, job: _Job) -> Step | None:
        """Go on with an event until its next step; None if there is none."""
        context.of_event(job.due.id, job.due.lease_id)
        outcome, job.outcome = job.outcome, NOTHING
        try:
            return advance(job.work, outcome)
        except StopIteration as end:
            job.ended(job.due, end.value, None)
        except BaseException as exc:  # noqa: BLE001 - whoever is told logs it
            job.ended(job.due, None, exc)
        return None


def _one_of_each_lease(jobs: Sequence[_Job]) -> tuple[list[_Job], list[_Job]]:
    """Return the first event of each lease, and the others: these are to read what it writes."""
    first: dict[str, _Job] = {}
    others = [each for each in jobs if first.setdefault(each.due.lease_id, each) is not each]
    return list(first.values()), others
