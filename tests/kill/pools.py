# SPDX-License-Identifier: Apache-2.0
"""A pool of hosts for managers that die, in Placement itself."""

import sqlalchemy as sa

from climate_common import lanes
from climate_core.calendar.calendar import Calendar
from climate_core.cloud.servers import list_flavors
from climate_core.cloud.trusts import Trusts
from climate_core.context import RequestContext
from climate_core.db import sql, tables
from climate_core.db.sql import Clock
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.services import Services
from climate_core.plugins import loading
from climate_hosts import lane_providers, placement
from climate_hosts.db import hosts as db
from climate_hosts.db.hosts import HOSTS
from climate_hosts.operations.hosts import HostOperations
from tests.support.created import get_id
from tests.support.fakes import leases


class Pool:
    """Hosts with one lane each, in a pool.

    :param names: of the hosts to enrol
    """

    def __init__(self, stage, *names):
        self.stage = stage
        self.conf, cloud = stage.own()
        self.conn = cloud.service()
        self._database = stage.database
        self._hosts = HostOperations(self.conf, stage.database, cloud)
        plugins, clock = loading.load_plugins(self.conf, cloud), Clock(stage.database)
        calendar = Calendar(stage.database)
        services = Services(
            self.conf,
            stage.database,
            clock,
            plugins,
            calendar,
            Trusts(cloud),
            cloud,
        )
        self._leases = LeaseOperations(services)
        for name in names:
            stage.cloud.order('hypervisors', [{'name': name}])
            self.enrol(name)

    def enrol(self, name, **values):
        self._hosts.create_host(RequestContext(user_id='operator'), {'name': name, **values})

    def lease(self, count, start='now', wanted=None, **more):
        """Create a lease of hosts, or of what is wanted in their place, and return it."""
        hosts = {'resource_type': 'physical:host', 'min': count}
        body = {'name': 'lease1', 'reservations': [wanted or hosts]}
        body.update(start_date=start, end_date='2099-01-01 00:00', **more)
        lease_id = get_id(self._leases.creator.create_lease(self._alice(), body))
        return leases.read(self.stage.database, lease_id)

    def start(self, lease):
        """Start a lease now."""
        self._leases.update_lease(self._alice(), lease.id, {'start_date': 'now'})

    def end(self, lease):
        """End a lease now."""
        self._leases.end_lease(self._alice(), lease.id)

    def _alice(self):
        return RequestContext(
            auth_token=self.stage.cloud.token('alice'),
            user_id='alice-id',
            project_id='demo-id',
            roles=['member', 'reader'],
        )

    def find(self, name):
        """Return the row of a host; None if it is in no pool."""
        return self._database.read(db.find, name)

    def is_marked(self, name):
        return name in {each.name for each in placement.list_pool(self.conn)}

    def kept(self):
        """Return the names of the hosts with a taken lane -> the reservation that has it."""
        found = {
            host.hypervisor_hostname: host.lane_ids[0]
            for host in HOSTS.iterate_all(self._database)
        }
        kept = {
            name: lane_providers.read_access(self.conn, each).aggregates
            for name, each in found.items()
        }
        return {name: each for name, each in kept.items() if each}

    def open(self):
        """Return the names of the hosts whose lanes are open."""
        rooms = placement.read_host_capacities(self.conn)
        return {
            host.hypervisor_hostname
            for host in HOSTS.iterate_all(self._database)
            if rooms[host.provider_id].open_lanes
        }

    def enter(self, name):
        """Have a server of alice on a host, by its lane; return the id of the server."""
        (server,) = self.stage.cloud.servers(1, status='ACTIVE')
        host = self.find(name)
        claim = {'hypervisor_id': host.provider_id, 'server_id': server}
        self.stage.cloud.order('claims', [{**claim, 'lane_id': host.lane_ids[0]}])
        return server

    def allocations(self):
        """Return the names of the hosts that are promised from now on."""
        found = {host.id: host.hypervisor_hostname for host in HOSTS.iterate_all(self._database)}
        with self._database.reader() as session:
            column = tables.ALLOCATIONS.c
            query = sa.select(column.unit_id).where(column.end > sql.now(session))
            return sorted(found[each] for each in session.scalars(query))

    def flavors(self):
        """Return the flavors of the cloud by their ids."""
        return {each['id']: each for each in list_flavors(self.conn)}

    def written(self):
        """Return how many requests that change something Placement has accepted."""
        asked = self.stage.cloud.call('/fake/requests')[1]
        return sum(m != 'GET' and '/placement' in path and code < 300 for m, path, code in asked)


def aggregates(lease):
    """Return what the lanes of a lease of one reservation are in while they are open."""
    (reservation,) = lease.reservations
    return frozenset(lanes.lane_aggregates(reservation.id, [lease.project_id]))
