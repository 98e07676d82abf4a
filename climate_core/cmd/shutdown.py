# SPDX-License-Identifier: Apache-2.0
"""Wait for the end of a program: a signal, or a mistake that ends a vital thread."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable

from oslo_log import log

from climate_core.threads import VitalThread

LOG = log.getLogger(__name__)


class Shutdown:
    """Ask a program to stop, and wait until it is asked.

    No lock, queue or ``threading.Event``: Python runs a signal handler when the first thread runs
    bytecode, and a signal that comes right before that thread blocks, or that the kernel gives to
    another thread, would not wake it. A byte on a socket does, see ``signal.set_wakeup_fd``.
    """

    def __init__(self) -> None:
        self.asked = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def on_signals(self) -> None:
        """Stop at SIGTERM and SIGINT; call it in the main thread."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        """Ask the program to stop, from any thread or from a signal handler."""
        self.asked = True
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b'\0')

    def wait(self) -> None:
        """Wait until it is asked."""
        while not self.asked:
            self._reader.recv(1)


def on_broken_thread(stop: Callable[[], None]) -> threading.Event:
    """Stop the process when an exception ends a vital thread.

    It is for the program that owns the process: there is one hook for all threads.

    :param stop: called then, in that thread
    :returns: an event that is set when one of them broke
    """
    broken = threading.Event()

    def hook(args: threading.ExceptHookArgs) -> None:
        LOG.critical('A thread broke', exc_info=args.exc_value)
        if isinstance(args.thread, VitalThread):
            broken.set()
            stop()

    threading.excepthook = hook
    return broken
