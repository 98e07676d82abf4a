# SPDX-License-Identifier: Apache-2.0
"""A manager of either release, told on its standard input what to do.

It runs in a process of its own, with the code of one release on its path, so it may only use what
both have. Each line of its input is a command in JSON, each line of its output what happened.
"""

import json
import pathlib
import sys
import threading
import uuid
from typing import Any

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

import climate_core  # noqa: E402
from climate_core import conf as configuration  # noqa: E402
from climate_core import context  # noqa: E402
from climate_core.db import migration  # noqa: E402
from climate_core.plugins import base  # noqa: E402

# An editable install finds modules of this release beside packages of another one: an import that
# fails says nothing about the release.
if (pathlib.Path(climate_core.__file__).parent / 'service.py').exists():
    from climate_core import service, test_hooks
    from climate_core.plugins.base import ReservedResource
    from climate_core.rpc.client import ManagerClient
else:
    # Release 0.1.0.
    from climate_core.manager import service
    from climate_core.manager.rpcapi import ManagerClient

    from climate_core.engine import points as test_hooks
    from climate_core.plugins.base import Claimed as ReservedResource

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

    def reserve(self, context: Any, values: Any, lease_id: str = '') -> ReservedResource:
        return ReservedResource(values['resource_id'], {})

    def start(self, lease: Any, reservation: Any) -> None:
        tell(did='wake', lease=lease.id)

    # The name in release 0.1.0.
    wake_up = start

    def end(self, lease: Any, reservation: Any) -> None:
        tell(did='end', lease=lease.id)


class Trusts:
    def create(self, context: Any, roles: Any = None) -> str:
        return uuid.uuid4().hex

    def delete(self, trust_id: str) -> None:
        pass

    def roles(self, trust_id: str) -> list[str]:
        return ['member']

    def scope(self, context: Any) -> Any:
        """Return what leases share; only the new release asks for it."""
        from climate_core.lease.model import TrustScope

        return TrustScope(context.user_id, context.project_id, 'climate', tuple(context.roles))


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
        # Release 0.1.0 has no part for it.
        server = getattr(self._asked, 'rpc', None) or self._asked._server
        server.start()

    def create(self, values: dict[str, Any], own_token: bool = False) -> str:
        user = context.RequestContext(
            user_id='user', project_id='project', roles=['member'], overwrite=False
        )
        user.own_token = own_token
        return ManagerClient(self.conf).create_lease(user, values)

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
            send=lambda kind, payload: None,
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
