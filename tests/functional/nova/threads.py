# SPDX-License-Identifier: Apache-2.0
"""Threads of pools that sleep until there is work.

Nova's test case has each thread of a pool look for work a hundred times a second, so that a pool
does not wait for it when it is shut down. Those of the loops of stopped services go on for many
tests, until their pools are collected.
"""

import functools
import queue

from futurist import _thread

#: Seconds after which a thread looks whether its pool is gone, which nothing tells it.
LOOK = 1.0


def sleep():
    """Let the threads of all pools sleep, and wake them when their pool waits for their end."""
    _thread.ThreadWorker._wait_for_work = _wait_for_work
    _thread.ThreadWorker.join = _join(_thread.ThreadWorker.join)


def _wait_for_work(worker):
    worker.idle = True
    while True:
        try:
            work = worker.work_queue.get(timeout=LOOK)
        except queue.Empty:
            work = None
        else:
            if work is not None:
                worker.idle = False
                return work
            worker.work_queue.task_done()
        if worker._is_dying():
            # Another thread of the pool may have been meant.
            worker.work_queue.put(None)
            raise _thread._Stopping


def _join(join):
    @functools.wraps(join)
    def woken(worker, *args, **kwargs):
        worker.work_queue.put(None)
        return join(worker, *args, **kwargs)

    return woken
