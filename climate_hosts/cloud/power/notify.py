# SPDX-License-Identifier: Apache-2.0
"""Only notify a tool which machines are to be switched: the driver ``notify``.

Each step emits a notification with every driver. With ``[power] notify_url`` each manager also
sends an HTTP request to the tool, repeatedly until nova-compute reports the wanted state.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import requests
from oslo_config import cfg

from climate_hosts.cloud.power.base import PowerDriver, PowerError

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

    def _send(self, name: str, wanted: str) -> None:
        url = self.conf.power.notify_url
        if not url or not self._is_due(name, wanted):
            return
        body = {'hypervisor_hostname': name, 'power': wanted}
        try:
            answer = requests.post(url, json=body, timeout=_TIMEOUT, allow_redirects=False)
        except requests.RequestException as exc:
            # Its text has the URL, which may have a token.
            raise PowerError(f'[power] notify_url: {type(exc).__name__}') from None
        if answer.status_code >= 300:
            raise PowerError(f'[power] notify_url answered {answer.status_code}')
        with self._lock:
            self._sent[name] = wanted, self._clock()

    def _is_due(self, name: str, wanted: str) -> bool:
        with self._lock:
            before = self._sent.get(name)
        return before is None or before[0] != wanted or self._clock() - before[1] >= _REPEAT
