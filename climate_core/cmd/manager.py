# SPDX-License-Identifier: Apache-2.0
"""The console script ``climate-manager``: one manager, or several in processes of their own.

A process of Python has one core, so several managers are several processes. Each of them is a
manager like any other, with its own name on the message bus. A process that ends is started
again. SIGTERM lets all of them finish their work; SIGINT ends them immediately, and their work
is resumed when its claim expires. SIGHUP restarts them one by one, with the configuration that
was read at the start.

This is cotyledon as it is, and not in the wrapper that oslo.service has for it, which takes
services that are created before the fork: a manager opens connections and starts threads when
it is created.
"""

import dataclasses
import gc
import math
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from multiprocessing.synchronize import Event

from climate_core import process

with process.skip_unneeded_imports():
    from oslo_service import backend

    # Before anything that may import the rest of oslo.service, whose own default is eventlet.
    backend.init_backend(backend.BackendType.THREADING)

    import cotyledon
    import cotyledon.types
    from oslo_config import cfg
    from oslo_log import log
    from oslo_utils import netutils

    from climate_core import conf as config
    from climate_core import service
    from climate_core.cmd import console
    from climate_core.db import migration
    from climate_core.delivery import metrics
    from climate_core.threads import Shutdown, stop_on_broken_thread

LOG = log.getLogger(__name__)

_CLI = [
    cfg.IntOpt(
        'workers',
        min=1,
        help='Number of managers, each in its own process; default: [manager] workers.',
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a manager until SIGTERM or SIGINT.

    :returns: 0; 1 if it cannot start, broke, or left work that is resumed later
    :raises SystemExit: with 2: the command line or a file that it names cannot be used
    """
    words = sys.argv[1:] if argv is None else argv
    with console.exit_if_invalid('climate-manager'):
        conf = config.load(words, cli=_CLI, has_api=False)
    log.setup(conf, config.PROJECT)
    process.report_on_signal(conf)
    try:
        migration.check(conf)
        # As in climate_core.wsgi.api; the managers of one program share the loaded modules.
        gc.collect()
        gc.freeze()
        process.share_arenas()
        count = conf.workers or conf.manager.workers
        if count > 1:
            return run_managers(conf, count)
        manager = service.ManagerService(conf)
    except console.CANNOT_START as exc:
        LOG.error('The manager does not start: %s', console.describe_error(conf, exc))
        return 1
    return _run(manager)


def _run(manager: service.ManagerService) -> int:
    stop = Shutdown()
    broken = stop_on_broken_thread(stop.set)
    stop.on_signals()
    manager.start()
    stop.wait()
    if manager.stop():
        return int(broken.is_set())
    LOG.warning('Work in progress is left; it is resumed when its claim expires')
    sys.stdout.flush()
    # Python would wait for the threads that are still working.
    os._exit(1)


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
        except console.CANNOT_START as exc:
            LOG.error('The manager does not start: %s', console.describe_error(conf, exc))
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
            LOG.warning('Work in progress is left; it is resumed when its claim expires')
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
