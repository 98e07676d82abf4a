# SPDX-License-Identifier: Apache-2.0
"""What a program waits for: a signal, or the end of a thread without which it does nothing."""

import queue
import threading
from collections.abc import Collection

from oslo_log import log

LOG = log.getLogger(__name__)

#: The threads of a manager that must not end before it.
THREADS = frozenset({'loop', 'claims', 'publisher', 'reconcile', 'usage', 'webhooks'})


class Stop:
    """What a program waits for until it is told to stop.

    No ``threading.Event``: a signal handler runs in the thread that waits, perhaps while that
    holds the event's lock, and would then wait for itself. ``queue.SimpleQueue.put`` is made to
    be called from there.
    """

    def __init__(self) -> None:
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Tell it, from any thread or from a signal handler."""
        self._told.put(None)

    def is_set(self) -> bool:
        """Tell whether it was told and :meth:`wait` was not called since."""
        return not self._told.empty()

    def wait(self) -> None:
        """Wait until it is told."""
        self._told.get()


def watch(stop: Stop, threads: Collection[str] = THREADS) -> threading.Event:
    """Have the process end when an exception ends one of its vital threads.

    It is for the program that owns the process: there is one hook for all threads.

    :param stop: what the program waits for; it is set then
    :param threads: the names of those that are vital
    :returns: an event that is set when one of them broke
    """
    broken = threading.Event()

    def broke(args: threading.ExceptHookArgs) -> None:
        LOG.critical('A thread broke', exc_info=args.exc_value)
        if args.thread is not None and args.thread.name in threads:
            broken.set()
            stop.set()

    threading.excepthook = broke
    return broken
