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

from oslo_log import log

from climate_core import context
from climate_core.db.due_events import DueEvent
from climate_core.db.engine import Database
from climate_core.db.rows import Outcome
from climate_core.engine import event_steps
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.event_steps import (
    CALL_SERVICES,
    NO_OUTCOME,
    Step,
    Work,
    WorkResult,
    Write,
    advance,
)

LOG = log.getLogger(__name__)

#: The most events that are claimed in one transaction, and so many are finished in it as well: the
#: rows of their leases are locked until the commit.
_MAX_GROUP_SIZE: Final = 16
#: How many transactions there may be at once: rows that others have locked hold up one of them.
_MAX_TRANSACTIONS: Final = 2

#: Told what came of the work on an event: its result, or what was raised.
Ended = Callable[[DueEvent, WorkResult | None, BaseException | None], None]


@dataclasses.dataclass(eq=False, slots=True)
class _Job:
    """The work on an event, and what came of its last step.

    :param has_called: whether services may have been called for it
    """

    due: DueEvent
    work: Work
    ended: Ended
    outcome: Outcome[Any] = NO_OUTCOME
    write: Write | None = None
    has_called: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _End:
    """The end of the work on an event: its result, or what was raised."""

    result: WorkResult | None = None
    error: BaseException | None = None


