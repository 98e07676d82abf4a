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

_UNNEEDED = ('eventlet', 'osprofiler')


@contextlib.contextmanager
def skip_unneeded_imports() -> Iterator[None]:
    """Keep what is imported in the context from them, unless they are there already."""
    names = [each for each in _UNNEEDED if each not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for each in names:
            del sys.modules[each]


#: From glibc's malloc.h.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def share_arenas() -> bool:
    """Use few arenas: by default many threads have one each, which keeps what it has grown to.

    An operator may choose how many by the environment variable ``MALLOC_ARENA_MAX``.

    :returns: whether that is so now; False where malloc is another one
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
    """Write a report whenever the process gets SIGUSR2.

    With ``[oslo_reports] file_event_handler`` it is written when that file is touched instead. A
    WSGI server that loads the application in another thread than the first, where no signal can
    be listened to, leaves only that.
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
