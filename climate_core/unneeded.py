# SPDX-License-Identifier: Apache-2.0
"""Import libraries as if eventlet were not installed.

The services of Climate work in threads. Where another service of the same environment has
eventlet, futurist imports it all the same, and oslo.messaging and oslo.service import futurist: it
takes 11 MiB, for a resolver of names and copies of the standard library.
"""

import contextlib
import sys
from collections.abc import Iterator

_NAME = 'eventlet'


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Keep what is imported in the context from eventlet, unless it is there already."""
    if _NAME in sys.modules:
        yield
        return
    sys.modules[_NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_NAME]
