# SPDX-License-Identifier: Apache-2.0
"""A collector of metrics that caches what it counts in the database."""

import abc
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from oslo_log import log
from prometheus_client import core
from prometheus_client.registry import Collector

from climate_core.db.engine import DATABASE_ERRORS, describe_error

LOG = log.getLogger(__name__)

T = TypeVar('T')


class CachedCollector(Collector, Generic[T]):
    """A collector of counts in the database.

    :param seconds: how long the counts are cached
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, T | None] | None = None

    @abc.abstractmethod
    def count(self) -> T:
        """Read the counts from the database."""

    def describe(self) -> list[core.Metric]:
        """Return nothing, so that registering the collector does not query the database."""
        return []

    def read(self) -> T | None:
        """Return the counts, from the cache if they are recent; None if the database fails."""
        with self._lock:
            now = self._clock()
            if self._last is None or now - self._last[0] >= self._seconds:
                self._last = (now, self._try())
            return self._last[1]

    def _try(self) -> T | None:
        try:
            return self.count()
        except DATABASE_ERRORS as exc:
            LOG.warning('The metrics lack the counts of the database: %s', describe_error(exc))
            return None
