# SPDX-License-Identifier: Apache-2.0
"""Move the servers of hosts away: read which run there, and drain hosts of a pool.

:class:`HostDrainer` moves the servers of hosts that were added to a pool with them. Ordinary
servers are kept off such a host since it was enrolled. Each pass compares: servers that are still
there are moved, and a host without servers takes allocations. Nova stores which servers are being
moved, so a manager that dies leaves nothing to repair, and several managers may do it at the same
time. No server is stopped or deleted.
"""

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_common import words
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import read_ordinary_capacities
from climate_core.db.engine import Database
from climate_core.plugins.server_placement import (
    CandidateHost,
    RunningServer,
    TargetHost,
)
from climate_core.threads import Worker
from climate_hosts import placement
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.db.host_reservations import SharedHost
from climate_hosts.hosts import Host, State
from climate_hosts.watch import PASS_ERRORS

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

LOG = log.getLogger(__name__)

#: Seconds until the next pass while servers are being moved, or were not moved by Nova.
_POLL_SECONDS: Final = 5.0
#: The status of a server that is being moved.
MOVING: Final = 'migrating'
#: The statuses in which Nova moves a server that runs.
MOVABLE: Final = frozenset({'ACTIVE', 'PAUSED'})
_LIVE_MIGRATION: Final = {'host': None, 'block_migration': 'auto'}
#: Extra specs of flavors, and properties of images, of servers that Nova does not live-migrate
#: (nova/compute/api.py, live_migrate; nova/conductor/tasks/live_migrate.py) -> what those have.
_TPM: Final = ('hw:tpm_version', 'hw_tpm_version')
_TPM_SECURITY: Final = 'hw:tpm_secret_security'
_BINDINGS: Final = {
    'hw:mem_encryption': 'encrypted memory',
    'hw_mem_encryption': 'encrypted memory',
    'accel:device_profile': 'an accelerator',
    'pci_passthrough:alias': 'a PCI device',
}
_FALSE: Final = frozenset({'', 'false', '0', 'no', 'off', 'f', 'n'})


