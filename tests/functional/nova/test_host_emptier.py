# SPDX-License-Identifier: Apache-2.0
"""Hosts are put into a pool with their servers, which are moved away, on a whole nova."""

from unittest import mock

import pytest

from climate_common import lanes
from climate_core import exceptions
from climate_hosts.db import hosts as db
from climate_hosts.hosts import State
from climate_hosts.operations.draining import HostDrainer
from climate_hosts.watch.repair import HostRepair
from tests.functional.nova.host_leases import HostLeasesTest
from tests.functional.nova.hosts import Crash
from tests.support.world import user

MIGRATE = 'nova.compute.api.API.live_migrate'


class TestHostEmptier(HostLeasesTest):
    """host1 is to be emptied; the others are for everybody."""

    POOL = ()

    def setUp(self):
        super().setUp()
        self.conf.set_override('spare_servers', 0, group='queue')
        self.emptier = HostDrainer(self.conf, self.world.database, self.cloud)

    def boot_on(self, host):
        """Boot an ordinary server that may be moved away again."""
        server = self.boot(networks='none', api=self.admin_api, host=host)
        assert self.host_of(server) == host
        return server

    def host(self):
        return self.world.database.read(db.find, 'host1')

    def poll(self, times=10):
        """Look until no host is being emptied."""
        for _ in range(times):
            if self.emptier.poll() is None:
                return

    def assert_left_alone(self):
        assert self.host() is None
        assert lanes.POOL not in self.aggregates('host1')

    def test_servers_are_moved_and_the_host_takes_promises(self):
        servers = [self.boot_on('host1') for _ in range(2)]
        self.enrol('host1', empty=True)
        host = self.host()
        assert (host.state, host.available) == (State.EMPTYING, False)
        assert host.reason == 'The host is being drained.'
        assert lanes.POOL in self.aggregates('host1')
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts()
        self.poll()
        host = self.host()
        assert (host.state, host.available, host.reason) == (State.ENROLLED, True, None)
        assert {self.show(each)['status'] for each in servers} == {'ACTIVE'}
        assert 'host1' not in {self.host_of(each) for each in servers}
        assert self.hosts_of(self.lease_hosts()) == {'host1'}

    def test_host_without_servers_takes_promises_at_the_first_look(self):
        self.enrol('host1', empty=True)
        self.poll()
        assert self.host().available

    def test_as_many_servers_as_is_allowed_are_moved_at_once(self):
        self.conf.set_override('migrations', 1, group='queue')
        for _ in range(2):
            self.boot_on('host1')
        self.enrol('host1', empty=True)
        with mock.patch(MIGRATE) as migrate:
            assert self.emptier.poll() is not None
        assert migrate.call_count == 1
        assert self.host().reason == 'The host is being drained. 2 servers left.'

    def test_what_cannot_be_moved_is_refused_and_leaves_nothing(self):
        server = self.boot_on('host1')
        self._suspend_server(server)
        why = 'Host host1 cannot be drained. Servers cannot be moved: 1 in the status SUSPENDED. '
        with pytest.raises(exceptions.HostInUse, match=f'^{why}Move or delete them first.$'):
            self.enrol('host1', empty=True)
        self.assert_left_alone()

    def test_what_does_not_fit_elsewhere_is_refused_and_leaves_nothing(self):
        self.boot_on('host1')
        self.conf.set_override('spare_servers', 1000, group='queue')
        why = (
            'Host host1 cannot be drained. Other hosts have no capacity for the servers of '
            '1 host. '
        )
        with pytest.raises(exceptions.HostInUse, match=f'^{why}Move or delete them first.$'):
            self.enrol('host1', empty=True)
        self.assert_left_alone()

    def test_server_that_is_stopped_meanwhile_is_named(self):
        server = self.boot_on('host1')
        self.enrol('host1', empty=True)
        self._stop_server(server)
        self.poll(times=3)
        assert f'{server["id"]} in the status SHUTOFF: move or delete' in self.host().reason
        assert self.show(server)['status'] == 'SHUTOFF'
        self._start_server(server)
        self.poll()
        assert self.host().available

    def test_host_that_is_given_up_keeps_its_servers(self):
        server = self.boot_on('host1')
        self.enrol('host1', empty=True)
        self.operations.delete_host(user(), self.host().id)
        self.poll()
        self.assert_left_alone()
        assert self.host_of(server) == 'host1'
        self.boot_on('host1')

    def test_host_that_is_being_emptied_is_not_changed(self):
        self.boot_on('host1')
        self.enrol('host1', empty=True)
        with pytest.raises(exceptions.HostChanging, match='is being drained'):
            self.operations.update_host(user(), self.host().id, {'pool': 'other'})

    def test_repeated_request_is_the_same_while_nova_moves_a_server(self):
        self.boot_on('host1')
        self.enrol('host1', empty=True)
        first = self.host().id
        with mock.patch(MIGRATE):
            assert self.emptier.poll() is not None
        self.enrol('host1', empty=True)
        assert self.host().id == first
        assert lanes.POOL in self.aggregates('host1')
        for values in ({}, {'shared': True}, {'empty': True, 'pool': 'other'}):
            with pytest.raises(exceptions.HostChanging, match='is being drained'):
                self.enrol('host1', **values)
        assert self.host().id == first
        self.poll()
        assert self.host().available

    def test_repair_keeps_ordinary_servers_off_it_again(self):
        self.boot_on('host1')
        self.enrol('host1', empty=True)
        conn = self.cloud.service()
        assert list(HostRepair(self.world.database, conn, True).run()) == []

    def test_any_request_may_be_the_last_of_a_manager(self):
        server = self.boot_on('host1')
        self.enrol('host1', empty=True)
        for answered in range(50):
            self.cloud.left = answered
            try:
                self.poll()
            except Crash:
                continue
            finally:
                self.cloud.left = None
            break
        assert answered
        assert self.host().available
        assert self.host_of(server) != 'host1'
        assert self.show(server)['status'] == 'ACTIVE'

    def test_shared_or_disabled_hosts_are_not_emptied(self):
        for values in ({'shared': True}, {'available': False}):
            with pytest.raises(exceptions.BadRequest, match='empty: is accepted only'):
                self.enrol('host1', empty=True, **values)
        self.assert_left_alone()
