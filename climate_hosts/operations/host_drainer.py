# SPDX-License-Identifier: Apache-2.0
"""Drain hosts that were added to a pool with their servers.

Ordinary servers are kept off such a host since it was enrolled. Each pass compares: servers
that are still there are moved, and a host without servers takes allocations. Nova stores
which servers are being moved, so a manager that dies leaves nothing to repair, and several
managers may do it at the same time. No server is stopped or deleted.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale
from climate_core.plugins.common_pool.server_placement import RunningServer
from climate_core.threads import Worker
from climate_hosts.db import hosts as db
from climate_hosts.db import shared_hosts as db_shared
from climate_hosts.db.shared_hosts import SharedHost
from climate_hosts.domain import hosts
from climate_hosts.operations import evacuation_inventory

if TYPE_CHECKING:
    from climate_core.cloud import connections

LOG = log.getLogger(__name__)

#: Seconds until the next pass while servers are being moved, or were not moved by Nova.
_POLL_SECONDS = 5.0


class HostDrainer(Worker):
    """Move the servers of hosts away; let the hosts take allocations when they are empty.

    :param connect: returns the connection with the rights of the service
    """

    name = 'host-drainer'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = (
        *errors.EXPECTED,
        *DATABASE_ERRORS,
        Stale,
    )
    failure_message = 'Hosts are not emptied; the next look goes on'
    _IDLE_SECONDS = 300.0

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        connect: Callable[[], 'connections.Connection'],
    ) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._conf = conf
        self._database = database
        self._connect = connect
        database.listen(db_shared.EMPTYING, self.nudge)

    def poll(self) -> float | None:
        """Continue with each host; one statement if there is none.

        :returns: the seconds until the next pass
        """
        found = [
            host
            for host in self._database.read(db_shared.list_evacuating)
            if host.emptied_for is None
        ]
        if not found:
            return None
        conn = self._connect()
        for host in found:
            try:
                self._step(conn, host)
            except errors.EXPECTED as exc:
                LOG.warning('%s is not emptied: %s', host.name, exc)
        return _POLL_SECONDS

    def _step(self, conn: 'connections.Connection', host: SharedHost) -> None:
        left = evacuation_inventory.read_candidate(conn, host).servers
        if not left:
            if self._database.write(_complete, host.id):
                LOG.info('%s is empty, and in its pool', host.name)
            return
        idle = [server.id for server in left if server.obstacle is None]
        moving = sum(server.status == evacuation_inventory.MOVING for server in left)
        for server_id in idle[: max(0, self._conf.queue.migrations - moving)]:
            evacuation_inventory.live_migrate(conn, server_id)
        self._database.write(_update_progress, host.id, _describe(left))


def _describe(left: Sequence[RunningServer]) -> str:
    """Return which servers are left on a host, and what an operator has to do."""
    message = f'{words.counted(len(left), "server")} left.'
    stuck = [
        server
        for server in left
        if server.obstacle and server.status != evacuation_inventory.MOVING
    ]
    if not stuck:
        return message
    named = ', '.join(f'{server.id} {server.obstacle}' for server in stuck[:3])
    return f'{message} Nova cannot live-migrate {named}: move or delete them.'


def _complete(session: orm.Session, host_id: int) -> bool:
    """Let a host take allocations; return whether it was draining until now."""
    host = _lock_draining(session, host_id)
    if host is None:
        return False
    enrolled = {'state': hosts.State.ENROLLED, 'disabled_reason': None}
    db.HOSTS.update(session, host_id, {'available': True}, enrolled)
    return True


def _update_progress(session: orm.Session, host_id: int, message: str) -> None:
    host = _lock_draining(session, host_id)
    if host is not None and host.disabled_reason != message:
        db.HOSTS.update(session, host_id, {}, {'disabled_reason': message})


def _lock_draining(session: orm.Session, host_id: int) -> hosts.Host | None:
    """Return a host with its row locked, if it is still draining."""
    try:
        host = db.HOSTS.get(session, host_id, lock=True)
    except exceptions.HostNotFound:
        return None
    return host if host.is_draining else None
