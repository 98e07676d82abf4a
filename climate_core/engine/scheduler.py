# SPDX-License-Identifier: Apache-2.0
"""Sleep until an event is due, and hand all due events to threads, with bounded concurrency.

One indexed query returns what is due and when to wake up next; a write of something that is due
earlier nudges the scheduler. Due events without a free thread are cached: when other events are
done, the next ones start without a query. A service has only a share of the places, see
:mod:`climate_core.engine.bulkhead`: an event that would call a service without a free place waits,
and other events overtake it.

:class:`Wakeups` wakes the workers of this manager, and those of the other managers, after a write.
Nothing depends on it: workers poll the database, and a lost hint delays them only.
"""

import dataclasses
import datetime
import itertools
import math
import operator
import random
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import oslo_messaging as messaging
from oslo_log import log

from climate_core import context
from climate_core.db import events
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.db.sql import Clock
from climate_core.engine.event_pool import EventPool
from climate_core.engine.executor import EventJob
from climate_core.engine.start_preparation import StartPreparation
from climate_core.lease import model
from climate_core.threads import Worker, limit_sleep, seconds_left

LOG = log.getLogger(__name__)

#: While a due event waits for a place: the least seconds between two queries, and their distance
#: as a multiple of the duration of the last query.
_MIN_QUERY_SECONDS: Final = 0.25
_QUERY_TIME_FACTOR: Final = 1
#: How many times as many events are read when another manager was faster.
_LOST_CLAIM_FACTOR: Final = 4


