# SPDX-License-Identifier: Apache-2.0
"""Let one command at a time change a cloud."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from climate_cloud.settings import Settings


@contextlib.contextmanager
def exclusive(settings: Settings) -> Iterator[int]:
    """Hold the cloud's lock; yield its descriptor.

    A child that inherits the descriptor holds the lock too, so a second command waits for what
    an interrupted first one still has running.
    """
    settings.run.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(settings.run / 'lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print('  waiting for another command on this cloud ...', flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
