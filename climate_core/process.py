# SPDX-License-Identifier: Apache-2.0
"""The process of a program: what it imports, its memory, and the report of its state.

Import this module first: it imports nothing that :func:`skip_unneeded_imports` skips.
"""

import contextlib
import ctypes
import importlib.metadata
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Final

from oslo_config import cfg
from oslo_reports import opts

#: Libraries that the services do not need.
_UNNEEDED = ('eventlet', 'osprofiler')


@contextlib.contextmanager
def skip_unneeded_imports() -> Iterator[None]:
    """Make libraries that the context imports behave as if these were not installed.

    Where other services share the environment they are, and libraries import them all the same:

    - eventlet, since the services of Climate work in threads: oslo.messaging and oslo.service
      import futurist, and that eventlet. It takes 11 MiB, for a resolver of names and copies of
      the standard library;
    - osprofiler, which traces nothing here: keystoneauth imports it with WebOb, 3 MiB in a process
      that has no WSGI application.

    Nothing changes for those that are imported already.
    """
    names = [name for name in _UNNEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


#: From glibc's malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def share_arenas() -> bool:
    """Have the threads of this process share few arenas of glibc's malloc.

    By default many threads have an arena each, which keeps the size it has grown to. The
    environment variable ``MALLOC_ARENA_MAX`` overrides the number.

    :returns: whether the limit is set; False where malloc is not that of glibc
    """
    if 'MALLOC_ARENA_MAX' in os.environ:
        return False
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS))
    return False


class _Version:
    """The name and release of the program, as oslo.reports asks for them."""

    vendor_string = staticmethod(lambda: 'OpenStack')
    product_string = staticmethod(lambda: 'Climate')
    version_string_with_package = staticmethod(
        lambda: importlib.metadata.version('openstack-climate')
    )


def report_on_signal(conf: cfg.ConfigOpts) -> None:
    """Write a report of threads, release and configuration when the process gets SIGUSR2.

    With ``[oslo_reports] file_event_handler`` it is written when that file is touched instead.
    That is the only way in a WSGI server that loads the application in another thread than the
    first, which receives no signals.
    """
    opts.set_defaults(conf)
    first = threading.current_thread() is threading.main_thread()
    if conf.oslo_reports.file_event_handler:
        _load_reports().setup_autorun(version=_Version, conf=conf, setup_signal=False)
    elif first:
        signal.signal(signal.SIGUSR2, lambda _number, frame: _write_report(conf, frame))


def _write_report(conf: cfg.ConfigOpts, frame: types.FrameType | None) -> None:
    _load_reports().handle_signal(_Version, None, conf.oslo_reports.log_dir, frame)


def _load_reports() -> Any:
    # With Jinja2 it takes 3 MiB, and most processes write none.
    from oslo_reports import guru_meditation_report

    return guru_meditation_report.TextGuruMeditation
