# SPDX-License-Identifier: Apache-2.0
"""The Redfish emulator of sushy-tools, with machines that are records only."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import bcrypt
import requests

#: Seconds to wait; the emulator needs up to eleven to switch a machine.
PATIENCE = 60
USER, PASSWORD = 'climate', 'a-secret'


def until(function: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not function():
        assert time.monotonic() < deadline, 'it did not happen in time'
        time.sleep(0.1)


class Emulator:
    """An emulator that runs.

    :param names: of the machines, which are on
    :ivar url: where it answers
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]) -> None:
        self._folder = folder
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        self.url = f'http://127.0.0.1:{port}'
        self.ids = {name: str(uuid.uuid4()) for name in names}
        systems = [
            {'uuid': self.ids[name], 'name': name, 'power_state': 'On', 'nics': []}
            for name in names
        ]
        users = folder / 'htpasswd'
        digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        users.write_text(f'{USER}:{digest}\n')
        settings = {
            'SUSHY_EMULATOR_FAKE_SYSTEMS': systems,
            'SUSHY_EMULATOR_STATE_DIR': str(folder / 'state'),
            'SUSHY_EMULATOR_AUTH_FILE': str(users),
        }
        config = folder / 'emulator.conf'
        config.write_text('\n'.join(f'{key} = {value!r}' for key, value in settings.items()))
        command = pathlib.Path(sys.executable).with_name('sushy-emulator')
        argv = ['--config', config, '--fake', '-i', '127.0.0.1', '-p', str(port)]
        with (folder / 'emulator.log').open('wb') as log:
            self._process = subprocess.Popen(
                [command, *argv], stdout=log, stderr=log, env={**os.environ, 'NO_PROXY': '*'}
            )

    def path(self, name: str) -> str:
        """Return the path of a machine in Redfish."""
        return f'/redfish/v1/Systems/{self.ids[name]}'

    def is_on(self, name: str) -> bool:
        """Tell whether a machine is on."""
        answer = requests.get(f'{self.url}{self.path(name)}', auth=(USER, PASSWORD), timeout=30)
        return bool(answer.json()['PowerState'] == 'On')

    def answers(self) -> bool:
        """Tell whether it is there."""
        assert self._process.poll() is None, (self._folder / 'emulator.log').read_text()
        with contextlib.suppress(requests.RequestException):
            return requests.get(f'{self.url}/redfish/v1/', timeout=30).status_code == 200
        return False

    def stop(self) -> None:
        """End its process; once more is fine."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def machines(self, path: pathlib.Path, password: str = PASSWORD, mode: int = 0o640) -> None:
        """Write the file by which the driver reaches the machines."""
        sections = (
            f'[{name}]\naddress = {self.url}\nsystem = {self.path(name)}\n'
            f'username = {USER}\npassword = {password}\n'
            for name in self.ids
        )
        path.write_text('\n'.join(sections))
        path.chmod(mode)


@contextlib.contextmanager
def running(folder: pathlib.Path, *names: str) -> Iterator[Emulator]:
    """Run an emulator with these machines."""
    made = Emulator(folder, names)
    try:
        until(made.answers)
        yield made
    finally:
        made.stop()
