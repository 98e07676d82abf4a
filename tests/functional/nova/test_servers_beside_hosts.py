# SPDX-License-Identifier: Apache-2.0
"""Leases of hosts and of servers that are made for them: all of it starts at once."""

from unittest import mock

from climate_common import lanes
from climate_core.cloud import servers
from climate_hosts import lane_providers
from climate_hosts.plugins.host import HostPlugin
from tests.functional.nova.made_servers import END, HOST, IMAGE, START, MadeServersTest
from tests.support.world import user


class TestServersBesideHosts(MadeServersTest):
    """host2 is in the pool; host1 is for everybody, and has room for two servers."""

    COMPUTES = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        conf = self.world.conf
        conf.register_opts(HostPlugin.options, group=HostPlugin.resource_type)
        hosts = HostPlugin(conf, self.cloud)
        hosts.now = self.time
        self.world.plugins[HostPlugin.resource_type] = hosts
        self.enrol('host2')
        self.set_ratio('VCPU', 1.0)

    def lease_both(self, start='now', count=2):
        """Create a lease of servers that are to be made, and of a host; return its id."""
        server = {
            'name': 'web',
            'flavorRef': self.flavor['id'],
            'imageRef': IMAGE,
            'networks': self.network(),
            'count': count,
        }
        body = {'name': 'lease', 'start_date': start, 'end_date': END}
        body['reservations'] = [
            {'resource_type': 'virtual:instance', 'server': server},
            {'resource_type': HostPlugin.resource_type, 'min': 1},
        ]
        return self.create_lease(self.api.project_id, 'fake', body)

    def is_open(self, lease_id):
        """Tell whether a server may enter the host of a lease."""
        (host,) = (e for e in self.world.lease(lease_id).live if e.unit_kind == 'host')
        aggregate = lanes.host_aggregate(host.id, self.api.project_id)
        return bool(self.candidates(f'resources={lanes.SLOT}:1&member_of={aggregate}'))

    def watch_steps(self):
        """Note in which order hosts are opened and servers are woken."""
        steps, open_lane, act = [], lane_providers.open_lane, servers.act

        def opened(*args):
            steps.append('open')
            return open_lane(*args)

        def acted(conn, server_id, action, *args):
            steps.append(action)
            return act(conn, server_id, action, *args)

        for module, name, function in (
            (lane_providers, 'open_lane', opened),
            (servers, 'act', acted),
        ):
            patch = mock.patch.object(module, name, function)
            patch.start()
            self.addCleanup(patch.stop)
        return steps

    def test_all_is_there_from_the_start_to_the_end(self):
        lease_id = self.lease_both(START)
        self.look_around()
        assert self.servers() == [('web-1', 'RESERVED'), ('web-2', 'RESERVED')]
        assert not self.is_open(lease_id)
        steps = self.watch_steps()
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 3)
        # What servers may run on is there before they are.
        assert steps == ['open', 'wake_up', 'wake_up']
        assert {each[HOST] for each in self.admin_api.get_servers(detail=True)} == {'host1'}
        assert self.is_open(lease_id)
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id) == ('TERMINATED', ['deleted'] * 3)
        self.assert_nothing_left()

    def test_what_begins_now_is_made_and_opened_at_once(self):
        lease_id = self.lease_both()
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 3)
        assert self.servers() == [('web-1', 'ACTIVE'), ('web-2', 'ACTIVE')]
        assert self.is_open(lease_id)

    def test_without_room_for_its_servers_it_is_in_error_and_has_its_host(self):
        lease_id = self.lease_both(count=3)
        self.look_around(10)
        status, (*made, host) = self.state(lease_id)
        assert (status, made) == ('ERROR', ['error'] * 3)
        self.assert_nothing_left()
        # Its user takes out what could not be made, or ends the lease.
        assert (host, self.is_open(lease_id)) == ('active', True)
        self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
        self.look_around()
        assert self.world.lease(lease_id).status == 'TERMINATED'
