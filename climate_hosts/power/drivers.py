# SPDX-License-Identifier: Apache-2.0
"""The interface of power drivers, an entry point of ``climate.power.drivers``.

``tests/unit/cloud/test_power_drivers.py`` checks the contract of every driver.

Drivers read how machines are reached from a file that only the managers can read. The
addresses and passwords of management controllers are in no database, no API and no log. The
file has a section for each host, named after its ``hypervisor_hostname``.
"""

import abc
import configparser
import dataclasses
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Self, TypeVar

import requests
from oslo_config import cfg
from oslo_log import log
from stevedore import driver

from climate_core.exceptions import Transient
from climate_core.packages import InvalidConfiguration

LOG = log.getLogger(__name__)

NAMESPACE: Final = 'climate.power.drivers'
#: A machine is not switched off later than this after the request: it may be needed by then.
_OFF_SECONDS: Final = 20.0
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class PowerError(Transient):
    """A machine could not be read or switched; it is retried. The message has no secrets."""


def check_in_time(name: str, seconds: float) -> None:
    """Reject to switch a machine off so late that it may be needed by now.

    :param seconds: since the request
    :raises PowerError: it is too late
    """
    if seconds > _OFF_SECONDS:
        raise PowerError(f'The controller of {name} is too slow to switch it off safely')


class BadPowerSettings(InvalidConfiguration):
    """Section ``[power]``, or a file that it names, is invalid: the manager does not start."""


class PowerDriver(abc.ABC):
    """Switch machines on and off; several threads call it concurrently.

    Each call may be repeated, also by another manager at the same time, and returns immediately:
    whether the machine is on or off by now is read later.

    :param conf: the configuration, with section ``[power]``
    :raises BadPowerSettings: what the driver needs is missing
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @abc.abstractmethod
    def knows(self, name: str) -> bool:
        """Return whether it can switch a host.

        :param name: the ``hypervisor_hostname``
        """

    @abc.abstractmethod
    def is_on(self, name: str) -> bool | None:
        """Return whether a machine is on; None: unknown.

        :raises PowerError: it did not answer
        """

    @abc.abstractmethod
    def switch_on(self, name: str) -> None:
        """Switch a machine on, if it is off.

        :raises PowerError: it did not answer, or rejected the request
        """

    @abc.abstractmethod
    def switch_off(self, name: str, force: bool) -> None:
        """Switch a machine off, if it is on.

        :param force: whether to cut its power; else its operating system is shut down
        :raises PowerError: it did not answer, or rejected the request
        """


def load_driver(conf: cfg.ConfigOpts) -> PowerDriver:
    """Load the driver of ``[power] driver``.

    :raises BadPowerSettings: there is none of this name, or it cannot be used
    """
    name = conf.power.driver
    try:
        found: Any = driver.DriverManager(NAMESPACE, name).driver
    except (RuntimeError, ImportError) as exc:
        raise BadPowerSettings(
            f'[power] driver: {name} cannot be loaded. It must be an entry point of {NAMESPACE}, '
            f'and what it needs must be installed: {exc}'
        ) from exc
    made: PowerDriver = found(conf)
    return made


class BadOption(Exception):
    """An option of a machine is invalid.

    :param option: its name
    :param expected: what is accepted, after the name; without the value, which may be secret
    """

    def __init__(self, option: str, expected: str) -> None:
        super().__init__(option, expected)
        self.option = option
        self.expected = expected


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The management controller of a machine; each driver adds the options that it has."""

    address: str
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """Create a machine from the options of its section, which are named as the fields.

        :raises BadOption: one is invalid
        """
        return cls(**options)


M = TypeVar('M', bound=Machine)


