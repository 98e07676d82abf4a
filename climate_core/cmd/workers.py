# SPDX-License-Identifier: Apache-2.0
"""Run several managers as the processes of one program: a process of Python has one core.

Each of them is a manager like any other, with a name of its own on the message bus. One that ends
is started again. SIGTERM lets all of them finish their work; SIGINT ends them at once, and what
they were at is taken up when its claim expires.
"""

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

from climate_core import service
from climate_core.cmd import explain
from climate_core.delivery import metrics
from climate_core.threads import VitalThread

LOG = log.getLogger(__name__)

#: Seconds after ``[engine] grace_seconds`` in which the message bus is left.
_CLOSING = 10


class ManagerProcess(cotyledon.Service):
    """One manager in a process of its own.

    :param failed: is set when a manager cannot start, or leaves work to be taken up later
    """

    name = 'manager'

    def __init__(
        self, worker_id: cotyledon.types.WorkerId, conf: cfg.ConfigOpts, failed: Event
    ) -> None:
        super().__init__(worker_id)
        self._failed = failed
        threading.excepthook = _stop_when_broken
        try:
            name_worker(conf, worker_id)
            self._manager = service.ManagerService(conf)
        except explain.CANNOT_START as exc:
            LOG.error('The manager does not start: %s', explain.explain(conf, exc))
            failed.set()
            os.kill(os.getppid(), signal.SIGTERM)
            raise SystemExit(1) from exc

    def run(self) -> None:
        self._manager.start()

    def terminate(self) -> None:
        if not self._manager.stop():
            LOG.warning('Work in progress is left; it is taken up when its claim expires')
            self._failed.set()


def run(conf: cfg.ConfigOpts, count: int) -> int:
    """Run so many managers until SIGTERM or SIGINT.

    :returns: 0; 1 when one cannot start, or left work to be taken up later
    """
    failed = multiprocessing.Event()
    supervisor = cotyledon.ServiceManager(int(conf.engine.grace_seconds) + _CLOSING)
    supervisor.add(ManagerProcess, workers=count, args=(conf, failed))
    try:
        supervisor.run()
    except SystemExit as end:
        return int(end.code or failed.is_set())
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
        address = f'{netutils.escape_ipv6(host)}:{port + number if port else 0}'
        conf.set_override('listen', address, group='metrics')


def _stop_when_broken(broken: threading.ExceptHookArgs) -> None:
    """End this process when an exception ends a thread that it needs; it is started again."""
    LOG.critical('A thread broke', exc_info=broken.exc_value)
    if isinstance(broken.thread, VitalThread):
        os.kill(os.getpid(), signal.SIGTERM)
