# SPDX-License-Identifier: Apache-2.0
"""Keep the notifications that this process has written and not sent yet."""

import collections
import time
from collections.abc import Sequence

from climate_core.db.outbox import NewNotification

#: How many are kept; what is more is left to the database, and to any manager.
MOST = 1000


class WrittenNotifications:
    """A queue of notifications that are claimed, with the times when their claims expire.

    Once it was full it takes no more until it is opened again: what is in the database is newer
    than what is here, and older than what comes. Any thread may add, one takes from it.
    """

    def __init__(self) -> None:
        self._items: collections.deque[tuple[NewNotification, float]] = collections.deque()
        self.is_open = True

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self) -> bool:
        """Tell whether it takes what is written now."""
        if len(self._items) >= MOST:
            self.is_open = False
        return self.is_open

    def add(self, notifications: Sequence[NewNotification], until: float) -> None:
        """Keep notifications.

        :param until: when their claim expires, by the monotonic clock
        """
        self._items.extend((each, until) for each in notifications)

    def has_expired(self) -> bool:
        """Tell whether another manager may have the next one by now."""
        return bool(self._items) and self._items[0][1] <= time.monotonic()

    def pop(self) -> NewNotification:
        """Take the next one.

        :raises IndexError: there is none
        """
        return self._items.popleft()[0]

    def clear(self) -> set[str]:
        """Drop what is kept; return the names of its claims."""
        return {self.pop().claim for _ in range(len(self))}