class MachinesFile(Generic[M]):
    """The machines of a file, which is read again when it has changed.

    :param path: of the file
    :param kind: the class of the machines of the driver
    :raises BadPowerSettings: there is no file, all users may read it, or it is invalid
    """

    def __init__(self, path: str | None, kind: type[M]) -> None:
        if not path:
            raise BadPowerSettings('[power] machines_file: must name a file for this driver.')
        self._path = path
        self._kind = kind
        self._lock = threading.Lock()
        self._seen = self._read_stat()
        self._machines = self._read()
        #: The error of the file, if it is logged already.
        self._complaint: str | None = None

    def names(self) -> Mapping[str, M]:
        """Return the machines by the names of their hosts.

        An error of a file that was changed is logged once; the machines read before stay.
        """
        with self._lock:
            try:
                seen = self._read_stat()
                if seen != self._seen:
                    self._machines = self._read()
                    self._seen = seen
                self._complaint = None
            except BadPowerSettings as exc:
                if str(exc) != self._complaint:
                    LOG.error('The machines that were read before stay in use: %s', exc)
                self._complaint = str(exc)
            return self._machines

    def get(self, name: str) -> M:
        """Return the machine of a host.

        :raises PowerError: there is none
        """
        found = self.names().get(name)
        if found is None:
            raise PowerError(f'[power] machines_file has no section [{name}]')
        return found

    def _read_stat(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError as exc:
            raise BadPowerSettings(f'[power] machines_file: {exc}') from None
        if found.st_mode & _OTHERS:
            raise BadPowerSettings(
                f'[power] machines_file: {self._path} has passwords, and others than its owner '
                'and its group may read or write it. Its mode must be 0640 or less.'
            )
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, M]:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            with open(self._path, encoding='utf-8') as file:
                parser.read_file(file)
        except (OSError, ValueError) as exc:
            raise BadPowerSettings(f'[power] machines_file: {exc}') from None
        except configparser.Error as exc:
            # Its text may have a line of the file.
            raise BadPowerSettings(
                f'[power] machines_file: {self._path} cannot be read: {type(exc).__name__}'
            ) from None
        return {name: self._machine(parser[name]) for name in parser.sections()}

    def _machine(self, section: configparser.SectionProxy) -> M:
        options = {each.name for each in dataclasses.fields(self._kind)}
        wrong = sorted({*section} - options)
        if wrong or not section.get('address'):
            message = f'has {", ".join(wrong)}' if wrong else 'has no address'
            raise BadPowerSettings(
                f'[power] machines_file: section [{section.name}] {message}. It has address, and '
                f'may have {", ".join(sorted(options - {"address"}))}.'
            )
        try:
            if '@' in section['address']:
                # A password before it would be in the messages of libraries.
                message = 'must have no "@": set username and password in options of their own.'
                raise BadOption('address', message)
            return self._kind.read(dict(section))
        except BadOption as exc:
            raise BadPowerSettings(
                f'[power] machines_file: {exc.option} of section [{section.name}] {exc.expected}'
            ) from None


#: Seconds until the same request is repeated.
_REPEAT: Final = 60.0
_TIMEOUT: Final = 10.0


class NotifyDriver(PowerDriver):
    """Send the wanted state of machines.

    :param clock: returns seconds that only grow
    """

    def __init__(self, conf: cfg.ConfigOpts, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(conf)
        self._clock = clock
        self._lock = threading.Lock()
        #: The last request of a machine, and its time.
        self._sent: dict[str, tuple[str, float]] = {}

    def knows(self, name: str) -> bool:  # noqa: ARG002
        return True

    def is_on(self, name: str) -> bool | None:  # noqa: ARG002
        return None

    def switch_on(self, name: str) -> None:
        self._send(name, 'on')

    def switch_off(self, name: str, force: bool) -> None:  # noqa: ARG002
        self._send(name, 'off')

    def _send(self, name: str, power: str) -> None:
        url = self.conf.power.notify_url
        if not url or not self._is_due(name, power):
            return
        body = {'hypervisor_hostname': name, 'power': power}
        try:
            answer = requests.post(url, json=body, timeout=_TIMEOUT, allow_redirects=False)
        except requests.RequestException as exc:
            # Its text has the URL, which may have a token.
            raise PowerError(f'[power] notify_url: {type(exc).__name__}') from None
        if answer.status_code >= 300:
            raise PowerError(f'[power] notify_url answered {answer.status_code}')
        with self._lock:
            self._sent[name] = power, self._clock()

    def _is_due(self, name: str, power: str) -> bool:
        with self._lock:
            before = self._sent.get(name)
        return before is None or before[0] != power or self._clock() - before[1] >= _REPEAT
