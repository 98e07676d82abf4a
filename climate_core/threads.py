# SPDX-License-Identifier: Apache-2.0
"""A thread that looks for work, does it, and sleeps until there is more or it is nudged."""

import threading
from collections.abc import Callable

from oslo_log import log

LOG = log.getLogger(__name__)

#: The longest pause after trouble, in seconds; it begins with two.
_PAUSE = 30.0


class Worker:
    """The skeleton that the loop, the publisher and the sender of webhooks share.

    :param name: of the thread
    :param look: does what is to be done now, and returns the seconds until there is something
        again; None when that is not known
    :param idle_seconds: the longest sleep
    :param trouble: what ``look`` may raise; it is logged and tried again after a pause
    :param complaint: the sentence for the log
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], float | None],
        idle_seconds: float,
        trouble: tuple[type[Exception], ...],
        complaint: str,
    ) -> None:
        self._look = look
        self._idle_seconds = idle_seconds
        self._trouble = trouble
        self._complaint = complaint
        self._failures = 0
        self._nudged = False
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether nothing new shall be begun."""
        return self._stopping

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Have it look now, or once more if it is looking."""
        with self._changed:
            self._nudged = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Have it end after what it is doing now; does not wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for its end; tell whether that came in time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                self._nudged = False
            try:
                seconds = self._look()
                self._failures = 0
            except self._trouble:
                LOG.exception(self._complaint)
                self._failures += 1
                seconds = min(_PAUSE, 2.0**self._failures)
            self._sleep(seconds)

    def _sleep(self, seconds: float | None) -> None:
        timeout = nap(seconds, self._idle_seconds)
        with self._changed:
            self._changed.wait_for(lambda: self._nudged or self._stopping, timeout)


def nap(seconds: float | None, longest: float) -> float:
    """Return how long to sleep: clocks are set, and hints get lost, so not for too long."""
    return longest if seconds is None else min(seconds, longest)
