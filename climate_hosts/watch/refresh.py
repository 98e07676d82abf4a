# SPDX-License-Identifier: Apache-2.0
"""Read hosts from Nova and Placement, and update their rows.

Nova and Placement are called with the rights of the service. A host of a pool that another tool
removed from the aggregate of the pools in Placement is added to the aggregate again.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import HostCapacity
from climate_core.db.engine import Database
from climate_core.threads import PeriodicWorker
from climate_hosts import hosts, nodes, nova, placement
from climate_hosts.db import hosts as db
from climate_hosts.watch import PASS_ERRORS, isolation, repair

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

LOG = log.getLogger(__name__)

#: The first refresh is soon after the start: within this number of seconds.
_FIRST_SECONDS = 60.0


class HostRefresher(PeriodicWorker):
    """Refresh all hosts of the pools periodically, in a dedicated thread.

    Four requests in all, one more if there are shared hosts that no lease has, one or two for each
    host that Placement has left out, see :mod:`climate_hosts.watch.isolation`, and one for each
    provider of a host that differs; none where no pool has a host. Several managers may do it
    concurrently.
    """

    name = 'hosts'
    polls_on_compute_change = True
    # A client of the message bus can forge the notifications that trigger it.
    spacing = 2.0
    expected_errors = PASS_ERRORS
    failure_message = 'Hosts could not be refreshed; the next poll retries'

    def __init__(self, conf: cfg.ConfigOpts, database: Database, cloud: 'Cloud') -> None:
        super().__init__(conf.hosts.refresh_interval, _FIRST_SECONDS)
        self._conf = conf
        self._database = database
        self._cloud = cloud
        #: What is logged already; no decision depends on it.
        self._reported: set[str] = set()

    def poll(self) -> float:
        self.refresh()
        return self.next_poll()

    def refresh(self) -> None:
        """Read all hosts again, and write what is different."""
        if not self._database.read(db.HOSTS.has_any):
            return
        conn = self._cloud.service()
        present = {host.id: host for host in db.HOSTS.iterate_all(self._database)}
        pool_capacity = isolation.read_capacity(conn, present.values())
        capacities, outside = pool_capacity.inside, pool_capacity.outside
        units = {
            host.provider_id: host.details['units']
            for host in present.values()
            if 'units' in host.details
        }
        nodes_by_provider = read_nodes(
            conn, servers.list_hypervisors(conn), {**outside, **capacities}, units
        )
        problems: set[str] = set()
        for host in present.values():
            if self.stopping:
                return
            learnt = nodes_by_provider.get(host.provider_id)
            if learnt is not None and not host.knows(learnt):
                capacity = capacities.get(host.provider_id) or outside[host.provider_id]
                self._refresh(
                    host,
                    nodes.with_unit_sizes(learnt, placement.read_unit_limits(conn, capacity)),
                )
            problems |= set(self._judge(conn, host, capacities.get(host.provider_id), outside))
        for message in sorted(problems - self._reported):
            LOG.warning('%s', message)
        self._reported = problems
        every_capacity = (*capacities.values(), *outside.values())
        opened = {lane_id for capacity in every_capacity for lane_id in capacity.open_lanes}
        for message in repair.close_stale_lanes(self._database, conn, present, opened):
            LOG.warning('%s; it is closed now', message)

    def _refresh(self, host: hosts.Host, node: nodes.Node) -> None:
        with contextlib.suppress(exceptions.HostNotFound):
            self._database.write(write_node, host.id, node)
            LOG.info('Host %s was refreshed', host.hypervisor_hostname)

    def _judge(
        self,
        conn: Connection,
        host: hosts.Host,
        capacity: HostCapacity | None,
        outside: Mapping[str, HostCapacity],
    ) -> Iterator[str]:
        """Yield what is wrong with a host, and repair what can be.

        A new host is left to its enrolment, and a host that is being returned to
        :mod:`climate_hosts.operations.shared_hosts`.

        :param capacity: what Placement has of it if it keeps ordinary servers off it
        :param outside: what Placement has of hosts that take ordinary servers
        """
        if host.is_new or host.is_returning:
            return
        name = host.hypervisor_hostname
        if host.open_to_unreserved:
            if capacity is not None and not isolation.update_isolation(
                self._database, conn, host.provider_id
            ):
                yield f'Host {name} was isolated from ordinary servers; it accepts them again'
            elif capacity is None and host.provider_id not in outside:
                yield f'Host {name} is not in Placement as it was enrolled'
        elif capacity is None:
            repaired = host.is_isolated and isolation.update_isolation(
                self._database, conn, host.provider_id
            )
            yield (
                f'Host {name} was not isolated from ordinary servers; it is isolated again'
                if repaired
                else f'Host {name} is not in Placement as it was enrolled. If it does not '
                'return, remove it from its pool'
            )
        elif capacity.has_only_ordinary and host.emptied_for is None and host.power is None:
            yield f'Host {name} has servers that entered without a lease'


def read_nodes(
    conn: Connection,
    listed: Iterable[Mapping[str, Any]],
    capacities: Mapping[str, HostCapacity],
    units: Mapping[str, Mapping[str, Sequence[int]]],
) -> dict[str, nodes.Node]:
    """Describe hosts, by the id of the root provider; two calls.

    :param units: the units of the inventories of each host, by the same id
    :param listed: hypervisors as Nova lists them
    :param capacities: what Placement has of hosts with lanes; other nodes are left out
    """
    services = servers.list_compute_services(conn)
    aggregates = nova.list_aggregates(conn)
    return {
        node['id']: nodes.describe_node(
            node,
            services.get(node['service']['host'], {}),
            aggregates.get(node['service']['host'], ()),
            capacities[node['id']].capacity,
            capacities[node['id']].traits,
            capacities[node['id']].root_traits,
            capacities[node['id']].divided,
            units.get(node['id'], {}),
        )
        for node in listed
        if node['id'] in capacities
    }


def read_node(
    conn: Connection, listed: Iterable[Mapping[str, Any]], provider_id: str
) -> nodes.Node | None:
    """Describe one host; None if Placement does not have it."""
    capacities = placement.read_host_capacities(conn, provider_id)
    units = {
        root_id: placement.read_unit_limits(conn, capacity)
        for root_id, capacity in capacities.items()
    }
    return read_nodes(conn, listed, capacities, units).get(provider_id)


def write_node(session: orm.Session, host_id: int, node: nodes.Node) -> None:
    """Update a host to its description by Nova and Placement, if that differs."""
    host = db.HOSTS.get(session, host_id, lock=True)
    if host.knows(node):
        return
    unit = {'capacity': node.capacity, 'properties': node.properties(host.extra)}
    db.HOSTS.update(
        session,
        host_id,
        unit,
        {
            'hypervisor_hostname': node.hypervisor_hostname,
            'service_name': node.service_name,
            'details': node.details,
        },
    )
