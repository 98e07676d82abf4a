# SPDX-License-Identifier: Apache-2.0
"""Leases of hosts on a whole nova and its placement."""

from unittest import mock

import webob.exc
from nova.tests.functional.api import client

from climate_common import lanes
from climate_hosts.operations.hosts import HostOperations
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.functional.nova.hosts import Crash, HostsTest
from tests.support.created import get_id
from tests.support.world import Time, World, user

OTHERS = 'other'


def _verify(context, project_id):
    if project_id == 'nobody':
        raise webob.exc.HTTPBadRequest(explanation=f'{project_id} is not a valid project.')


class HostLeasesTest(HostsTest):
    """host1 and host2 are in the pool; host3 is for everybody."""

    COMPUTES = ('host1', 'host2', 'host3')
    POOL = ('host1', 'host2')
    TYPE = HostPlugin.resource_type

    def setUp(self):
        super().setUp()
        # There is no Keystone that nova could ask for projects with access to a flavor.
        self.enterContext(mock.patch('nova.api.openstack.identity.verify_project_id', _verify))
        self.time = Time()
        self.world = World(self.database.engine.url.render_as_string(), self.time)
        self.world.requester = self.world.owner
        self.addCleanup(self.world.database.dispose)
        self.conf = self.world.conf
        self.conf.set_override('lanes_per_host', self.LANES_PER_HOST, group='hosts')
        for plugin in (HostPlugin, CapacityPlugin, SizesPlugin):
            self.conf.register_opts(plugin.options, group=plugin.resource_type)
            made = plugin(self.conf, self.cloud)
            made.now = self.time
            self.world.plugins[plugin.resource_type] = made
        self.operations = HostOperations(
            self.conf, self.world.database, self.cloud, self.paused.append
        )
        for host in self.POOL:
            self.enrol(host)
        self.others_api = client.TestOpenStackClient(
            OTHERS, self.api_fixture.base_url, project_id=OTHERS, roles=['reader', 'member']
        )
        self.others_api.microversion = self.microversion

    def lease_hosts(
        self, start='now', end='2082-12-01 14:00', project=None, name='lease', **wanted
    ):
        """Create a lease of hosts, and return it."""
        body = {'name': name, 'start_date': start, 'end_date': end}
        body['reservations'] = [{'resource_type': self.TYPE, **wanted}]
        context = user(project or self.api.project_id)
        return self.world.lease(get_id(self.world.operations.creator.create_lease(context, body)))

    def settled(self, lease, looks=20, **later):
        """Do what is due, and look again as often as the plugin wants; return the lease."""
        self.world.run_until_idle(**later)
        for _ in range(looks):
            if self.world.lease(lease.id).status not in ('STARTING', 'TERMINATING', 'DELETING'):
                break
            self.world.run_until_idle(seconds=1)
        return self.world.lease(lease.id)

    def hosts_of(self, lease):
        (reservation,) = lease.reservations
        return {each.unit['hypervisor_hostname'] for each in reservation.allocations}

    def inside(self, lease, **server):
        """Boot a server that names the reservation of a lease; return it and its host."""
        (reservation,) = lease.reservations
        made = self.boot({'reservation': reservation.id}, **server)
        return made, self.host_of(made)

    def refused(self, lease):
        """Tell whether nova-api refuses a server for it: no host accepts it."""
        (reservation,) = lease.reservations
        answer = self.post({'reservation': reservation.id}, status=400).body
        told = f'no host accepts servers for the reservation {reservation.id}'
        return told in answer['badRequest']['message']

    def change(self, lease, **wanted):
        """Change what the one reservation of a lease wants."""
        (reservation,) = lease.reservations
        self.world.update(lease.id, reservations=[{'id': reservation.id, **wanted}])

    def open_to(self, lease):
        """Return the hosts that a server may enter that names the reservation of a lease."""
        (reservation,) = lease.reservations
        aggregate = lanes.host_aggregate(reservation.id, lease.project_id)
        roots = self.candidates(f'resources={lanes.SLOT}:1&member_of={aggregate}')
        return {host for host in self.COMPUTES if self.provider(host) in roots}

    def host_of(self, server):
        """Return the host of a server; None if there was none for it."""
        found = self.show(server)
        assert found['status'] in ('ACTIVE', 'ERROR'), found
        return found['OS-EXT-SRV-ATTR:host']

    def die_and_go_on(self, lease, before=lambda: None, settle=None):
        """Let the manager die after one request to Placement more each time.

        :param before: done each time before what is due
        :param settle: does what is due; by default :meth:`settled`
        :returns: how often it died before the lease had settled
        """
        for answered in range(50):
            self.cloud.left = answered
            try:
                before()
                (settle or self.settled)(lease)
            except Crash:
                # The claim of the one that died runs out.
                self.time.forward(seconds=self.conf.engine.claim_ttl + 1)
                continue
            finally:
                self.cloud.left = None
            return answered
        raise AssertionError('it never settled')
