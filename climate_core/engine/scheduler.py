# SPDX-License-Identifier: Apache-2.0
"""Sleep until an event is due, and hand all due events to workers, with bounded concurrency.

One indexed query says what is due and when to wake up next; a write of something that is due
earlier nudges the scheduler.
"""

import datetime
import itertools
import math
import random
import time
from collections.abc import Callable, Iterable

from climate_core.db import events
from climate_core.db.clock import Clock
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import PoolWorker, nap


class Scheduler(PoolWorker[events.Due]):
    """Hand events that are due to workers.

    The database is asked when the next event is due that it told of, or an earlier one that an
    event leaves behind, and when something may be due that nobody has told.

    :param run: works on one event; returns when something new is due, or whether that may be now
    :param workers: how many at the same time
    :param idle_seconds: the longest sleep
    """

    name = 'scheduler'
    prefix = 'event'
    interrupted = (
        '{item.event_type} of lease {item.lease_id} was interrupted; it is resumed when its claim '
        'expires'
    )
    trouble = TROUBLE
    complaint = 'The database does not answer'

    def __init__(
        self,
        database: Database,
        clock: Clock,
        run: Callable[[events.Due], datetime.datetime | bool],
        workers: int,
        idle_seconds: float,
    ) -> None:
        super().__init__(workers, idle_seconds, run)
        self._database = database
        self._clock = clock
        self._window = workers * 4
        #: Whether the database is to be asked now, and otherwise when, by the monotonic clock.
        self._unknown = True
        self._ask_at = math.inf
        #: Events that were due while they were worked on.
        self._busy: set[str] = set()
        self._early: dict[str, events.Due] = {}
        database.listen(events.DUE, self.nudge)

    def nudge(self) -> None:
        self._unknown = True
        super().nudge()

    def look_early(self, due: events.Due) -> None:
        """Work on an event at its ``next_at``, though the database has a later one."""
        with self._changed:
            self._early[due.id] = due
        super().nudge()

    def look(self) -> float | None:
        """Start work on what is due; return the seconds until there is something again."""
        if self._unknown or time.monotonic() >= self._ask_at:
            self._unknown, self._ask_at = False, math.inf
            try:
                seconds = self._ask()
            except BaseException:
                self._unknown = True
                raise
            if seconds == 0.0:
                self._unknown = True
                return seconds
            asked = time.monotonic() + nap(seconds, self._idle_seconds)
            with self._changed:
                self._ask_at = min(self._ask_at, asked)
        # This may wait for room in the pool, so how long is left is taken after it.
        first = self._begin_early()
        left = max(0.0, self._ask_at - time.monotonic())
        return left if first is None else min(first, left)

    def _ask(self) -> float | None:
        """Start work on what is due by the database; return the seconds until there is more."""
        now, rows = self._database.read(events.upcoming, self._window)
        if now is None:
            return None
        self._clock.observe(now)
        due = [row for row in rows if row.next_at <= now]
        for row in spread(due):
            if not self._begin(row):
                return None
        if len(due) >= self._window:
            return 0.0
        if len(due) == len(rows):
            return None
        return max(0.0, (rows[len(due)].next_at - self._clock.now()).total_seconds())

    def _begin(self, due: events.Due) -> bool:
        """Begin an event, unless it is worked on; tell whether more may be begun."""
        with self._changed:
            if due.id in self._in_flight:
                self._busy.add(due.id)
                return True
            self._early.pop(due.id, None)
        if not self.wait_for_room():
            return False
        self.submit(due.id, due)
        return True

    def _begin_early(self) -> float | None:
        """Begin what may be looked at by now; return the seconds until there is more of that."""
        if not self._early:
            return None
        now = self._clock.now()
        with self._changed:
            found = sorted(self._early.values(), key=lambda each: each.next_at)
        for each in found:
            if each.next_at > now:
                return (each.next_at - now).total_seconds()
            if self._unknown:
                return 0.0
            with self._changed:
                if self._early.pop(each.id, None) is None or each.id in self._in_flight:
                    continue
            if not self._begin(each):
                return 0.0
        return None

    def _is_more(self, key: str, result: datetime.datetime | bool, last: bool) -> bool:  # noqa: ARG002
        with self._changed:
            was_due = key in self._busy
            self._busy.discard(key)
        if was_due or isinstance(result, bool):
            return was_due or result is True
        at = time.monotonic() + (result - self._clock.now()).total_seconds()
        with self._changed:
            is_sooner = at < self._ask_at
            self._ask_at = min(self._ask_at, at)
        if is_sooner:
            # It sleeps for less; the database is not asked before that.
            super().nudge()
        return False


def spread(due: Iterable[events.Due]) -> list[events.Due]:
    """Shuffle events of equal rank, so that several managers do not all claim the same one."""

    def rank(row: events.Due) -> tuple[datetime.datetime, int]:
        return row.next_at, row.priority

    mixed: list[events.Due] = []
    for _, group in itertools.groupby(due, rank):
        equals = list(group)
        random.shuffle(equals)
        mixed += equals
    return mixed