class Scheduler(Worker):
    """Hand events that are due to threads.

    The database is queried when the next event is due that it returned, or an earlier one that an
    event leaves behind, and after the longest sleep for events that no nudge announced.

    :param idle_seconds: the longest sleep
    """

    name = 'scheduler'
    expected_errors = DATABASE_ERRORS
    failure_message = 'Could not read which events are due; the scheduler retries'

    def __init__(
        self, database: Database, clock: Clock, pool: EventPool, idle_seconds: float
    ) -> None:
        super().__init__(idle_seconds)
        self._database = database
        self._clock = clock
        self._pool, self._bulkhead = pool, pool.bulkhead
        self._bulkhead.freed.append(self._wake)
        self._window = pool.places * 4
        #: Events in progress, by their ids.
        self._in_flight: dict[str, events.DueEvent] = {}
        #: Whether to query the database now, and otherwise when, by the monotonic clock.
        self._must_query = True
        self._query_at = math.inf
        #: No query before this time while a due event waits for a place.
        self._no_query_before = 0.0
        #: Due events that have not started, by their ids, and whether the database has more.
        self._waiting: dict[str, events.DueEvent] = {}
        self._has_more = False
        #: Whether another manager was faster since the last query.
        self._lost_claim = False
        #: Whether an event was started since the last query.
        self._has_started = False
        #: Events in progress that were due again with another generation, and early polls.
        self._due_again: set[str] = set()
        self._early: dict[str, events.DueEvent] = {}
        database.listen(events.DUE, self.nudge)

    @property
    def free_places(self) -> int:
        """Return how many more events may start now."""
        return self._pool.places - len(self._in_flight)

    def stop(self) -> None:
        super().stop()
        self._pool.stop()

    def wait(self, deadline: float) -> bool:
        if not super().wait(deadline):
            return False
        with self._changed:
            all_ended = self._changed.wait_for(lambda: not self._in_flight, seconds_left(deadline))
        self._pool.close()
        return all_ended

    def nudge(self) -> None:
        self._must_query = True
        self._wake()

    def expect(self, due_at: datetime.datetime) -> None:
        """Query the database when an event is due that was written, and not before that."""
        if due_at <= self._clock.now():
            self.nudge()
            return
        self._query_by(due_at)
        self._wake()

    def is_soon(self, due_at: datetime.datetime, now: datetime.datetime) -> bool:
        """Return whether some manager may query the database too late for a due time."""
        return due_at <= now + datetime.timedelta(seconds=2 * self._idle_seconds)

    def _query_by(self, due_at: datetime.datetime) -> None:
        at = time.monotonic() + (due_at - self._clock.now()).total_seconds()
        with self._changed:
            self._query_at = min(self._query_at, at)

    def poll_early(self, due: events.DueEvent) -> None:
        """Work on an event at its ``next_at``, though the database has a later one."""
        with self._changed:
            cached = self._early.get(due.id)
            # Threads report them in any order; the claim of an older generation would fail.
            if cached is None or cached.generation <= due.generation:
                self._early[due.id] = due
        self._wake()

    def poll(self) -> float | None:
        """Start due events; return the seconds until the next one."""
        now = self._clock.now()
        self._begin(now)
        if self._may_query() and time.monotonic() >= self._next_query_at():
            self._query()
            now = self._clock.now()
            self._begin(now)
        # The end of an event wakes it.
        return self._seconds_until_due(now) if self._may_query() else None

    def _wake(self) -> None:
        super().nudge()

    def _may_query(self) -> bool:
        """Return whether a query may change what starts next."""
        return self.free_places > 0 or bool(self._waiting)

    def _next_query_at(self) -> float:
        """Return when to query the database, by the monotonic clock."""
        has_more = self._has_more and (self._has_started or not self._waiting)
        at = 0.0 if self._must_query or has_more else self._query_at
        return max(at, self._no_query_before) if self._waiting else at

    def _seconds_until_due(self, begun_at: datetime.datetime) -> float:
        """Return the seconds until the next query, or until an early poll may start.

        :param begun_at: when due events were started; the rest of them waits for a place, or for
            the query
        """
        seconds = max(0.0, self._next_query_at() - time.monotonic())
        with self._changed:
            early = [event.next_at for event in self._early.values() if event.next_at > begun_at]
        if not early:
            return seconds
        return min(seconds, max(0.0, (min(early) - self._clock.now()).total_seconds()))

    def _query(self) -> None:
        """Read the due events, and when the next one is due."""
        self._must_query, self._query_at = False, math.inf
        began, services = time.monotonic(), self._bulkhead.services
        # If more are due than all managers take, the managers choose different ones.
        window = self._window * (_LOST_CLAIM_FACTOR if self._lost_claim else 1)
        self._lost_claim = False
        try:
            now, rows = self._database.read(
                events.read_due, window, services, self._bulkhead.full(), self._has_more
            )
        except BaseException:
            self._must_query = True
            raise
        due: list[events.DueEvent] = []
        seconds = None
        if now is not None:
            self._clock.observe(now, began)
            due = [row for row in rows if row.next_at <= now]
            if len(due) < len(rows):
                seconds = (rows[len(due)].next_at - self._clock.now()).total_seconds()
        queried_at = time.monotonic()
        with self._changed:
            self._waiting = {
                event.id: event for event in shuffle_equals(due) if not self._is_begun(event)
            }
            self._has_more = len(due) >= window
            self._has_started = False
            self._no_query_before = queried_at + max(
                _MIN_QUERY_SECONDS, _QUERY_TIME_FACTOR * (queried_at - began)
            )
            self._query_at = min(
                self._query_at, queried_at + limit_sleep(seconds, self._idle_seconds)
            )

    def _is_begun(self, due: events.DueEvent) -> bool:
        """Return whether an event is in progress; if it has changed it may be due again after."""
        begun = self._in_flight.get(due.id)
        if begun is not None and begun.generation != due.generation:
            self._due_again.add(due.id)
        return begun is not None

    def _begin(self, now: datetime.datetime) -> None:
        """Start due events for which there is a place; early polls come last."""
        if self._waiting:
            self._submit_all(list(self._waiting.values()))
        # Early polls do not delay due events that have not started.
        if not self._early or self._must_query or (self._has_more and self._has_started):
            return
        with self._changed:
            early = [event for event in self._early.values() if event.next_at <= now]
        self._submit_all(sorted(early, key=operator.attrgetter('next_at')))

    def _submit_all(self, batch: Iterable[events.DueEvent]) -> None:
        # Services without a free place are checked once, not for each event that calls them.
        full: set[frozenset[str]] = set()
        begun: list[events.DueEvent] = []
        for due in batch:
            if self.stopping or self.free_places <= 0:
                break
            if due.services in full and due.id not in self._in_flight:
                continue
            if (is_early := self._take(due)) is not None:
                begun.append(dataclasses.replace(due, is_early=is_early))
            elif not self._bulkhead.has_capacity(due):
                full.add(due.services)
        if begun:
            self._has_started = True
            self._pool.begin(begun, self)

    def _take(self, due: events.DueEvent) -> bool | None:
        """Take an event from those that wait.

        :returns: whether it is an early poll, though it may be due by now; None: it must not
            start
        """
        with self._changed:
            begun, early = self._in_flight.get(due.id), self._early.get(due.id)
            if begun is not None:
                # The work in progress includes what was reported before it started.
                if early is not None and early.generation <= begun.generation:
                    del self._early[due.id]
                return None
            if not self._bulkhead.has_capacity(due):
                return None
            self._waiting.pop(due.id, None)
            self._in_flight[due.id] = due
            self._bulkhead.begin(due)
            return self._early.pop(due.id, None) is not None

    def end_event(self, job: EventJob) -> None:
        """Take the result of the work on an event from the pool."""
        due, result, error = job.due, job.result, job.error
        if error is not None:
            message = '%s of lease %s was interrupted; it is resumed when its claim expires'
            LOG.error(message, due.event_type, due.lease_id, exc_info=error)
        self._bulkhead.end(due.id)
        with self._changed:
            del self._in_flight[due.id]
            was_due = due.id in self._due_again
            self._due_again.discard(due.id)
            # An early poll has no result when there is nothing left to poll.
            if result is True and not due.is_early:
                # Another manager was faster, perhaps with the next ones, too.
                self._lost_claim = True
                self._waiting.clear()
            if isinstance(result, datetime.datetime):
                # It sleeps for less; the database is not queried before that.
                self._query_by(result)
            if error is not None or was_due or result is True:
                self._must_query = True
            # The next event that waits may start.
            self._wake()