class EventPool:
    """Work on events.

    :param work: begins the work on an event. Of one that is looked at early the first step calls
        services, of any other it claims the event
    :param workers: how many threads
    :param bulkhead: how many events, and threads, each service may have
    """

    def __init__(
        self,
        database: Database,
        work: Callable[[DueEvent], Work],
        workers: int,
        bulkhead: ServiceBulkhead,
    ) -> None:
        self.bulkhead = bulkhead
        self._database = database
        self._work = work
        self._workers = workers
        self._pool = futures.ThreadPoolExecutor(workers, thread_name_prefix='event')
        self._lock = threading.Lock()
        self._stopping = self._closed = False
        self._running = 0
        self._writing = 0
        #: What has not begun, what is to call services, what is to be written, and what is left.
        self._new: deque[_Job] = deque()
        self._ready: dict[str, _Job] = {}
        self._writes: list[_Job] = []
        self._left: list[_Job] = []
        bulkhead.freed.append(self._help)

    @property
    def places(self) -> int:
        """Return how many events may be worked on at the same time."""
        return self.bulkhead.places

    @property
    def waiting(self) -> int:
        """Return how many events wait for a thread."""
        return len(self._ready)

    def begin(self, batch: Sequence[DueEvent], ended: Ended) -> None:
        """Work on events; ``ended`` is called once for each of them."""
        jobs = [_Job(due, self._work(due), ended) for due in batch]
        with self._lock:
            for job in jobs:
                if self._stopping:
                    self._left.append(job)
                elif job.due.is_early:
                    self._ready[job.due.id] = job
                else:
                    self._new.append(job)
            self._add_thread()

    def stop(self) -> None:
        """Call services for no other event: others may begin what waits for a thread."""
        with self._lock:
            self._stopping = True
            waiting = [each for each in self._ready.values() if not each.has_called]
            for job in waiting:
                del self._ready[job.due.id]
            self._left += [*self._new, *waiting]
            self._new.clear()
            if self._left:
                self._add_thread()

    def close(self) -> None:
        """Begin no other step: what is left is taken up when its claim expires."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _add_thread(self) -> None:
        if self._running >= self._workers or self._closed:
            return
        try:
            self._pool.submit(self._run)
        except RuntimeError:
            # The system has no more threads; those that run take what there is.
            if not self._running:
                raise
            LOG.exception('There is no other thread for events')
            return
        self._running += 1

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
            try:
                turn()
            except Exception:
                LOG.exception('Events are resumed when their claims expire')

    def _next_turn(self) -> Callable[[], None] | None:
        if self._left:
            left, self._left = self._left, []
            return functools.partial(self._leave, left)
        if (self._new or self._writes) and self._writing < _MAX_TRANSACTIONS:
            self._writing += 1
            new = [self._new.popleft() for _ in range(min(len(self._new), _MAX_GROUP_SIZE))]
            turn = functools.partial(self._begin, new, self._take_writes())
            if self._new or self._writes or self._ready:
                self._add_thread()
            return turn
        # Of those that wait for a service this thread takes one, and another thread another.
        found = self._callable()
        job, another = next(found, None), next(found, None)
        if job is None:
            return None
        if another is not None:
            self._add_thread()
        del self._ready[job.due.id]
        self.bulkhead.take_thread(job.due)
        return functools.partial(self._call, job)

    def _callable(self) -> Iterator[_Job]:
        """Find the events for which a thread may call services."""
        # Of many that call the same services only the first finds out that these have no room.
        full: set[Collection[str]] = set()
        for job in self._ready.values():
            services = job.due.services
            if services in full:
                continue
            if self.bulkhead.has_thread(job.due):
                yield job
            else:
                full.add(services)

    def _take_writes(self) -> list[_Job]:
        taken, self._writes = self._writes[:_MAX_GROUP_SIZE], self._writes[_MAX_GROUP_SIZE:]
        return taken

    def _leave(self, jobs: Sequence[_Job]) -> None:
        for each in jobs:
            each.work.close()
            _report_end(each, _End(False))

    def _begin(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Begin the work on events, and write their claims with what others have to write."""
        try:
            self._go_on(jobs, writes)
            self._write(writes)
        finally:
            with self._lock:
                self._writing -= 1

    def _call(self, job: _Job) -> None:
        job.has_called = True
        try:
            reached = _run_step(job)
        finally:
            self.bulkhead.leave_thread(job.due.id)
        with self._lock:
            self._put(job, reached, self._writes)
        _report_end(job, reached)

    def _write(self, jobs: list[_Job]) -> None:
        """Write for events, and go on with each until its next step."""
        while jobs:
            group, jobs = _split_by_lease(jobs)
            writes = [each.write for each in group if each.write is not None]
            try:
                outcomes = event_steps.write_group(self._database, writes)
            except BaseException as exc:  # noqa: BLE001 - it is raised where they are written
                outcomes = [(None, exc)] * len(group)
            for each, outcome in zip(group, outcomes, strict=True):
                each.outcome = outcome
            self._go_on(group, jobs)

    def _go_on(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Go on with events until their next steps, and put them where these are done."""
        reached = [(each, _run_step(each)) for each in jobs]
        with self._lock:
            for job, what in reached:
                self._put(job, what, writes)
        for job, what in reached:
            _report_end(job, what)

    def _put(self, job: _Job, reached: Step | _End, writes: list[_Job]) -> None:
        if isinstance(reached, Write):
            job.write = reached
            writes.append(job)
        elif reached is CALL_SERVICES and self._stopping and not job.has_called:
            self._left.append(job)
            self._add_thread()
        elif reached is CALL_SERVICES:
            self._ready[job.due.id] = job
            self._add_thread()


def _run_step(job: _Job) -> Step | _End:
    """Go on with an event until its next step."""
    context.of_event(job.due.id, job.due.lease_id)
    outcome, job.outcome = job.outcome, NO_OUTCOME
    try:
        return advance(job.work, outcome)
    except StopIteration as end:
        return _End(end.value)
    except BaseException as exc:  # noqa: BLE001 - whoever is told logs it
        return _End(error=exc)


def _report_end(job: _Job, reached: Step | _End) -> None:
    if not isinstance(reached, _End):
        return
    try:
        job.ended(job.due, reached.result, reached.error)
    except Exception:
        LOG.exception('The end of the work on an event was not taken in')


def _split_by_lease(jobs: Sequence[_Job]) -> tuple[list[_Job], list[_Job]]:
    """Return the first event of each lease, and the others: these are to read what it writes."""
    first: dict[str, _Job] = {}
    others = [each for each in jobs if first.setdefault(each.due.lease_id, each) is not each]
    return list(first.values()), others
