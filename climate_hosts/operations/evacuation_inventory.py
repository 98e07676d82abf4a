# SPDX-License-Identifier: Apache-2.0
"""Read which servers run on hosts that are to be drained, and where they could go.

Nova and Placement are called with the rights of the service.
"""

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, hypervisors, placement, servers
from climate_core.plugins.common_pool.server_placement import (
    CandidateHost,
    RunningServer,
    TargetHost,
)
from climate_hosts.db.shared_hosts import SharedHost

if TYPE_CHECKING:
    from climate_core.cloud import connections

LOG = log.getLogger(__name__)

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

    def __init__(self, conn: 'connections.Connection') -> None:
        self._conn = conn
        self._found = {node['id']: node for node in hypervisors.list_all(conn)}

    def emptiest_first(self, found: Iterable[SharedHost]) -> list[SharedHost]:
        """Return the hosts that are up, those with the fewest servers first."""
        up = (host for host in found if self.is_up(host.provider_id))
        return sorted(up, key=self._load)

    def is_up(self, provider_id: str) -> bool:
        """Return whether the nova-compute of a host is up, and takes servers."""
        node = self._found.get(provider_id)
        return node is not None and (node['state'], node['status']) == ('up', 'enabled')

    def _load(self, host: SharedHost) -> tuple[int, int]:
        # Nova returns both up to microversion 2.87.
        node = self._found[host.provider_id]
        return node.get('running_vms') or 0, node.get('memory_mb_used') or 0

    def targets(self) -> Iterator[TargetHost]:
        """Return the hosts that servers may move to; two calls.

        A shared host may take the servers of another shared host, as long as it is not chosen.
        """
        zones = {
            host: service.get('zone')
            for host, service in hypervisors.list_services(self._conn).items()
        }
        for root, room in placement.read_ordinary_capacities(self._conn).items():
            if self.is_up(root):
                node = self._found[root]
                free = {kind: room.capacity[kind] - used for kind, used in room.used.items()}
                yield TargetHost(
                    name=node['hypervisor_hostname'],
                    free=free,
                    zone=zones.get(node['service']['host']),
                )


def read_candidates(
    conn: 'connections.Connection', found: Iterable[SharedHost]
) -> Iterator[CandidateHost]:
    """Yield hosts with their servers; without hosts that Placement lacks by now."""
    for host in found:
        with contextlib.suppress(errors.Gone):
            yield read_candidate(conn, host)


def read_candidate(conn: 'connections.Connection', host: SharedHost) -> CandidateHost:
    """Return a host with its servers; two calls, and one for an empty host.

    :raises climate_core.cloud.errors.Gone: Placement does not have the host any more
    """
    held = placement.read_allocations(conn, host.provider_id)
    known = servers.list_on_host(conn, host.service_name) if held else {}
    found = [
        _describe_server(server_id, amounts, known.get(server_id))
        for server_id, amounts in held.items()
    ]
    return CandidateHost(id=host.id, name=host.name, servers=found)


def live_migrate(conn: 'connections.Connection', server_id: str) -> None:
    """Request to move a server to a host that Nova chooses; a rejection is logged."""
    try:
        servers.act(conn, server_id, 'os-migrateLive', _LIVE_MIGRATION)
    except errors.Gone:
        return
    except (exceptions.Transient, exceptions.Permanent) as exc:
        LOG.warning('Server %s is not moved: %s', server_id, exc)


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
    asked = {**(image.get('properties') or {}), **(server['flavor'].get('extra_specs') or {})}
    if any(asked.get(name) for name in _TPM) and asked.get(_TPM_SECURITY) != 'host':
        return 'with an emulated TPM'
    for name, what in _BINDINGS.items():
        if str(asked.get(name) or '').lower() not in _FALSE:
            return f'with {what}'
    return None
