# SPDX-License-Identifier: Apache-2.0
"""The loop: sleep until something is due, take everything that is, with bounded concurrency.

One indexed query says what is due and when to wake up next. Between two queries the loop sleeps;
it is nudged by whoever writes something that is due earlier.
"""

import datetime
import itertools
import random
import threading
from collections.abc import Callable, Iterable
from concurrent import futures

from oslo_log import log

from climate_core.db import events
from climate_core.db.clock import Clock
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import Worker

LOG = log.getLogger(__name__)


class Scheduler:
    """Hands events that are due to workers.

    :param run: works on one event; returns whether to look again
    :param workers: how many at the same time
    :param idle_seconds: the longest sleep
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        run: Callable[[events.Due], bool],
        workers: int,
        idle_seconds: float,
    ) -> None:
        self._database = database
        self._clock = clock
        self._run_one = run
        self._window = workers * 4
        self._pool = futures.ThreadPoolExecutor(workers, thread_name_prefix='event')
        self._slots = threading.Semaphore(workers)
        self._changed = threading.Condition()
        self._in_flight: dict[str, futures.Future[bool]] = {}
        self._worker = Worker(
            'loop', self._look, idle_seconds, TROUBLE, 'The database does not answer'
        )

    def start(self) -> None:
        self._worker.start()

    def nudge(self) -> None:
        """Have it look at what is due now."""
        self._worker.nudge()

    def stop(self, grace: float = 0.0) -> bool:
        """Claim nothing more and let the work in progress go on for ``grace`` seconds.

        :returns: whether all of it was finished; if not, the claims expire
        """
        self._worker.stop()
        self._slots.release()
        self._worker.join()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            return self._changed.wait_for(lambda: not self._in_flight, timeout=grace)

    def _look(self) -> float | None:
        """Start work on what is due; return the seconds until there is something again."""
        now, rows = self._database.read(events.upcoming, self._window)
        if now is None:
            return None
        self._clock.observe(now)
        due = [row for row in rows if row.next_at <= now]
        for row in spread(due):
            if row.id not in self._in_flight and not self._submit(row):
                return 0.0
        if len(due) >= self._window:
            return 0.0
        if len(due) == len(rows):
            return None
        return max(0.0, (rows[len(due)].next_at - self._clock.now()).total_seconds())

    def _submit(self, row: events.Due) -> bool:
        self._slots.acquire()
        if self._worker.stopping:
            self._slots.release()
            return False
        future = self._pool.submit(self._run_one, row)
        with self._changed:
            self._in_flight[row.id] = future
        future.add_done_callback(lambda done: self._finished(row, done))
        return True

    def _finished(self, row: events.Due, future: futures.Future[bool]) -> None:
        self._slots.release()
        failed = not future.cancelled() and future.exception()
        if failed:
            LOG.error(
                '%s of lease %s was interrupted; it is resumed when its claim expires',
                row.event_type,
                row.lease_id,
                exc_info=failed,
            )
        with self._changed:
            self._in_flight.pop(row.id, None)
            last = not self._in_flight
            self._changed.notify_all()
        if future.cancelled() or failed or future.result() or last:
            self.nudge()


def spread(due: Iterable[events.Due]) -> list[events.Due]:
    """Shuffle events of equal rank, so that several managers do not all reach for the same."""

    def rank(row: events.Due) -> tuple[datetime.datetime, int]:
        return row.next_at, row.priority

    mixed: list[events.Due] = []
    for _, group in itertools.groupby(due, rank):
        equals = list(group)
        random.shuffle(equals)
        mixed += equals
    return mixed
