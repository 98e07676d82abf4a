# SPDX-License-Identifier: Apache-2.0
"""The report of a running process: its threads, its release and its configuration."""

import importlib.metadata
import signal
import threading
import types
from typing import Any

from oslo_config import cfg
from oslo_reports import opts


class _Version:
    """The name and release of the program, as oslo.reports asks for them."""

    vendor_string = staticmethod(lambda: 'OpenStack')
    product_string = staticmethod(lambda: 'Climate')
    version_string_with_package = staticmethod(
        lambda: importlib.metadata.version('openstack-climate')
    )


def on_demand(conf: cfg.ConfigOpts) -> None:
    """Write a report whenever the process gets SIGUSR2.

    With ``[oslo_reports] file_event_handler`` it is written when that file is touched instead. A
    WSGI server that loads the application in another thread than the first, where no signal can
    be listened to, leaves only that.
    """
    opts.set_defaults(conf)
    first = threading.current_thread() is threading.main_thread()
    if conf.oslo_reports.file_event_handler:
        _reports().setup_autorun(version=_Version, conf=conf, setup_signal=False)
    elif first:
        signal.signal(signal.SIGUSR2, lambda _number, frame: _write(conf, frame))


def _write(conf: cfg.ConfigOpts, frame: types.FrameType | None) -> None:
    _reports().handle_signal(_Version, None, conf.oslo_reports.log_dir, frame)


def _reports() -> Any:
    # With Jinja2 it takes 3 MiB, and most processes write none.
    from oslo_reports import guru_meditation_report

    return guru_meditation_report.TextGuruMeditation
