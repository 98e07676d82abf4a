# SPDX-License-Identifier: Apache-2.0
"""Cache rendered feeds for a short time: a URL that is read all the time costs little."""

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from climate_core import exceptions

#: Bounds of one process.
MOST_FEEDS: Final = 1000
MOST_BYTES: Final = 32 << 20

#: A feed as it is sent, or why its user may not see it.
Rendered = bytes | exceptions.Forbidden


class FeedCache:
    """The feeds that this process rendered last; the least recently read is removed first.

    :param seconds: how long a rendered feed is used; 0: not at all
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._rendered: collections.OrderedDict[str, tuple[float, Rendered]] = (
            collections.OrderedDict()
        )
        self._bytes = 0
        self._busy: set[str] = set()

    def get(self, feed_id: str, render: Callable[[], bytes]) -> bytes:
        """Return a feed as it was rendered a short time ago, or render it.

        :raises climate_core.exceptions.FeedBusy: another request is rendering it
        :raises climate_core.exceptions.Forbidden: ``render`` raised it, now or a short time ago
        """
        with self._lock:
            found = self._find(feed_id)
        if found is None:
            with self._alone(feed_id):
                try:
                    found = render()
                except exceptions.Forbidden as exc:
                    found = exc
                with self._lock:
                    self._put(feed_id, found)
        if isinstance(found, exceptions.Forbidden):
            raise exceptions.Forbidden(found.message, found.field)
        return found

    def _find(self, feed_id: str) -> Rendered | None:
        made, found = self._rendered.get(feed_id, (0.0, None))
        if found is None or self._clock() >= made + self._seconds:
            return None
        self._rendered.move_to_end(feed_id)
        return found

    def _put(self, feed_id: str, rendered: Rendered) -> None:
        self._remove(feed_id)
        if not self._seconds:
            return
        self._rendered[feed_id] = self._clock(), rendered
        self._bytes += _size(rendered)
        while self._bytes > MOST_BYTES or len(self._rendered) > MOST_FEEDS:
            self._remove(next(iter(self._rendered)))

    def _remove(self, feed_id: str) -> None:
        _, rendered = self._rendered.pop(feed_id, (0.0, b''))
        self._bytes -= _size(rendered)

    @contextlib.contextmanager
    def _alone(self, feed_id: str) -> Iterator[None]:
        with self._lock:
            if feed_id in self._busy:
                raise exceptions.FeedBusy(
                    'The feed is being rendered for another request. Try again.'
                )
            self._busy.add(feed_id)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(feed_id)


def _size(rendered: Rendered) -> int:
    return len(rendered) if isinstance(rendered, bytes) else 0
