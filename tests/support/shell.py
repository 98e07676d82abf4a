# SPDX-License-Identifier: Apache-2.0
"""The ``openstack`` command in this process."""

import logging
import os
from collections.abc import Callable, Mapping

import pytest

#: Gives the exit status, the standard output and the standard error output.
Openstack = Callable[..., tuple[int, str, str]]


def prepared(
    environment: Mapping[str, str], capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> Openstack:
    """Make the command with this environment; other OS_* variables are dropped."""
    from openstackclient import shell
    from osc_lib import clientmanager

    for cached in vars(clientmanager.ClientManager).values():
        if isinstance(cached, clientmanager.ClientCache):  # one per process, not per shell
            patch.setattr(cached, '_handle', None)
    for name in [name for name in os.environ if name.startswith('OS_')]:
        patch.delenv(name)
    for name, value in environment.items():
        patch.setenv(name, value)

    def run(*argv: str) -> tuple[int, str, str]:
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        # One that another command has left may write to a file that is closed by now.
        root.handlers[:] = []
        try:
            status = int(shell.OpenStackShell().run(list(argv)) or 0)
        except SystemExit as stop:  # argparse leaves so
            status = int(stop.code or 0)
        finally:  # the shell expects to be the only one in its process
            root.handlers[:] = handlers
            root.setLevel(level)
        captured = capsys.readouterr()
        return status, captured.out, _without_others(captured.err)

    return run


def _without_others(err: str) -> str:
    """Leave out what the shell says about broken plugins of other projects."""
    lines = err.splitlines(keepends=True)
    return ''.join(line for line in lines if not line.startswith('Could not load '))
