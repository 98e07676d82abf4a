# SPDX-License-Identifier: Apache-2.0
"""The nova-compute of the bench: boots the servers that are woken, and notifies of each."""

import queue
import threading
import time
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

from tests.support.fakes import nova
from tests.support.fakes.state import State

#: Seconds that a server boots.
BOOT = 0.5
_CREATED = 'compute.instance.create.end'


class NovaCompute:
    """A thread that boots servers, once it has the URL of a message bus."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._woken: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self._notifier: messaging.Notifier | None = None

    def start(self, request: Any) -> Any:
        """``{"transport_url": url}``: boot by itself from now on, and not by looks."""
        conf = cfg.ConfigOpts()
        conf([])
        # It is read when the transport is made.
        messaging.set_transport_defaults('nova')
        transport = messaging.get_notification_transport(conf, url=request.body['transport_url'])
        self._notifier = messaging.Notifier(
            transport, 'compute.host1', driver='messagingv2', topics=['notifications']
        )
        threading.Thread(target=self._run, name='nova-compute', daemon=True).start()
        return {}

    def wake(self, server_id: str) -> None:
        """Boot a server, if this has a message bus."""
        if self._notifier is not None:
            self._woken.put((time.monotonic() + BOOT, server_id))

    def _run(self) -> None:
        assert self._notifier is not None
        while True:
            at, server_id = self._woken.get()
            time.sleep(max(0.0, at - time.monotonic()))
            with self._state.lock:
                server = self._state.servers[server_id]
                while server['next']:
                    nova._step(self._state, server)
            self._notifier.info({}, _CREATED, {'instance_id': server_id, 'state': 'active'})
