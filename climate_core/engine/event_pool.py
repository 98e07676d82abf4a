# SPDX-License-Identifier: Apache-2.0
"""Work on many events with few threads, and write many of them in one transaction.

Most costs of a transaction are the same for one event and for sixteen. So no thread waits for a
transaction: events that become ready while other threads write join the next group of these,
while their threads call services for other events. For that more events are claimed than there are
threads. A single event is written immediately.
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
from climate_core.concurrency import Outcome
from climate_core.db.engine import Database
from climate_core.db.events import DueEvent
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

#: Maximum number of events that are claimed, and of those that are finished, in one transaction:
#: the rows of their leases are locked until the commit.
_MAX_GROUP_SIZE: Final = 16
#: Maximum number of concurrent transactions: rows that others have locked block only one of them.
_MAX_TRANSACTIONS: Final = 2

#: Called with the result of the work on an event, or with what was raised.
Ended = Callable[[DueEvent, WorkResult | None, BaseException | None], None]


@dataclasses.dataclass(eq=False, slots=True)
class _Job:
    """The work on an event, and the outcome of its last step.

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

    :param work: starts the work on an event. The first step of an early poll calls services, that
        of any other event claims it
    :param workers: number of threads
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
        self._writer = event_steps.EventWriter(database, _MAX_GROUP_SIZE)
        self._work = work
        self._workers = workers
        self._pool = futures.ThreadPoolExecutor(workers, thread_name_prefix='event')
        self._lock = threading.Lock()
        self._stopping = self._closed = False
        self._running = 0
        self._writing = 0
        #: Work that has not started, that will call services, that will write, and that is left.
        self._new: deque[_Job] = deque()
        self._ready: dict[str, _Job] = {}
        self._writes: list[_Job] = []
        self._left: list[_Job] = []
        bulkhead.freed.append(self._help)

    @property
    def places(self) -> int:
        """Return the maximum number of events in progress."""
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
        """Call services for no other event: other managers may start what waits for a thread."""
        with self._lock:
            self._stopping = True
            waiting = [job for job in self._ready.values() if not job.has_called]
            for job in waiting:
                del self._ready[job.due.id]
            self._left += [*self._new, *waiting]
            self._new.clear()
            if self._left:
                self._add_thread()

    def close(self) -> None:
        """Start no other step: what is left is resumed when its claim expires."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _add_thread(self) -> None:
        if self._running >= self._workers or self._closed:
            return
        try:
            self._pool.submit(self._run)
        except RuntimeError:
            # The system has no more threads; the running ones take the work.
            if not self._running:
                raise
            LOG.exception('There is no other thread for events')
            return
        self._running += 1

    def _help(self) -> None:
        """Let another thread check what waits for a service."""
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
        # This thread takes one event that waits for a service, and another thread the next one.
        callable_jobs = self._callable()
        job, another = next(callable_jobs, None), next(callable_jobs, None)
        if job is None:
            return None
        if another is not None:
            self._add_thread()
        del self._ready[job.due.id]
        self.bulkhead.take_thread(job.due)
        return functools.partial(self._call, job)

    def _callable(self) -> Iterator[_Job]:
        """Find the events for which a thread may call services."""
        # Services without a free thread are checked once, not for each event that calls them.
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
        for job in jobs:
            job.work.close()
            _report_end(job, _End(False))

    def _begin(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Start the work on events, and write their claims together with other writes."""
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
        """Write for events, and continue each until its next step."""
        while jobs:
            group, jobs = _split_by_lease(jobs)
            writes = [job.write for job in group if job.write is not None]
            try:
                outcomes = self._writer.run_batch(writes)
            except BaseException as exc:  # noqa: BLE001 - it is raised where they are written
                outcomes = [(None, exc)] * len(group)
            for job, outcome in zip(group, outcomes, strict=True):
                job.outcome = outcome
            self._go_on(group, jobs)

    def _go_on(self, jobs: Sequence[_Job], writes: list[_Job]) -> None:
        """Continue events until their next steps, and queue these."""
        reached = [(job, _run_step(job)) for job in jobs]
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
    """Continue an event until its next step."""
    context.of_event(job.due.id, job.due.lease_id)
    outcome, job.outcome = job.outcome, NO_OUTCOME
    try:
        return advance(job.work, outcome)
    except StopIteration as end:
        return _End(end.value)
    except BaseException as exc:  # noqa: BLE001 - the caller logs it
        return _End(error=exc)


def _report_end(job: _Job, reached: Step | _End) -> None:
    if not isinstance(reached, _End):
        return
    try:
        job.ended(job.due, reached.result, reached.error)
    except Exception:
        LOG.exception('Could not record the end of the work on an event')


def _split_by_lease(jobs: Sequence[_Job]) -> tuple[list[_Job], list[_Job]]:
    """Return the first event of each lease, and the others, which read what it writes."""
    first: dict[str, _Job] = {}
    others = [job for job in jobs if first.setdefault(job.due.lease_id, job) is not job]
    return list(first.values()), others
