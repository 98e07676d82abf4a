# SPDX-License-Identifier: Apache-2.0
"""Have the threads of a process share what malloc of glibc keeps for them."""

import contextlib
import ctypes
import os
from typing import Final

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
