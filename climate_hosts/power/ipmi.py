# SPDX-License-Identifier: Apache-2.0
"""Switch machines by IPMI 2.0, with the command ipmitool: the driver ``ipmi``.

Ironic uses ipmitool as well, so it is tested with many controllers. The library pyghmi (1.6.19) is
maintained, too, but its sessions share the sockets, the thread and the locks of one event loop in
the process (``pyghmi.ipmi.private.session``): several threads switch machines here, and a call
that hangs must not delay the others. A process is ended after a timeout.

Facts: IPMI 2.0, 13.20 (RAKP), 22.15 (cipher suites), 28.3 (Chassis Control, which needs the
privilege level OPERATOR).
"""

import dataclasses
import os
import re
import shutil
import subprocess  # nosec B404 # ipmitool only
import time
from collections.abc import Mapping
from typing import Final, Self

from oslo_config import cfg
from oslo_utils import netutils

from climate_hosts.power.drivers import (
    BadOption,
    BadPowerSettings,
    Machine,
    MachinesFile,
    PowerDriver,
    PowerError,
    check_in_time,
)

#: Seconds until ipmitool is ended; a controller that does not exist takes it 15 at most.
_TIMEOUT: Final = 30
#: Maximum lengths in bytes in IPMI.
_USERNAME_BYTES: Final = 16
_PASSWORD_BYTES: Final = 20
_PORT: Final = 623
#: Those below them cannot switch.
_LEVELS: Final = ('OPERATOR', 'ADMINISTRATOR')
#: 0 would need no password.
_CIPHER_SUITES: Final = range(1, 18)
_HOST: Final = re.compile(r'[\w.:%-]+')
_REFUSED: Final = re.compile(r'^Set Chassis Power Control to \S+ failed: ([\w ,()-]+)$', re.M)
_STATE: Final = re.compile(r'^Chassis Power is (on|off)$', re.M)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IpmiMachine(Machine):
    """A controller that speaks IPMI.

    :param address: a host name or an IP address, with a port if that is not 623
    :param cipher_suite: None: ipmitool chooses
    :param privilege_level: of the session
    """

    cipher_suite: str | None = None
    privilege_level: str = 'OPERATOR'

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        machine = cls(**options)
        machine.host_and_port()
        for option, max_bytes in (('username', _USERNAME_BYTES), ('password', _PASSWORD_BYTES)):
            if len(options.get(option, '').encode()) > max_bytes:
                raise BadOption(option, f'must have {max_bytes} bytes at most, as IPMI has it')
        if machine.privilege_level not in _LEVELS:
            raise BadOption('privilege_level', f'must be {" or ".join(_LEVELS)}')
        if machine.cipher_suite not in (None, *map(str, _CIPHER_SUITES)):
            raise BadOption('cipher_suite', 'must be a number from 1 to 17, as 3 or 17')
        return machine

    def host_and_port(self) -> tuple[str, int]:
        """Return where it answers.

        :raises BadOption: the address is invalid
        """
        try:
            host, port = netutils.parse_host_port(self.address, _PORT)
        except ValueError:
            host, port = '', 0
        if not _HOST.fullmatch(host) or not netutils.is_valid_port(port):
            message = 'must be a host name or an IP address, with a port if that is not 623'
            raise BadOption('address', f'{message}, as 10.0.0.14 or 10.0.0.14:6230')
        return host, port


class IpmiDriver(PowerDriver):
    """Send requests to the management controller of each machine by ipmitool.

    :param answer_seconds: how long the first answer to a packet is waited for
    :param retries: how often a packet is sent again
    """

    def __init__(self, conf: cfg.ConfigOpts, answer_seconds: int = 2, retries: int = 2) -> None:
        super().__init__(conf)
        found = shutil.which('ipmitool')
        if found is None:
            raise BadPowerSettings(
                '[power] driver: ipmi needs the command ipmitool: install the package ipmitool.'
            )
        self._command = (found, '-I', 'lanplus', '-N', f'{answer_seconds}', '-R', f'{retries}')
        self._machines = MachinesFile(conf.power.machines_file, IpmiMachine)

    def knows(self, name: str) -> bool:
        return name in self._machines.names()

    def is_on(self, name: str) -> bool:
        state = _STATE.search(self._run_power(name, 'status'))
        if state is None:
            raise PowerError(f'The controller of {name} did not report whether it is on')
        return state[1] == 'on'

    def switch_on(self, name: str) -> None:
        # A controller may reject a request to switch on a machine that is on.
        if not self.is_on(name):
            self._run_power(name, 'on')

    def switch_off(self, name: str, force: bool) -> None:
        begun = time.monotonic()
        if not self.is_on(name):
            return
        check_in_time(name, time.monotonic() - begun)
        self._run_power(name, 'off' if force else 'soft')

    def _run_power(self, name: str, action: str) -> str:
        """Run ``chassis power`` and return its output.

        :raises PowerError: it failed
        """
        machine = self._machines.get(name)
        host, port = machine.host_and_port()
        command = [*self._command, '-H', host, '-p', str(port), '-L', machine.privilege_level]
        if machine.username:
            command += ['-U', machine.username]
        if machine.cipher_suite is not None:
            command += ['-C', machine.cipher_suite]
        # Other users see the arguments of a process, and not its environment.
        environment = {
            'PATH': os.defpath,
            'LC_ALL': 'C',
            'IPMI_PASSWORD': machine.password or '',
        }
        try:
            done = subprocess.run(  # nosec B603 # a list, no shell
                [*command, '-E', 'chassis', 'power', action],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors='replace',
                timeout=_TIMEOUT,
                check=False,
                # It must not ask for a password at a terminal.
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            message = f'The controller of {name} did not answer in {_TIMEOUT} seconds'
            raise PowerError(message) from None
        except OSError as exc:
            raise PowerError(f'ipmitool cannot be run: {exc.strerror}') from None
        if done.returncode:
            raise PowerError(_reason(name, done.stderr))
        return done.stdout


def _reason(name: str, text: str) -> str:
    """Describe the error of a controller without its address and password.

    :param text: the output of ipmitool 1.8.19
    """
    refused = _REFUSED.search(text)
    if refused:
        return f'The controller of {name} rejected the request: {refused[1]}'
    section = f'section [{name}] of [power] machines_file'
    if 'Address lookup for' in text:
        return f'The controller of {name} has no IP address: see address in {section}'
    if 'Unable to establish' in text:
        return (
            f'The controller of {name} does not answer, or rejects username, password, '
            f'cipher_suite or privilege_level of {section}'
        )
    return f'ipmitool failed at the controller of {name}'
