# SPDX-License-Identifier: Apache-2.0
"""The time by the clock of the database, without asking it each time."""

import datetime
import threading
import time
from collections.abc import Callable

from climate_core.db import utcnow
from climate_core.db.engine import Database

#: Seconds for which the clock of this host may carry on by itself.
TRUST = 60.0


class Clock:
    """Tells the time of the database. Whether an event is due is judged by the database alone."""

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: tuple[datetime.datetime, float] | None = None

    def now(self) -> datetime.datetime:
        """Return the time in UTC."""
        if self._database.clock is not None:
            return self._database.clock()
        with self._lock:
            seen = self._seen
        if seen is None or self._monotonic() - seen[1] > TRUST:
            seen = self.observe(self._database.read(utcnow.read))
        return seen[0] + datetime.timedelta(seconds=self._monotonic() - seen[1])

    def observe(self, now: datetime.datetime) -> tuple[datetime.datetime, float]:
        """Set the clock by a time that the database has just told."""
        seen = (now, self._monotonic())
        with self._lock:
            self._seen = seen
        return seen
