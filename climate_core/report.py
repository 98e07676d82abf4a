# SPDX-License-Identifier: Apache-2.0
"""The report of a running process: its threads, its release and its configuration."""

import importlib.metadata
import threading

from oslo_config import cfg
from oslo_reports import guru_meditation_report as gmr
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
    gmr.TextGuruMeditation.setup_autorun(version=_Version, conf=conf, setup_signal=first)
