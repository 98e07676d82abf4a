# SPDX-License-Identifier: Apache-2.0
"""The processes of a program: wait for the end of one, or run several managers.

A process of Python has one core, so several managers are several processes. Each of them is a
manager like any other, with its own name on the message bus. A process that ends is started
again. SIGTERM lets all of them finish their work; SIGINT ends them immediately, and their work
is resumed when its claim expires. SIGHUP restarts them one by one, with the configuration that
was read at the start.

This is cotyledon as it is, and not in the wrapper that oslo.service has for it, which takes
services that are created before the fork: a manager opens connections and starts threads when
it is created.
"""

import contextlib
import dataclasses
import math
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Event

import cotyledon
import cotyledon.types
from oslo_config import cfg
from oslo_log import log
from oslo_utils import netutils

from climate_core import process, service
from climate_core.cmd import startup_errors
from climate_core.delivery import metrics
from climate_core.threads import VitalThread

LOG = log.getLogger(__name__)


class Shutdown:
    """Request the stop of a program, and wait for the request.

    No lock, queue or ``threading.Event``: Python runs a signal handler when the first thread runs
    bytecode, and a signal that comes right before that thread blocks, or that the kernel gives to
    another thread, would not wake it. A byte on a socket does, see ``signal.set_wakeup_fd``.
    """

    def __init__(self) -> None:
        self.requested = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def on_signals(self) -> None:
        """Stop at SIGTERM and SIGINT; call it in the main thread."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        """Request the stop, from any thread or from a signal handler."""
        self.requested = True
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b'\0')

    def wait(self) -> None:
        """Wait until the stop is requested."""
        while not self.requested:
            self._reader.recv(1)


def stop_on_broken_thread(stop: Callable[[], None]) -> threading.Event:
    """Stop the process when an exception ends a vital thread.

    Only the program that owns the process may call it: there is one hook for all threads.

    :param stop: called in that thread
    :returns: an event that is set when a vital thread broke
    """
    broken = threading.Event()

    def hook(args: threading.ExceptHookArgs) -> None:
        LOG.critical('A thread broke', exc_info=args.exc_value)
        if isinstance(args.thread, VitalThread):
            broken.set()
            stop()

    threading.excepthook = hook
    return broken


#: Seconds after ``[engine] grace_seconds`` to disconnect from the message bus.
_BUS_SECONDS = 10
_LAST_PORT = 65535


@dataclasses.dataclass(frozen=True)
class _SharedState:
    """State of the managers, shared by the processes of one program.

    :param started: at least one manager has started
    :param failed_to_start: a manager cannot start, and none has started
    :param work_left: unfinished work is resumed when its claim expires
    """

    started: Event
    failed_to_start: Event
    work_left: Event


class ManagerProcess(cotyledon.Service):
    """A manager in its own process."""

    name = 'manager'

    def __init__(
        self, worker_id: cotyledon.types.WorkerId, conf: cfg.ConfigOpts, shared: _SharedState
    ) -> None:
        super().__init__(worker_id)
        self._shared = shared
        self._is_running = threading.Event()
        stop_on_broken_thread(end_process)
        process.report_on_signal(conf)
        try:
            name_worker(conf, worker_id)
            self._manager = service.ManagerService(conf)
        except startup_errors.CANNOT_START as exc:
            LOG.error('The manager does not start: %s', startup_errors.describe_error(conf, exc))
            self._stop_program()
            raise SystemExit(1) from exc

    def run(self) -> None:
        self._manager.start()
        self._is_running.set()
        self._shared.started.set()

    def terminate(self) -> None:
        # SIGTERM may come while run() is still in progress, in another thread.
        self._is_running.wait()
        if not self._manager.stop():
            LOG.warning('Work in progress is left; it is taken up when its claim expires')
            self._shared.work_left.set()

    def _stop_program(self) -> None:
        """Stop the program if no manager has started. Otherwise cotyledon restarts this one."""
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid and not self._shared.started.is_set():
            self._shared.failed_to_start.set()
            os.kill(parent.pid, signal.SIGTERM)


def run_managers(conf: cfg.ConfigOpts, count: int) -> int:
    """Run managers until SIGTERM; SIGINT ends the process.

    :param count: number of managers
    :returns: 0; 1 if they cannot start, or if work is left that is resumed later
    """
    # Their arguments cannot be pickled.
    context = multiprocessing.get_context('fork')
    shared = _SharedState(context.Event(), context.Event(), context.Event())
    supervisor = cotyledon.ServiceManager(
        graceful_shutdown_timeout=math.ceil(conf.engine.grace_seconds) + _BUS_SECONDS,
        mp_context=context,
    )
    # The work that a restarted manager had left was resumed since.
    supervisor.register_hooks(on_terminate=shared.work_left.clear)
    supervisor.add(ManagerProcess, workers=count, args=(conf, shared))
    try:
        supervisor.run()
    except SystemExit as end:
        return int(end.code or shared.failed_to_start.is_set() or shared.work_left.is_set())
    return 0


def name_worker(conf: cfg.ConfigOpts, number: int) -> None:
    """Give a manager its own name on the bus, and its own port for metrics.

    :param number: number of the process, from 0. On host ``controller`` the first manager is
        ``controller-1``, with its metrics at the configured port, and the second
        ``controller-2``, at the next port
    :raises climate_core.delivery.metrics.BadAddress: ``[metrics] listen`` is invalid
    """
    conf.set_override('host', f'{conf.manager.host}-{number + 1}', group='manager')
    if conf.metrics.listen:
        host, port = metrics.parse_address(conf.metrics.listen)
        if port + number > _LAST_PORT:
            raise metrics.BadAddress(
                f'[metrics] listen must be a port up to {_LAST_PORT - number}, so that each of '
                f'the [manager] workers has one, not {port}'
            )
        address = f'{netutils.escape_ipv6(host)}:{port + number if port else 0}'
        conf.set_override('listen', address, group='metrics')


def end_process() -> None:
    """End this process as SIGTERM does; cotyledon restarts it."""
    os.kill(os.getpid(), signal.SIGTERM)
