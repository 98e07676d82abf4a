# SPDX-License-Identifier: Apache-2.0
"""Switch machines by Redfish, with the library sushy: the driver ``redfish``.

Facts: DSP0266, ``ComputerSystem.Reset``.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import requests
import sushy
from oslo_config import cfg
from sushy import auth, exceptions

from climate_hosts.power.drivers import (
    BadOption,
    Machine,
    MachinesFile,
    PowerDriver,
    PowerError,
    check_in_time,
)

_CONNECT_SECONDS: Final = 10
_READ_SECONDS: Final = 30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RedfishMachine(Machine):
    """A controller that speaks Redfish.

    :param system: the path of the system; None: the only one
    :param verify: whether its certificate is verified, or the file of the certificates to trust
    """

    system: str | None = None
    verify: bool | str = True

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Self:
        if not options['address'].startswith(('https://', 'http://')):
            raise BadOption('address', 'must be a URL, as https://10.0.0.14')
        verify = options.get('verify', 'true')
        is_said = verify.lower() in ('true', 'false')
        return dataclasses.replace(
            cls(**options), verify=verify.lower() == 'true' if is_said else verify
        )


class RedfishDriver(PowerDriver):
    """Send requests to the management controller of each machine.

    No session is kept at a controller, which has few of them.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._machines = MachinesFile(conf.power.machines_file, RedfishMachine)
        # It logs the addresses of controllers; its errors are logged here without them.
        logging.getLogger('sushy').setLevel(logging.CRITICAL)

    def knows(self, name: str) -> bool:
        return name in self._machines.names()

    def is_on(self, name: str) -> bool | None:
        with _answered(name):
            state = self._system(name).power_state
        return None if state is None else state is not sushy.PowerState.OFF

    def switch_on(self, name: str) -> None:
        with _answered(name):
            system = self._system(name)
            if system.power_state is not sushy.PowerState.ON:
                system.reset_system(sushy.ResetType.ON)

    def switch_off(self, name: str, force: bool) -> None:
        begun = time.monotonic()
        with _answered(name):
            system = self._system(name)
            if system.power_state is sushy.PowerState.OFF:
                return
            allowed = system.get_allowed_reset_system_values()
            graceful = sushy.ResetType.GRACEFUL_SHUTDOWN
            # Some controllers can only cut the power. The host has no servers.
            asks = not force and graceful in allowed
            check_in_time(name, time.monotonic() - begun)
            system.reset_system(graceful if asks else sushy.ResetType.FORCE_OFF)

    def _system(self, name: str) -> Any:
        machine = self._machines.get(name)
        basic = auth.BasicAuth(machine.username, machine.password) if machine.username else None
        root = sushy.Sushy(
            machine.address,
            auth=basic,
            verify=machine.verify,
            # It takes 0 for its default, which is 3.
            server_side_retries=1,
            server_side_retries_delay=1,
            read_timeout=_READ_SECONDS,
            connect_timeout=_CONNECT_SECONDS,
        )
        if machine.system is not None:
            return root.get_system(machine.system)
        systems = root.get_system_collection().members_identities
        if len(systems) != 1:
            raise PowerError(
                f'The controller of {name} has {len(systems)} systems: name one as system in its '
                'section of [power] machines_file'
            )
        return root.get_system(systems[0])


@contextlib.contextmanager
def _answered(name: str) -> Iterator[None]:
    """Report errors of a controller without its address and password."""
    try:
        yield
    except exceptions.HTTPError as exc:
        raise PowerError(f'The controller of {name} answered {exc.status_code}') from None
    except (exceptions.SushyError, requests.RequestException, OSError) as exc:
        raise PowerError(f'The controller of {name}: {type(exc).__name__}') from None
