# SPDX-License-Identifier: Apache-2.0
"""The console script ``climate-manager``."""

import gc
import os
import sys
from collections.abc import Sequence

from climate_core import process

with process.skip_unneeded_imports():
    from oslo_service import backend

    # Before anything that may import the rest of oslo.service, whose own default is eventlet.
    backend.init_backend(backend.BackendType.THREADING)

    from oslo_config import cfg
    from oslo_log import log

    from climate_core import conf as config
    from climate_core import service
    from climate_core.cmd import processes, startup_errors
    from climate_core.db import migration

LOG = log.getLogger(__name__)

_CLI = [
    cfg.IntOpt(
        'workers',
        min=1,
        help='Number of managers, each in a process of its own; default: [manager] workers.',
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a manager until SIGTERM or SIGINT.

    :returns: 0; 1 if it cannot start, broke, or left work that is resumed later
    :raises SystemExit: with 2: the command line or a file that it names cannot be used
    """
    words = sys.argv[1:] if argv is None else argv
    with startup_errors.exit_if_invalid('climate-manager'):
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
            return processes.run_managers(conf, count)
        manager = service.ManagerService(conf)
    except startup_errors.CANNOT_START as exc:
        LOG.error('The manager does not start: %s', startup_errors.describe_error(conf, exc))
        return 1
    return _run(manager)


def _run(manager: service.ManagerService) -> int:
    stop = processes.Shutdown()
    broken = processes.stop_on_broken_thread(stop.set)
    stop.on_signals()
    manager.start()
    stop.wait()
    if manager.stop():
        return int(broken.is_set())
    LOG.warning('Work in progress is left; it is taken up when its claim expires')
    sys.stdout.flush()
    # Python would wait for the threads that are still working.
    os._exit(1)
