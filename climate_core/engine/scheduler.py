# SPDX-License-Identifier: Apache-2.0
"""Sleep until an event is due, and hand all due events to workers, with bounded concurrency.

One indexed query says what is due and when to wake up next; a write of something that is due
earlier nudges the scheduler.
"""

import datetime
import itertools
import random
from collections.abc import Callable, Iterable

from climate_core.db import events
from climate_core.db.clock import Clock
from climate_core.db.engine import TROUBLE, Database
from climate_core.threads import PoolWorker


class Scheduler(PoolWorker[events.Due]):
    """Hand events that are due to workers.

    :param run: works on one event; returns whether to look again
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
        run: Callable[[events.Due], bool],
        workers: int,
        idle_seconds: float,
    ) -> None:
        super().__init__(workers, idle_seconds, run)
        self._database = database
        self._clock = clock
        self._window = workers * 4
        database.listen(events.DUE, self.nudge)

    def look(self) -> float | None:
        """Start work on what is due; return the seconds until there is something again."""
        now, rows = self._database.read(events.upcoming, self._window)
        if now is None:
            return None
        self._clock.observe(now)
        due = [row for row in rows if row.next_at <= now]
        for row in spread(due):
            if row.id in self._in_flight:
                continue
            if not self.wait_for_room():
                return None
            self.submit(row.id, row)
        if len(due) >= self._window:
            return 0.0
        if len(due) == len(rows):
            return None
        return max(0.0, (rows[len(due)].next_at - self._clock.now()).total_seconds())


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
