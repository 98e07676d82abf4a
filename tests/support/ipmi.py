# SPDX-License-Identifier: Apache-2.0
"""Management controllers of pyghmi that speak IPMI on 127.0.0.1; their machines are records only.

They are in a process of their own, which is this file: pyghmi's sockets and sessions are those of
the whole process.
"""

import contextlib
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyghmi.ipmi import bmc

#: Seconds to wait.
PATIENCE = 60
USER, PASSWORD = 'climate', 'a-secret'
#: The completion code "command not supported in present state".
_REFUSED = 0xD5


class Controller(bmc.Bmc):  # type: ignore[misc]
    """The controller of one machine, which is on.

    :param folder: in which its port and what it was told are kept, and what it is to refuse
    :param name: of the machine
    """

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        # Its sessions are known by this number, so it cannot be 0.
        super().__init__({USER: PASSWORD}, port=0, address='127.0.0.1')
        self.port = self.serversocket.getsockname()[1]
        self._told = folder / f'{name}.told'
        self._refused = folder / f'{name}.refused'
        self._told.touch()
        port = folder / f'{name}.port.new'
        port.write_text(str(self.port))
        port.rename(folder / f'{name}.port')

    def get_power_state(self) -> str:
        return 'on' if is_on(self._told) else 'off'

    def power_on(self) -> int | None:
        return self._tell('on')

    def power_off(self) -> int | None:
        return self._tell('off')

    def power_shutdown(self) -> int | None:
        return self._tell('soft')

    def _tell(self, what: str) -> int | None:
        if self._refused.exists() and what in self._refused.read_text().split():
            return _REFUSED
        with self._told.open('a') as file:
            file.write(f'{what}\n')
        return None


def is_on(told: pathlib.Path) -> bool:
    """Tell whether a machine is on that was told so."""
    return told.read_text().split()[-1:] in ([], ['on'])


class Emulator:
    """Controllers that run.

    :param names: of the machines
    """

    def __init__(self, folder: pathlib.Path, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        command = [sys.executable, __file__, str(folder), *names]
        with (folder / 'ipmi.log').open('wb') as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def told(self, name: str) -> list[str]:
        """Return how a machine was switched, in order: on, off or soft."""
        return (self._folder / f'{name}.told').read_text().split()

    def is_on(self, name: str) -> bool:
        """Tell whether a machine is on."""
        return is_on(self._folder / f'{name}.told')

    def refuse(self, name: str, *what: str) -> None:
        """Have a controller refuse to switch its machine so."""
        (self._folder / f'{name}.refused').write_text(' '.join(what))

    def address(self, name: str) -> str:
        """Return where the controller of a machine answers."""
        return f'127.0.0.1:{(self._folder / f"{name}.port").read_text()}'

    def answers(self) -> bool:
        """Tell whether all of them are there."""
        assert self._process.poll() is None, (self._folder / 'ipmi.log').read_text()
        return all((self._folder / f'{name}.port').exists() for name in self._names)

    def stop(self) -> None:
        """End their process; once more is fine."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def machines(self, path: pathlib.Path, **options: Any) -> None:
        """Write the file by which the driver reaches the machines.

        :param options: of all sections, instead of what is right or beside it
        """
        options = {'username': USER, 'password': PASSWORD, **options}
        lines = '\n'.join(f'{key} = {value}' for key, value in options.items())
        sections = (f'[{name}]\naddress = {self.address(name)}\n{lines}\n' for name in self._names)
        path.write_text('\n'.join(sections))
        path.chmod(0o640)


@contextlib.contextmanager
def running(folder: pathlib.Path, *names: str) -> Iterator[Emulator]:
    """Run the controllers of these machines."""
    made = Emulator(folder, names)
    try:
        deadline = time.monotonic() + PATIENCE
        while not made.answers():
            assert time.monotonic() < deadline, 'the controllers did not come'
            time.sleep(0.05)
        yield made
    finally:
        made.stop()


if __name__ == '__main__':
    for each in sys.argv[2:]:
        Controller(pathlib.Path(sys.argv[1]), each)
    Controller.listen()
