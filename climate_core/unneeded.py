# SPDX-License-Identifier: Apache-2.0
"""Import libraries as if what the services do not need were not installed.

Where other services share the environment it is, and libraries import it all the same:

- eventlet, since the services of Climate work in threads: oslo.messaging and oslo.service import
  futurist, and that eventlet. It takes 11 MiB, for a resolver of names and copies of the standard
  library;
- osprofiler, which nothing here is traced with: keystoneauth imports it with WebOb, 3 MiB in a
  process that has no WSGI application.
"""

import contextlib
import sys
from collections.abc import Iterator

_NAMES = ('eventlet', 'osprofiler')


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Keep what is imported in the context from them, unless they are there already."""
    names = [each for each in _NAMES if each not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for each in names:
            del sys.modules[each]
