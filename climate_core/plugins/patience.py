# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next look, and what was asked for already.

Only a memory: a manager that starts anew looks a little too early once, nothing else.
"""

import collections
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from climate_core import exceptions
from climate_core.plugins.base import Wait

V = TypeVar('V')

_REST: Final = 'rest'
_KEPT: Final = 10_000
#: Looks after which it is told that something is still on its way: about ten minutes.
_LONG: Final = 30


class Patience:
    """Counts the looks at each reservation; the waits between them grow.

    :param first: seconds of the first wait
    :param longest: seconds that no wait exceeds
    """

    def __init__(self, first: float = 0.5, longest: float = 30.0, factor: float = 1.5) -> None:
        self._first = first
        self._longest = longest
        self._factor = factor
        self._lock = threading.Lock()
        self._looks: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._failures: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._asked: collections.OrderedDict[str, str] = collections.OrderedDict()
        self._reasons: collections.OrderedDict[str, str | None] = collections.OrderedDict()

    def wait(self, reservation_id: str, doing: str | None = None) -> Wait:
        """Return the next wait, longer than the one before.

        :param doing: what it is that is waited for, told when there were many looks
        """
        with self._lock:
            looks = self._looks.get(reservation_id, 0)
            self._put(self._looks, reservation_id, looks + 1)
        power = min(looks, 50)
        reason = f'{doing} for a long time already.' if doing and looks >= _LONG else None
        return Wait(min(self._longest, self._first * self._factor**power), reason)

    def looks(self, reservation_id: str) -> int:
        """Return how many waits there were since something was asked for."""
        with self._lock:
            return self._looks.get(reservation_id, 0)

    def is_due(self, reservation_id: str, looks: int) -> bool:
        """Tell whether there were so many looks, or twice or three times as many."""
        seen = self.looks(reservation_id)
        return seen > 0 and seen % looks == 0

    def asked(self, reservation_id: str, what: str) -> Wait:
        """Remember that something was asked for, and return the first wait."""
        with self._lock:
            self._put(self._asked, reservation_id, what)
            self._looks.pop(reservation_id, None)
        return self.wait(reservation_id)

    def asking(self, reservation_id: str, what: str) -> None:
        """Remember that something is asked for, before the answer; the looks go on."""
        with self._lock:
            self._put(self._asked, reservation_id, what)

    def last(self, reservation_id: str) -> str | None:
        """Return what was asked for last, without forgetting it."""
        with self._lock:
            return self._asked.get(reservation_id)

    def was_asked(self, reservation_id: str, what: str) -> bool:
        """Tell whether this was the last thing asked for, and forget that it was."""
        with self._lock:
            found = self._asked.get(reservation_id) == what
            if found:
                del self._asked[reservation_id]
            return found

    def failed(self, reservation_id: str, reason: str | None = None) -> None:
        """Remember that what was asked for did not come about.

        :param reason: told again while it rests
        """
        with self._lock:
            failures = self._failures.get(reservation_id, 0) + 1
            self._put(self._failures, reservation_id, failures)
            self._put(self._asked, reservation_id, _REST)
            self._put(self._reasons, reservation_id, reason)

    def failures(self, reservation_id: str) -> int:
        """Return how often that was so."""
        with self._lock:
            return self._failures.get(reservation_id, 0)

    def rest(self, reservation_id: str) -> Wait | None:
        """Return a wait once after each failure, twice as long as the one before."""
        if not self.was_asked(reservation_id, _REST):
            return None
        with self._lock:
            power = min(self._failures.get(reservation_id, 0), 50)
            reason = self._reasons.get(reservation_id)
        return Wait(min(self._longest, self._first * 2.0**power), reason)

    def again(self, reservation_id: str, what: str, failed: Callable[[], str]) -> Wait | None:
        """Give a rest before the next try if something that was asked for did not come about.

        :param failed: says what went wrong
        :raises climate_core.exceptions.Transient: it went wrong just now
        """
        if self.was_asked(reservation_id, what):
            reason = failed()
            self.failed(reservation_id, reason)
            raise exceptions.Transient(reason)
        return self.rest(reservation_id)

    def once(
        self, reservation_id: str, what: str, failed: Callable[[], str], ask: Callable[[], None]
    ) -> Wait:
        """Ask for something; after a failure tell that, then rest, then ask again.

        :param failed: says what went wrong
        :param ask: asks for it
        :raises climate_core.exceptions.Transient: it went wrong just now
        """
        return self.again(reservation_id, what, failed) or self.ask(reservation_id, what, ask)

    def ask(self, reservation_id: str, what: str, ask: Callable[[], None]) -> Wait:
        """Ask for something whatever became of it before; a refusal is a failure, too.

        :raises climate_core.exceptions.Permanent: it is refused
        """
        try:
            ask()
        except exceptions.Permanent as exc:
            self.failed(reservation_id, str(exc))
            raise
        return self.asked(reservation_id, what)

    def done(self, reservation_id: str) -> None:
        """Forget the reservation."""
        with self._lock:
            self._failures.pop(reservation_id, None)
            self._looks.pop(reservation_id, None)
            self._asked.pop(reservation_id, None)
            self._reasons.pop(reservation_id, None)

    @staticmethod
    def _put(kept: 'collections.OrderedDict[str, V]', key: str, value: V) -> None:
        kept[key] = value
        kept.move_to_end(key)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
