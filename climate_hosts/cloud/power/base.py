# SPDX-License-Identifier: Apache-2.0
"""The interface of power drivers, an entry point of ``climate.power.drivers``.

``tests/unit/cloud/test_power_drivers.py`` says what each driver must do.

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
from collections.abc import Mapping
from typing import Any, Final, Generic, Self, TypeVar

from oslo_config import cfg
from oslo_log import log
from stevedore import driver

from climate_core.exceptions import Transient

LOG = log.getLogger(__name__)

NAMESPACE: Final = 'climate.power.drivers'
#: A machine is not switched off so many seconds after that was wanted: it may be wanted on then.
_OFF_SECONDS: Final = 20.0
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class PowerError(Transient):
    """A machine could not be asked or switched; it is tried again. The message has no secrets."""


def check_in_time(name: str, seconds: float) -> None:
    """Refuse to switch a machine off so late that it may be wanted on by now.

    :param seconds: since that was wanted
    :raises PowerTrouble: it is too late
    """
    if seconds > _OFF_SECONDS:
        raise PowerError(f'The controller of {name} is too slow to switch it off safely')


class BadPowerSettings(Exception):
    """Section ``[power]``, or a file that it names, makes no sense: the manager does not start."""


class PowerDriver(abc.ABC):
    """Switch machines on and off; several threads call it at once.

    Each call may be repeated, also by another manager at the same time, and returns at once: that
    the machine is on or off by now is asked later.

    :param conf: the configuration, with section ``[power]``
    :raises BadPowerSettings: what the driver needs is missing
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @abc.abstractmethod
    def knows(self, name: str) -> bool:
        """Tell whether it can switch a host.

        :param name: the ``hypervisor_hostname``
        """

    @abc.abstractmethod
    def is_on(self, name: str) -> bool | None:
        """Tell whether a machine is on; None if that cannot be known.

        :raises PowerTrouble: it did not answer
        """

    @abc.abstractmethod
    def switch_on(self, name: str) -> None:
        """Switch a machine on; one that is on is fine.

        :raises PowerTrouble: it did not answer, or refused
        """

    @abc.abstractmethod
    def switch_off(self, name: str, force: bool) -> None:
        """Switch a machine off; one that is off is fine.

        :param force: whether to cut its power; else its operating system is asked to shut down
        :raises PowerTrouble: it did not answer, or refused
        """


def load_driver(conf: cfg.ConfigOpts) -> PowerDriver:
    """Make the driver of ``[power] driver``.

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
    """An option of a machine makes no sense.

    :param option: its name
    :param told: what must be instead, after the name; without the value, which may be secret
    """

    def __init__(self, option: str, told: str) -> None:
        super().__init__(option, told)
        self.option = option
        self.told = told


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The management controller of a machine; each driver adds the options that it has."""

    address: str
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        """Make a machine of the options of its section, whose names are those of the fields.

        :raises BadOption: one makes no sense
        """
        return cls(**options)


M = TypeVar('M', bound=Machine)


class MachinesFile(Generic[M]):
    """The machines of a file, which is read again when it has changed.

    :param path: of the file
    :param kind: how the driver knows a machine
    :raises BadPowerSettings: there is none, others may read it, or it makes no sense
    """

    def __init__(self, path: str | None, kind: type[M]) -> None:
        if not path:
            raise BadPowerSettings('[power] machines_file: must name a file for this driver.')
        self._path = path
        self._kind = kind
        self._lock = threading.Lock()
        self._seen = self._look()
        self._machines = self._read()
        #: What is wrong with the file, if that is logged already.
        self._complaint: str | None = None

    def names(self) -> Mapping[str, M]:
        """Return the machines by the names of their hosts.

        What is wrong with a file that was changed is logged once; what was read before counts.
        """
        with self._lock:
            try:
                seen = self._look()
                if seen != self._seen:
                    self._machines = self._read()
                    self._seen = seen
                self._complaint = None
            except BadPowerSettings as exc:
                if str(exc) != self._complaint:
                    LOG.error('What was read before counts: %s', exc)
                self._complaint = str(exc)
            return self._machines

    def get(self, name: str) -> M:
        """Return the machine of a host.

        :raises PowerTrouble: there is none
        """
        found = self.names().get(name)
        if found is None:
            raise PowerError(f'[power] machines_file has no section [{name}]')
        return found

    def _look(self) -> tuple[int, int, int]:
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
        known = {each.name for each in dataclasses.fields(self._kind)}
        wrong = sorted({*section} - known)
        if wrong or not section.get('address'):
            told = f'has {", ".join(wrong)}' if wrong else 'has no address'
            raise BadPowerSettings(
                f'[power] machines_file: section [{section.name}] {told}. It has address, and '
                f'may have {", ".join(sorted(known - {"address"}))}.'
            )
        try:
            if '@' in section['address']:
                # A password before it would be in what libraries say of it.
                told = 'must have no "@": say username and password beside it.'
                raise BadOption('address', told)
            return self._kind.read(dict(section))
        except BadOption as exc:
            raise BadPowerSettings(
                f'[power] machines_file: {exc.option} of section [{section.name}] {exc.told}'
            ) from None