def shuffle_equals(due: Iterable[events.DueEvent]) -> list[events.DueEvent]:
    """Shuffle events of equal rank, so that several managers do not all claim the same one."""

    def rank(row: events.DueEvent) -> tuple[datetime.datetime, int]:
        return row.next_at, row.priority

    mixed: list[events.DueEvent] = []
    for _, group in itertools.groupby(due, rank):
        equals = list(group)
        random.shuffle(equals)
        mixed += equals
    return mixed


class Managers(Protocol):
    """All managers, as :class:`climate_core.rpc.ManagerClient` reaches them."""

    def nudge(self, context: context.RequestContext) -> None:
        """Send a hint to every manager, including this one."""


class Wakeups:
    """Wake the workers of a manager, and those of the other managers.

    :param senders: wait for notifications; transactions of this manager signal them
    :param managers: get a hint after a write
    """

    def __init__(
        self,
        scheduler: Scheduler,
        preparation: StartPreparation | None,
        senders: Sequence[Worker],
        managers: Managers,
    ) -> None:
        self._scheduler = scheduler
        self._preparation = preparation
        self._senders = senders
        self._managers = managers
        # Its request id is how this manager knows its own hints, which come back to it.
        self._hint = context.RequestContext(overwrite=False)

    def wake_all(self) -> None:
        """Wake the engines of all managers: something was written that may be due."""
        self._wake(self._scheduler)
        self.notify_managers()

    def wake_for_lease(self, lease: model.Lease, now: datetime.datetime) -> None:
        """Wake the engines for a lease that was written.

        Not if all of them poll again long before an event of it is due.
        """
        first = min((event.next_at for event in lease.events if event.next_at), default=None)
        if first is None or not self._scheduler.is_soon(first, now):
            return
        self._scheduler.expect(first)
        if self._preparation is not None:
            self._preparation.expect(lease)
        self.notify_managers()

    def take_hint(self, hint: context.RequestContext) -> None:
        """Wake the workers of this manager after the hint of another manager."""
        if hint.request_id != self._hint.request_id:
            self._wake(self._scheduler, *self._senders)

    def _wake(self, *workers: Worker) -> None:
        for worker in workers:
            worker.nudge()
        if self._preparation is not None:
            self._preparation.reread_starts()

    def notify_managers(self) -> None:
        """Send a hint to the other managers."""
        try:
            self._managers.nudge(self._hint)
        except messaging.MessagingException:
            LOG.warning(
                'Could not notify the other managers of new work; they find it when they poll',
                exc_info=True,
            )
