# SPDX-License-Identifier: Apache-2.0
"""A shell in which the commands of a page are typed."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping

from tests.cloud import scripts
from tests.support.console import SOURCE, Block, Command, matches

#: Timeout of a command, in seconds.
SECONDS = 300

#: Stands for the script ``openstack`` on the shell's PATH: the process that has imported the
#: clients forks it.
_OPENSTACK = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
ask = [['openstack', *sys.argv[1:]], dict(os.environ), os.getcwd()]
server.sendall(json.dumps(ask).encode() + b'\\n')
status, out, err = json.load(server.makefile())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""

#: For hidden commands: wait until a command prints a value.
_FUNCTIONS = """
wait_until() {
    local wanted=$1 shown start=$SECONDS; shift
    while [ $((SECONDS - start)) -lt 120 ]; do
        shown=$("$@") || true
        if [ "$shown" = "$wanted" ]; then return; fi
        sleep 1
    done
    echo "never $wanted: $shown"; return 1
}
"""


class Terminal:
    """One bash with the credentials of some users.

    :param directory: an empty one, in which the commands run
    :param users: the variables of each user
    """

    def __init__(
        self, directory: pathlib.Path, users: Mapping[str, Mapping[str, str]], page: str
    ) -> None:
        self._page = page
        self._users = users
        self._work = directory / 'work'
        self._own = directory / 'own'
        self._work.mkdir()
        self._own.mkdir()
        self._user = ''

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Run the shell."""
        with self._openstack(), contextlib.ExitStack() as self._shell:
            self._start()
            yield

    def _start(self) -> None:
        """Start a bash in place of the one before."""
        self._shell.close()
        read, write = os.pipe()
        variables = {k: v for k, v in os.environ.items() if not k.startswith('OS_')}
        path = os.pathsep.join([str(self._own), str(pathlib.Path(sys.executable).parent)])
        variables |= {'PATH': f'{path}:{variables["PATH"]}', 'TZ': 'UTC', 'DOCS': str(SOURCE)}
        self._statuses = self._shell.enter_context(os.fdopen(read, encoding='utf-8'))
        self._bash = self._shell.enter_context(
            subprocess.Popen(
                ['bash', '--norc'],
                stdin=subprocess.PIPE,
                text=True,
                cwd=self._work,
                env=variables,
                pass_fds=[write],
                start_new_session=True,
            )
        )
        # Processes in the background end, too.
        self._shell.callback(os.killpg, self._bash.pid, signal.SIGKILL)
        os.close(write)
        self._status_fd = write
        self._user = ''
        self._send(_FUNCTIONS)

    def run(self, block: Block) -> None:
        """Run the commands of a block, and compare what they print."""
        if block.file:
            (self._work / block.file).write_text(block.commands[0].text)
            return
        if block.user != self._user:
            self._user = block.user
            # PATH has the folder of the script openstack.
            variables = {k: v for k, v in self._users[block.user].items() if k != 'PATH'}
            for name, value in variables.items():
                self._send(f'export {name}={shlex.quote(value)}\n')
        for command in block.commands:
            fails = block.fails and command is block.commands[-1]
            self._run(command, fails=fails, whole=block.hidden)

    def _run(self, command: Command, *, fails: bool, whole: bool) -> None:
        status, out, err = self.type(f'set -e\n{command.text}\nset +e' if whole else command.text)
        shown = out + err if fails else out
        wrong = ''
        if (status != 0) is not fails:
            wrong = f'exit status {status}'
        elif command.output.strip() and not matches(command.output, shown):
            wrong = f'another output\n--- expected\n{command.output.strip()}'
        assert not wrong, (
            f'{self._page}:{command.line}: {wrong}\n--- command\n{command.text}\n'
            f'--- got\n{out}{err}'
        )

    def type(self, text: str) -> tuple[int, str, str]:
        """Run a command; its exit status and what it printed."""
        script, out, err = (self._own / name for name in ('command', 'out', 'err'))
        script.write_text(text + '\n')
        # Processes in the background must not keep the pipe open when bash is killed.
        fd = self._status_fd
        self._send(f'. {script} >{out} 2>{err} </dev/null {fd}>&-; echo $? >&{fd}\n')
        timer = threading.Timer(SECONDS, self._bash.kill)
        timer.start()
        status = ''
        try:
            status = self._statuses.readline()
        finally:
            timer.cancel()
            if not status:
                # It was killed, or pytest is interrupted: other commands need another shell.
                self._start()
        # python-blazarclient names a command that it does not have.
        lines = err.read_text().splitlines(keepends=True)
        errors = ''.join(line for line in lines if not line.startswith('Could not load '))
        return int(status or -1), out.read_text(), errors

    def _send(self, text: str) -> None:
        assert self._bash.stdin
        self._bash.stdin.write(text)
        self._bash.stdin.flush()

    @contextlib.contextmanager
    def _openstack(self) -> Iterator[None]:
        """Serve the script ``openstack`` while the shell runs."""
        # The address of a socket is short.
        with (
            tempfile.TemporaryDirectory(prefix='c-') as directory,
            socket.socket(socket.AF_UNIX) as server,
        ):
            address = f'{directory}/s'
            server.bind(address)
            server.listen()
            script = self._own / 'openstack'
            script.write_text(_OPENSTACK.format(python=sys.executable, address=address))
            script.chmod(0o755)
            threading.Thread(target=_serve, args=(server,), daemon=True).start()
            try:
                yield
            finally:
                server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, connection.makefile() as stream:
        arguments, environment, directory = json.loads(stream.readline())
        done = scripts.run(arguments, environment, directory)
        connection.sendall(json.dumps([done.returncode, done.stdout, done.stderr]).encode())
