# SPDX-License-Identifier: Apache-2.0
"""A watch on the threads without which a process would look alive and do nothing."""

import threading
from collections.abc import Collection

from oslo_log import log

LOG = log.getLogger(__name__)

#: The threads of a manager that must not end before it.
THREADS = frozenset({'loop', 'claims', 'publisher', 'reconcile', 'usage', 'webhooks'})


def watch(stop: threading.Event, threads: Collection[str] = THREADS) -> threading.Event:
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
