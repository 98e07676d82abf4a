# SPDX-License-Identifier: Apache-2.0
"""Work on many events with few threads, and write many of them in one transaction.

Most costs of a transaction are the same for one event and for sixteen. So no thread waits for a
transaction: events that become ready while other threads write join the next group of these,
while their threads call services for other events. For that more events are claimed than there are
threads. A single event is written immediately.
"""

import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent import futures
from typing import Final, Protocol

from oslo_log import log

from climate_core.db.events import DueEvent
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.executor import MAX_GROUP_SIZE, EventExecutor, EventJob, JobStage

LOG = log.getLogger(__name__)

#: Maximum number of concurrent transactions: rows that others have locked block only one of them.
_MAX_TRANSACTIONS: Final = 2


class Receiver(Protocol):
    """The object that hands events to the pool."""

    def end_event(self, job: EventJob) -> None:
        """Take the result of the work on an event, or its error."""


class EventPool:
    """Work on events.

    :param executor: does the steps of the events
    :param workers: number of threads
    :param bulkhead: how many events, and threads, each service may have
    """

    def __init__(self, executor: EventExecutor, workers: int, bulkhead: ServiceBulkhead) -> None:
        self.bulkhead = bulkhead
        self._executor = executor
        self._workers = workers
        self._pool = futures.ThreadPoolExecutor(workers, thread_name_prefix='event')
        self._lock = threading.Lock()
        self._stopping = self._closed = False
        self._running = 0
        self._writing = 0
        #: Events to claim, to call services for, to finish, and to leave to other managers.
        self._claims: deque[EventJob] = deque()
        self._ready: dict[str, EventJob] = {}
        self._finishes: deque[EventJob] = deque()
        self._left: list[EventJob] = []
        self._receivers: dict[EventJob, Receiver] = {}
        bulkhead.freed.append(self._help)

    @property
    def places(self) -> int:
        """Return the maximum number of events in progress."""
        return self.bulkhead.places

    @property
    def waiting(self) -> int:
        """Return how many events wait for a thread."""
        return len(self._ready)

    def begin(self, batch: Sequence[DueEvent], receiver: Receiver) -> None:
        """Work on events; the receiver gets each of them at its end."""
        jobs = [self._executor.create_job(due) for due in batch]
        with self._lock:
            for job in jobs:
                self._receivers[job] = receiver
                self._queue(job)
            self._add_thread()

    def stop(self) -> None:
        """Call services for no other event: other managers may start what waits for a thread."""
        with self._lock:
            self._stopping = True
            waiting = [job for job in self._ready.values() if job.stage is not JobStage.UNDO]
            for job in waiting:
                del self._ready[job.due.id]
            self._left += [*self._claims, *waiting]
            self._claims.clear()
            if self._left:
                self._add_thread()

    def close(self) -> None:
        """Start no other step: what is left is resumed when its claim expires."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _queue(self, job: EventJob) -> None:
        """Queue the next step of an event."""
        if job.stage is JobStage.FINISH:
            self._finishes.append(job)
        elif self._stopping and job.stage is not JobStage.UNDO:
            self._left.append(job)
        elif job.stage is JobStage.CLAIM:
            self._claims.append(job)
        else:
            self._ready[job.due.id] = job

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
        """Leave events, write a group of them, or call services for one, until none may go on."""
        while True:
            group: list[EventJob] = []
            job = None
            with self._lock:
                left, self._left = ([], self._left) if self._closed else (self._left, [])
                if not left and not self._closed:
                    group = self._take_group()
                    job = None if group else self._take_callable()
                if not (left or group or job):
                    self._running -= 1
                    return
            try:
                if left:
                    self._abandon(left)
                elif group:
                    self._write(group)
                elif job is not None:
                    self._call(job)
            except Exception:
                LOG.exception('Events are resumed when their claims expire')

    def _take_group(self) -> list[EventJob]:
        """Take events that are claimed and finished in one transaction, if there may be one."""
        if not (self._claims or self._finishes) or self._writing >= _MAX_TRANSACTIONS:
            return []
        self._writing += 1
        group = [
            queue.popleft()
            for queue in (self._finishes, self._claims)
            for _ in range(min(len(queue), MAX_GROUP_SIZE))
        ]
        if self._claims or self._finishes or self._ready:
            self._add_thread()
        return group

    def _take_callable(self) -> EventJob | None:
        """Take one event that waits for a service; another thread takes the next one."""
        callable_jobs = self._callable()
        job, another = next(callable_jobs, None), next(callable_jobs, None)
        if job is None:
            return None
        if another is not None:
            self._add_thread()
        del self._ready[job.due.id]
        self.bulkhead.take_thread(job.due)
        return job

    def _callable(self) -> Iterator[EventJob]:
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

    def _abandon(self, jobs: Sequence[EventJob]) -> None:
        for job in jobs:
            self._executor.abandon(job)
        self._continue(jobs)

    def _write(self, jobs: Sequence[EventJob]) -> None:
        try:
            while jobs:
                group, jobs = _split_by_lease(jobs)
                self._executor.write(group)
                self._continue(group)
        finally:
            with self._lock:
                self._writing -= 1

    def _call(self, job: EventJob) -> None:
        try:
            self._executor.call(job)
        finally:
            self.bulkhead.leave_thread(job.due.id)
        self._continue([job])

    def _continue(self, jobs: Sequence[EventJob]) -> None:
        """Queue the next steps of events; report those that have ended."""
        ended = [job for job in jobs if job.stage is JobStage.ENDED]
        with self._lock:
            for job in jobs:
                if job.stage is not JobStage.ENDED:
                    self._queue(job)
                    # This thread takes the writes.
                    if not job.writes:
                        self._add_thread()
            receivers = [self._receivers.pop(job) for job in ended]
        for job, receiver in zip(ended, receivers, strict=True):
            try:
                receiver.end_event(job)
            except Exception:
                LOG.exception('Could not record the end of the work on an event')


def _split_by_lease(jobs: Sequence[EventJob]) -> tuple[list[EventJob], list[EventJob]]:
    """Return the first event of each lease, and the others, which read what it writes."""
    first: dict[str, EventJob] = {}
    others = [job for job in jobs if first.setdefault(job.due.lease_id, job) is not job]
    return list(first.values()), others
