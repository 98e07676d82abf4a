# SPDX-License-Identifier: Apache-2.0
"""The console script ``climate-manager``."""

import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from oslo_service import backend

# Before anything that may import the rest of oslo.service, whose own default is eventlet.
backend.init_backend(backend.BackendType.THREADING)

from oslo_log import log  # noqa: E402
from oslo_reports import guru_meditation_report as gmr  # noqa: E402
from oslo_reports import opts as gmr_opts  # noqa: E402

from climate_core import conf as config  # noqa: E402
from climate_core.db import migration  # noqa: E402
from climate_core.manager import service  # noqa: E402
from climate_core.plugins import loading  # noqa: E402

LOG = log.getLogger(__name__)


class _Version:
    """What oslo.reports wants to know about the program."""

    vendor_string = staticmethod(lambda: 'OpenStack')
    product_string = staticmethod(lambda: 'Climate')
    version_string_with_package = staticmethod(
        lambda: importlib.metadata.version('openstack-climate')
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a manager until SIGTERM or SIGINT.

    :returns: 0; 1 when it cannot start or left work to be taken up later
    """
    conf = config.load(sys.argv[1:] if argv is None else argv)
    log.setup(conf, config.PROJECT)
    gmr_opts.set_defaults(conf)
    gmr.TextGuruMeditation.setup_autorun(version=_Version, conf=conf)
    try:
        migration.check(conf)
        manager = service.ManagerService(conf)
    except (migration.WrongVersion, loading.PluginError) as exc:
        LOG.error('The manager does not start: %s', exc)
        return 1
    stop = threading.Event()

    def asked(_number: int, _frame: Any) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    manager.start()
    stop.wait()
    if manager.stop():
        return 0
    LOG.warning('Work in progress is left; it is taken up when its claim expires')
    sys.stdout.flush()
    # Python would wait for the threads that are still at it.
    os._exit(1)
