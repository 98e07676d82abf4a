# SPDX-License-Identifier: Apache-2.0
"""The time by the clock of the database, without asking it each time."""

import datetime
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from climate_core.db import utcnow
from climate_core.db.engine import Database

#: Seconds for which the clock of this host may carry on by itself.
TRUST = 60.0
#: Seconds after which an answer is too old to set the clock by: what is due would be that late.
DOUBT = 0.1
#: How often the database is asked for an answer that comes at once.
_TRIES = 3


class _Seen(NamedTuple):
    """A time of the database, and when it came, by the monotonic clock.

    :param doubt: seconds that it may have been on its way
    """

    time: datetime.datetime
    at: float
    doubt: float


class Clock:
    """Tells the time of the database. Whether an event is due is judged by the database alone."""

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: _Seen | None = None

    def now(self) -> datetime.datetime:
        """Return the time in UTC."""
        if self._database.clock is not None:
            return self._database.clock()
        with self._lock:
            seen = self._seen
        if seen is None or self._monotonic() - seen.at > TRUST:
            seen = self._read()
            with self._lock:
                self._seen = seen
        return seen.time + datetime.timedelta(seconds=self._monotonic() - seen.at)

    def observe(self, now: datetime.datetime, since: float) -> None:
        """Set the clock by a time that the database has just told, unless it took long.

        :param since: when the database was asked, by the monotonic clock
        """
        seen = self._answer(now, since)
        if seen.doubt <= DOUBT:
            with self._lock:
                self._seen = seen

    def _read(self) -> _Seen:
        """Ask the database, and again if it was slow to answer; return what came fastest."""
        found: list[_Seen] = []
        while len(found) < _TRIES and not any(each.doubt <= DOUBT for each in found):
            since = self._monotonic()
            found.append(self._answer(self._database.read(utcnow.read), since))
        return min(found, key=lambda each: each.doubt)

    def _answer(self, now: datetime.datetime, since: float) -> _Seen:
        at = self._monotonic()
        return _Seen(now, at, at - since)
