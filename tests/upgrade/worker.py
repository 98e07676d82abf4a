# SPDX-License-Identifier: Apache-2.0
"""A manager of either release, controlled by its standard input.

It runs in a process of its own, with the code of one release on its path, so it may only use what
both have. Each line of its input is a command in JSON, each line of its output what happened.
"""

import json
import sys
import threading
import uuid
from typing import Any
from unittest import mock

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

import oslo_messaging as messaging  # noqa: E402

import climate_core  # noqa: E402
from climate_core import conf as configuration  # noqa: E402
from climate_core import (  # noqa: E402
    context,
    service,
    test_hooks,
)
from climate_core.db import migration  # noqa: E402
from climate_core.plugins import base  # noqa: E402

try:
    from climate_core.rpc import TOPIC, ManagerClient
except ImportError:
    # The previous release has a module for each side of the interface.
    from climate_core.rpc.client import TOPIC, ManagerClient

_lock = threading.Lock()


def tell(**what: Any) -> None:
    with _lock:
        print(json.dumps(what), flush=True)


class Thing(base.ResourcePlugin):
    """Tells what is done to its resources, and does nothing."""

    resource_type = 'test:thing'
    title = 'Thing'
    description = 'Something to test with.'
    schema = {'resource_id': {'type': 'string'}}

    def reserve(self, context: Any, values: Any, lease_id: str = '') -> base.ReservedResource:
        return base.ReservedResource(values['resource_id'], {})

    def start(self, lease: Any, reservation: Any) -> None:
        tell(did='wake', lease=lease.id)

    def end(self, lease: Any, reservation: Any) -> None:
        tell(did='end', lease=lease.id)


class Trusts:
    def create(self, context: Any, roles: Any = None) -> str:
        return uuid.uuid4().hex

    def delete(self, trust_id: str) -> None:
        pass

    def roles(self, trust_id: str) -> list[str]:
        return ['member']

    def scope(self, context: Any) -> None:
        """Let no leases share a trust."""


class Worker:
    """What the commands do. Only ``run`` lets the engine work."""

    def __init__(self, file: str) -> None:
        self.conf = configuration.load([], [file])
        self._asked: service.ManagerService | None = None
        self._running: service.ManagerService | None = None

    def upgrade(self) -> str | None:
        migration.upgrade(self.conf)
        return migration.version(self.conf)

    def open(self) -> None:
        """Be ready for requests, as a manager whose start went well."""
        migration.check(self.conf)
        self._asked = self._make()
        self._asked.rpc.start()

    def request(self, method: str, *arguments: Any) -> dict[str, Any]:
        """Return the message by which the API of this release calls a manager."""
        user = context.RequestContext(
            user_id='user', project_id='project', roles=['member'], overwrite=False
        )
        user.grant('climate:leases:create', 'project')
        sent: dict[str, Any] = {}

        def send(_self: Any, _target: Any, ctxt: Any, message: Any, **_options: Any) -> None:
            sent.update(context=ctxt, message=message)

        with mock.patch('oslo_messaging.transport.Transport._send', send):
            getattr(ManagerClient(self.conf), method)(user, *arguments)
        return sent

    def serve(self, sent: dict[str, Any]) -> Any:
        """Return the reply of this manager to a message of the API of either release."""
        transport = messaging.get_rpc_transport(self.conf)
        options = {'wait_for_reply': True, 'timeout': 30}
        return transport._send(
            messaging.Target(topic=TOPIC), sent['context'], sent['message'], **options
        )

    def run(self) -> None:
        self._running = self._make()
        self._running.start()

    def pause(self) -> bool:
        assert self._running is not None
        return self._running.stop()

    def _make(self) -> service.ManagerService:
        plugins = {Thing.resource_type: Thing(self.conf, None)}  # type: ignore[arg-type]
        return service.ManagerService(
            self.conf,
            plugins=plugins,
            trusts=Trusts(),
            watch=False,
        )


def _finished(name: str, info: dict[str, Any]) -> None:
    if name == 'finish.after':
        tell(finished=info['event_type'], lease=info['lease_id'])


def main() -> None:
    test_hooks.install(_finished)
    worker = Worker(sys.argv[1])
    tell(code=climate_core.__file__)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            tell(answer=getattr(worker, command['do'])(*command['with']))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test shall see it
            tell(trouble=f'{type(exc).__name__}: {exc}')


if __name__ == '__main__':
    main()