class Hypervisors:
    """The hypervisors of the cloud, by the ids of their root providers; one call per thousand."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._nodes = {node['id']: node for node in servers.list_hypervisors(conn)}

    def emptiest_first(self, hosts: Iterable[SharedHost]) -> list[SharedHost]:
        """Return the hosts that are up, those with the fewest servers first."""
        up = (host for host in hosts if self.is_up(host.provider_id))
        return sorted(up, key=self._load)

    def is_up(self, provider_id: str) -> bool:
        """Return whether the nova-compute of a host is up, and takes servers."""
        node = self._nodes.get(provider_id)
        return node is not None and (node['state'], node['status']) == ('up', 'enabled')

    def _load(self, host: SharedHost) -> tuple[int, int]:
        # Nova returns both up to microversion 2.87.
        node = self._nodes[host.provider_id]
        return node.get('running_vms') or 0, node.get('memory_mb_used') or 0

    def targets(self) -> Iterator[TargetHost]:
        """Return the hosts that servers may move to; two calls.

        A shared host may take the servers of another shared host, as long as it is not chosen.
        """
        zones = {
            host: service.get('zone')
            for host, service in servers.list_compute_services(self._conn).items()
        }
        for root, capacity in read_ordinary_capacities(self._conn).items():
            if self.is_up(root):
                node = self._nodes[root]
                free = {
                    kind: capacity.capacity[kind] - used for kind, used in capacity.used.items()
                }
                yield TargetHost(
                    name=node['hypervisor_hostname'],
                    free=free,
                    zone=zones.get(node['service']['host']),
                )


def read_candidates(conn: Connection, hosts: Iterable[SharedHost]) -> Iterator[CandidateHost]:
    """Yield hosts with their servers; without hosts that Placement lacks by now."""
    for host in hosts:
        with contextlib.suppress(errors.Gone):
            yield read_candidate(conn, host)


def read_candidate(conn: Connection, host: SharedHost) -> CandidateHost:
    """Return a host with its servers; two calls, and one for an empty host.

    :raises climate_core.cloud.errors.Gone: Placement does not have the host any more
    """
    allocations = placement.read_allocations(conn, host.provider_id)
    servers_on_host = servers.list_on_host(conn, host.service_name) if allocations else {}
    found = [
        _describe_server(server_id, amounts, servers_on_host.get(server_id))
        for server_id, amounts in allocations.items()
    ]
    return CandidateHost(id=host.id, name=host.name, servers=found)


def live_migrate(conn: Connection, server_id: str) -> None:
    """Request to move a server to a host that Nova chooses; a rejection is logged."""
    try:
        servers.act(conn, server_id, 'os-migrateLive', _LIVE_MIGRATION)
    except errors.Gone:
        return
    except (exceptions.Transient, exceptions.Permanent) as exc:
        LOG.warning('Could not move server %s: %s', server_id, exc)


def _describe_server(
    server_id: str, amounts: Mapping[str, int], server: Mapping[str, Any] | None
) -> RunningServer:
    if server is None:
        # While a server is moved, the id of the migration holds what it has where it comes from.
        return RunningServer(id=server_id, amounts=amounts, status=MOVING, obstacle='moving')
    task, status = server.get('OS-EXT-STS:task_state'), server['status']
    obstacle: str | None
    if task is not None:
        status, obstacle = MOVING, f'with the task {task}'
    elif status not in MOVABLE:
        obstacle = f'in the status {status}'
    else:
        obstacle = _find_binding(server)
    return RunningServer(
        id=server_id,
        amounts=amounts,
        status=status,
        created_at=datetime.datetime.fromisoformat(server['created']),
        obstacle=obstacle,
        zone=server.get('pinned_availability_zone'),
    )


def _find_binding(server: Mapping[str, Any]) -> str | None:
    """Return what binds a server to its host, as far as Nova reports it; None: nothing."""
    # A server that was booted from a volume has '' for its image.
    image = server.get('image') or {}
    properties = {**(image.get('properties') or {}), **(server['flavor'].get('extra_specs') or {})}
    if any(properties.get(name) for name in _TPM) and properties.get(_TPM_SECURITY) != 'host':
        return 'with an emulated TPM'
    for name, what in _BINDINGS.items():
        if str(properties.get(name) or '').lower() not in _FALSE:
            return f'with {what}'
    return None


class HostDrainer(Worker):
    """Move the servers of hosts away; let the hosts take allocations when they are empty.

    :param cloud: gives the connection with the rights of the service
    """

    name = 'host-drainer'
    expected_errors = PASS_ERRORS
    failure_message = 'Could not drain hosts; the next poll retries'
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
        database.listen(host_reservations.DRAINING, self.nudge)

    def poll(self) -> float | None:
        """Continue with each host; one statement if there is none.

        :returns: the seconds until the next pass
        """
        found = [
            host
            for host in self._database.read(host_reservations.list_evacuating)
            if host.emptied_for is None
        ]
        if not found:
            return None
        conn = self._cloud.service()
        for host in found:
            try:
                self._step(conn, host)
            except errors.EXPECTED as exc:
                LOG.warning('%s is not drained: %s', host.name, exc)
        return _POLL_SECONDS

    def _step(self, conn: Connection, host: SharedHost) -> None:
        left = read_candidate(conn, host).servers
        if not left:
            if self._database.write(_complete_draining, host.id):
                LOG.info('%s is drained, and in its pool', host.name)
            return
        idle = [server.id for server in left if server.obstacle is None]
        moving = sum(server.status == MOVING for server in left)
        for server_id in idle[: max(0, self._conf.queue.migrations - moving)]:
            live_migrate(conn, server_id)
        self._database.write(_update_progress, host.id, _describe_servers_left(left))


def _describe_servers_left(left: Sequence[RunningServer]) -> str:
    """Return which servers are left on a host, and what an operator has to do."""
    message = f'{words.counted(len(left), "server")} left.'
    stuck = [server for server in left if server.obstacle and server.status != MOVING]
    if not stuck:
        return message
    named = ', '.join(f'{server.id} {server.obstacle}' for server in stuck[:3])
    return f'{message} Nova cannot live-migrate {named}: move or delete them.'


def _complete_draining(session: orm.Session, host_id: int) -> bool:
    """Let a host take allocations; return whether it was draining until now."""
    host = _lock_draining(session, host_id)
    if host is None:
        return False
    enrolled = {'state': State.ENROLLED, 'disabled_reason': None}
    db.HOSTS.update(session, host_id, {'available': True}, enrolled)
    return True


def _update_progress(session: orm.Session, host_id: int, message: str) -> None:
    host = _lock_draining(session, host_id)
    if host is not None and host.disabled_reason != message:
        db.HOSTS.update(session, host_id, {}, {'disabled_reason': message})


def _lock_draining(session: orm.Session, host_id: int) -> Host | None:
    """Return a host with its row locked, if it is still draining."""
    host = db.lock(session, host_id, State.EMPTYING)
    return host if host is not None and host.is_draining else None
