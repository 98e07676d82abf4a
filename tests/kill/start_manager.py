# SPDX-License-Identifier: Apache-2.0
"""Start climate-manager with a hook at the engine's points.

``python -m tests.kill.start_manager --config-file FILE [--kill POINT:EVENT_TYPE:COUNT]``

Every point is written to the standard output, ``point event_type``, which is how a test waits. At
the COUNT-th time that POINT is reached for EVENT_TYPE the whole process group is killed.
"""

import argparse
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

from climate_core.cmd import manager
from climate_core.engine import points


class Hook:
    """Tells the points, and kills at one of them.

    :param kill: ``POINT:EVENT_TYPE:COUNT``, or None for never
    """

    def __init__(self, kill: str | None) -> None:
        point, event_type, count = kill.split(':') if kill else (None, None, 0)
        self._fatal = (point, event_type)
        self._left = int(count)
        self._lock = threading.Lock()

    def __call__(self, name: str, info: dict[str, Any]) -> None:
        with self._lock:
            os.write(1, f'{name} {info["event_type"]}\n'.encode())
            if (name, info['event_type']) == self._fatal:
                self._left -= 1
                if not self._left:
                    os.killpg(0, signal.SIGKILL)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description='climate-manager that dies where it is told.')
    parser.add_argument('--config-file', required=True)
    parser.add_argument('--kill')
    args = parser.parse_args(argv)
    points.install(Hook(args.kill))
    manager.main(['--config-file', args.config_file])


if __name__ == '__main__':
    main()
