# SPDX-License-Identifier: Apache-2.0
"""The ``openstack`` command in processes that are forked.

To import the clients of all services takes most of the time of a command: here one process has
done so, and each command is forked from it. It runs the entry point of the installed script, in
a process of its own, with the arguments, the variables and the output that the script would have.
"""

import functools
import importlib.metadata
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

_FORK = multiprocessing.get_context('forkserver')
_FORK.set_forkserver_preload(['tests.cloud.scripts_preload'])


@functools.cache
def entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the scripts of this Python environment by their names."""
    found = importlib.metadata.entry_points(group='console_scripts')
    return {each.name: each for each in found}


def run(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: str = '.'
) -> subprocess.CompletedProcess[str]:
    """Run a script of this Python environment; its exit status and what it printed."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = (pathlib.Path(directory, name) for name in ('out', 'err'))
        process = _FORK.Process(
            target=_script, args=(list(arguments), dict(environment), cwd, str(out), str(err))
        )
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            arguments,
            process.exitcode,
            out.read_text(encoding='utf-8'),
            err.read_text(encoding='utf-8'),
        )


def _script(
    arguments: list[str], environment: dict[str, str], cwd: str, out: str, err: str
) -> None:
    """Do what the script does that pip has written for the entry point."""
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, stream.fileno())
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [shutil.which(arguments[0]) or arguments[0], *arguments[1:]]
    sys.exit(entry_points()[arguments[0]].load()())
