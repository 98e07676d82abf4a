# SPDX-License-Identifier: Apache-2.0
"""The interface of what switches machines on and off, an entry point of ``climate.power.drivers``.

``tests/unit/cloud/test_power_drivers.py`` says what each driver must do.
"""

import abc
from typing import Any, Final

from oslo_config import cfg
from stevedore import driver

from climate_core.exceptions import Transient

NAMESPACE: Final = 'climate.power.drivers'
#: A machine is not switched off so many seconds after that was wanted: it may be wanted on then.
_OFF_SECONDS: Final = 20.0


class PowerTrouble(Transient):
    """A machine could not be asked or switched; it is tried again. The message has no secrets."""


def check_in_time(name: str, seconds: float) -> None:
    """Refuse to switch a machine off so late that it may be wanted on by now.

    :param seconds: since that was wanted
    :raises PowerTrouble: it is too late
    """
    if seconds > _OFF_SECONDS:
        raise PowerTrouble(f'The controller of {name} is too slow to switch it off safely')


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


def load(conf: cfg.ConfigOpts) -> PowerDriver:
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
