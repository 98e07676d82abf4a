# SPDX-License-Identifier: Apache-2.0
"""Run several managers as the processes of one program: a process of Python has one core.

Each of them is a manager like any other, with a name of its own on the message bus. One that ends
is started again. SIGTERM lets all of them finish their work; SIGINT ends them at once, and what
they were at is taken up when its claim expires. SIGHUP starts them anew one by one, with the
configuration that was read at the start.

This is cotyledon as it is, and not in the wrapper that oslo.service has for it, which takes
services that are made before the fork: a manager opens connections and starts threads when made.
"""

import dataclasses
import math
import multiprocessing
import os
import signal
import threading
from multiprocessing.synchronize import Event

import cotyledon
import cotyledon.types
from oslo_config import cfg
from oslo_log import log
from oslo_utils import netutils

from climate_core import process, service
from climate_core.cmd import explain, shutdown
from climate_core.delivery import metrics

LOG = log.getLogger(__name__)

#: Seconds after ``[engine] grace_seconds`` in which the message bus is left.
_CLOSING = 10
_LAST_PORT = 65535


@dataclasses.dataclass(frozen=True)
class _Shared:
    """Share between the processes of one program what became of their managers.

    :param started: a manager runs
    :param refused: none runs yet, and one cannot start
    :param left: work was left to be taken up later
    """

    started: Event
    refused: Event
    left: Event


class ManagerProcess(cotyledon.Service):
    """One manager in a process of its own."""

    name = 'manager'

    def __init__(
        self, worker_id: cotyledon.types.WorkerId, conf: cfg.ConfigOpts, shared: _Shared
    ) -> None:
        super().__init__(worker_id)
        self._shared = shared
        self._is_running = threading.Event()
        shutdown.on_broken_thread(end_process)
        process.report_on_signal(conf)
        try:
            name_worker(conf, worker_id)
            self._manager = service.ManagerService(conf)
        except explain.CANNOT_START as exc:
            LOG.error('The manager does not start: %s', explain.explain(conf, exc))
            self._refuse()
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
            self._shared.left.set()

    def _refuse(self) -> None:
        """Stop the program if no manager has run; later ones are started again and again."""
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid and not self._shared.started.is_set():
            self._shared.refused.set()
            os.kill(parent.pid, signal.SIGTERM)


def run(conf: cfg.ConfigOpts, count: int) -> int:
    """Run so many managers until SIGTERM; SIGINT ends the process.

    :returns: 0; 1 when they cannot start, or left work to be taken up later
    """
    # What they are given cannot be pickled.
    context = multiprocessing.get_context('fork')
    shared = _Shared(context.Event(), context.Event(), context.Event())
    supervisor = cotyledon.ServiceManager(
        graceful_shutdown_timeout=math.ceil(conf.engine.grace_seconds) + _CLOSING,
        mp_context=context,
    )
    # What one that was started again had left was taken up since.
    supervisor.register_hooks(on_terminate=shared.left.clear)
    supervisor.add(ManagerProcess, workers=count, args=(conf, shared))
    try:
        supervisor.run()
    except SystemExit as end:
        return int(end.code or shared.refused.is_set() or shared.left.is_set())
    return 0


def name_worker(conf: cfg.ConfigOpts, number: int) -> None:
    """Give a manager its own name on the bus, and its own port for metrics.

    :param number: of the process, from 0: ``controller`` is ``controller-1``, and its metrics are
        at the port that is configured, those of ``controller-2`` at the next one
    :raises climate_core.delivery.metrics.BadAddress: ``[metrics] listen`` makes no sense
    """
    conf.set_override('host', f'{conf.manager.host}-{number + 1}', group='manager')
    if conf.metrics.listen:
        host, port = metrics.parse(conf.metrics.listen)
        if port + number > _LAST_PORT:
            raise metrics.BadAddress(
                f'[metrics] listen must be a port up to {_LAST_PORT - number}, so that each of '
                f'the [manager] workers has one, not {port}'
            )
        address = f'{netutils.escape_ipv6(host)}:{port + number if port else 0}'
        conf.set_override('listen', address, group='metrics')


def end_process() -> None:
    """End this process as SIGTERM does; it is started again."""
    os.kill(os.getpid(), signal.SIGTERM)
