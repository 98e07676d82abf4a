# SPDX-License-Identifier: Apache-2.0
"""Take shared hosts from ordinary servers for a lease and return them; drain new hosts.

A host is taken from ordinary servers in the transaction that writes for which lease. Only
:class:`SharedHostReturner` returns it: it checks in the database whether a lease still needs
the host, however that lease ended and whether or not the manager that evacuated the host
still runs. The return takes three steps: the row gets the state RETURNING, the host leaves
the aggregate of the pools in Placement, the row states that ordinary servers may run there.
When a manager dies in between, or Placement does not answer, the next pass continues with
the next step.

:class:`HostDrainer` moves the servers of hosts that were added to a pool with them. Ordinary
servers are kept off such a host since it was enrolled. Each pass compares: servers that are still
there are moved, and a host without servers takes allocations. Nova stores which servers are being
moved, so a manager that dies leaves nothing to repair, and several managers may do it at the same
time. No server is stopped or deleted.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db import calendar, leases
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale
from climate_core.lease import states
from climate_core.plugins.common_pool.server_placement import RunningServer
from climate_core.threads import Worker
from climate_hosts import hosts
from climate_hosts.db import host_reservations as db_shared
from climate_hosts.db import hosts as db
from climate_hosts.db.host_reservations import SharedHost
from climate_hosts.operations import evacuation
from climate_hosts.watch import isolation

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections

LOG = log.getLogger(__name__)

_TAKEN: Final = 'Another lease has just got a host that was to be emptied. Try again.'
_LOST: Final = 'A host that was emptied for the lease is not kept for it any more.'
#: Seconds until the next pass while servers are being moved, after Placement did not answer, or if
#: a host stays isolated a little longer.
_POLL_SECONDS = 5.0


def take_for_lease(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a shared host as being evacuated for a lease.

    :raises climate_core.exceptions.NotEnough: another lease has it by now
    """
    try:
        host = db.HOSTS.get(session, host_id, lock=True)
    except exceptions.HostNotFound as exc:
        raise exceptions.NotEnough(_TAKEN) from exc
    if not (host.open_to_unreserved and host.is_enabled):
        raise exceptions.NotEnough(_TAKEN)
    emptying = {
        'open_to_unreserved': False,
        'state': hosts.State.EMPTYING,
        'emptied_for': lease_id,
    }
    db.HOSTS.update(session, host_id, {}, emptying)


def take_all_for_lease(session: orm.Session, host_ids: Iterable[int], lease_id: str) -> None:
    """Mark shared hosts as being evacuated for a lease, if the lease still waits for them."""
    lease = leases.find(session, lease_id, lock=True, parts=())
    if lease is not None and lease.status == states.LeaseStatus.IN_PROGRESS:
        for host_id in host_ids:
            take_for_lease(session, host_id, lease_id)


