# SPDX-License-Identifier: Apache-2.0
"""Wait for the end of a program: a signal, or a mistake that ends a vital thread."""

import queue
import threading

from oslo_log import log

from climate_core.threads import VitalThread

LOG = log.getLogger(__name__)


class Shutdown:
    """Ask a program to stop, and wait until it is asked.

    No ``threading.Event``: a signal handler runs in the thread that waits, perhaps while that
    holds the event's lock, and would then wait for itself. ``queue.SimpleQueue.put`` is made to
    be called from there.
    """

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Ask the program to stop, from any thread or from a signal handler."""
        self._asked.put(None)

    def is_set(self) -> bool:
        """Tell whether it was asked and :meth:`wait` was not called since."""
        return not self._asked.empty()

    def wait(self) -> None:
        """Wait until it is asked."""
        self._asked.get()


def on_broken_thread(stop: Shutdown) -> threading.Event:
    """Have the process end when an exception ends a vital thread.

    It is for the program that owns the process: there is one hook for all threads.

    :param stop: is set then
    :returns: an event that is set when one of them broke
    """
    broken = threading.Event()

    def hook(args: threading.ExceptHookArgs) -> None:
        LOG.critical('A thread broke', exc_info=args.exc_value)
        if isinstance(args.thread, VitalThread):
            broken.set()
            stop.set()

    threading.excepthook = hook
    return broken