def release_from_lease(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a host as being returned, if it is evacuated for this lease."""
    host = db.HOSTS.get(session, host_id, lock=True)
    if host.emptied_for == lease_id:
        mark_returning(session, host)


def complete_evacuation(session: orm.Session, *, emptied: Iterable[int], lease_id: str) -> None:
    """Let hosts that were evacuated for a lease take allocations.

    :raises climate_core.exceptions.Transient: a host is no longer evacuated for the lease
    """
    for host_id in emptied:
        if db.HOSTS.get(session, host_id, lock=True).emptied_for != lease_id:
            raise exceptions.Transient(_LOST)
        enrolled = {'state': hosts.State.ENROLLED, 'emptied_for': None}
        db.HOSTS.update(session, host_id, {'available': True}, enrolled)


class SharedHostReturner(Worker):
    """Return shared hosts to ordinary servers, when something is released and periodically.

    :param cloud: gives the connection with the rights of the service
    """

    name = 'shared-hosts'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = (
        *errors.EXPECTED,
        *DATABASE_ERRORS,
        Stale,
    )
    failure_message = 'Hosts were not given back to ordinary servers; the next look tries again'
    _IDLE_SECONDS = 300.0

    def __init__(self, database: Database, cloud: 'Cloud') -> None:
        super().__init__(self._IDLE_SECONDS)
        self._database = database
        self._cloud = cloud
        database.listen(calendar.FREED, self.nudge)

    def poll(self) -> float | None:
        """Return the hosts that no lease needs; two statements if there are none.

        :returns: the seconds until there may be more
        """
        seconds = []
        for host in self._database.read(db_shared.list_unneeded):
            if host.seconds:
                seconds.append(max(host.seconds, _POLL_SECONDS))
                continue
            try:
                self._return(host)
            except errors.EXPECTED as exc:
                LOG.warning('Host %s is not given back yet: %s', host.name, exc)
                seconds.append(_POLL_SECONDS)
        return min(seconds, default=None)

    def _return(self, host: db_shared.UnneededHost) -> None:
        provider_id = self._database.write(begin_return, host.id)
        if provider_id is not None:
            isolation.update_isolation(self._database, self._cloud.service(), provider_id)
            if self._database.write(finish_return, host.id):
                LOG.info('Host %s serves ordinary servers again', host.name)


def begin_return(session: orm.Session, host_id: int) -> str | None:
    """Set the state of a shared host to RETURNING, if no lease needs it.

    :returns: its root provider in Placement; None: it is needed by now, or gone
    """
    with contextlib.suppress(exceptions.HostNotFound):
        host = db.HOSTS.get(session, host_id, lock=True)
        found = db_shared.list_unneeded(session, host_id)
        if found and not found[0].seconds:
            mark_returning(session, host)
            return host.provider_id
    return None


def mark_returning(session: orm.Session, host: hosts.Host) -> None:
    """Set the state of a shared host, whose row is locked, to RETURNING."""
    if host.is_returning:
        return
    enabled = host.available or host.emptied_for is not None
    reason = None if enabled else host.disabled_reason or hosts.DISABLED
    returning = {'state': hosts.State.RETURNING, 'disabled_reason': reason, 'emptied_for': None}
    db.HOSTS.update(session, host.id, {'available': False}, returning)


def finish_return(session: orm.Session, host_id: int) -> bool:
    """Open a shared host to ordinary servers; return whether it was RETURNING."""
    with contextlib.suppress(exceptions.HostNotFound):
        host = db.HOSTS.get(session, host_id, lock=True)
        if host.is_returning:
            db.HOSTS.update(
                session, host_id, {}, {'open_to_unreserved': True, 'state': hosts.State.ENROLLED}
            )
            return True
    return False


if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections


class HostDrainer(Worker):
    """Move the servers of hosts away; let the hosts take allocations when they are empty.

    :param cloud: gives the connection with the rights of the service
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
        cloud: 'Cloud',
    ) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._conf = conf
        self._database = database
        self._cloud = cloud
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
        conn = self._cloud.service()
        for host in found:
            try:
                self._step(conn, host)
            except errors.EXPECTED as exc:
                LOG.warning('%s is not emptied: %s', host.name, exc)
        return _POLL_SECONDS

    def _step(self, conn: 'connections.Connection', host: SharedHost) -> None:
        left = evacuation.read_candidate(conn, host).servers
        if not left:
            if self._database.write(_complete_draining, host.id):
                LOG.info('%s is empty, and in its pool', host.name)
            return
        idle = [server.id for server in left if server.obstacle is None]
        moving = sum(server.status == evacuation.MOVING for server in left)
        for server_id in idle[: max(0, self._conf.queue.migrations - moving)]:
            evacuation.live_migrate(conn, server_id)
        self._database.write(_update_progress, host.id, _describe_servers_left(left))


def _describe_servers_left(left: Sequence[RunningServer]) -> str:
    """Return which servers are left on a host, and what an operator has to do."""
    message = f'{words.counted(len(left), "server")} left.'
    stuck = [server for server in left if server.obstacle and server.status != evacuation.MOVING]
    if not stuck:
        return message
    named = ', '.join(f'{server.id} {server.obstacle}' for server in stuck[:3])
    return f'{message} Nova cannot live-migrate {named}: move or delete them.'


def _complete_draining(session: orm.Session, host_id: int) -> bool:
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
