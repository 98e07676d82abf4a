# SPDX-License-Identifier: Apache-2.0
"""Moves of the servers of a reservation of hosts, in its time and after it."""

import fixtures
from keystoneauth1 import exceptions as ks_exceptions
from nova import objects

from climate_common import lanes
from climate_core.cloud import servers
from nova_ext.scheduler import pool as row
from tests.functional.nova.hosts import Cloud
from tests.functional.nova.pool import PoolTest


class MovesTest(PoolTest):
    def live(self, server):
        self._live_migrate(server, api=self.admin_api)

    def cold(self, server):
        self._migrate_server(server, api=self.admin_api)
        self._confirm_resize(server)

    def resize(self, server):
        self._resize_server(server, self.api.get_flavors()[1]['id'])
        self._confirm_resize(server)

    def unshelve(self, server):
        self._shelve_server(server)
        self._unshelve_server(server)

    def evacuate(self, server):
        host = self.host_of(server)
        self.evacuate_from(host, server)
        self.recover(host)

    def evacuate_from(self, host, server):
        """Have a server run elsewhere, whose host is dead from now on."""
        self.computes[host].stop()
        self.lose(host)
        self._evacuate_server(server)
        self._start_server(server)

    def recover(self, host):
        self.restart(host)
        self.lose(host, lost=False)

    def refuse(self, server, host=None, **action):
        """Check that a move finds no host; nova-conductor raises it in the thread of nova-api."""
        body = action or {'os-migrateLive': {'host': host, 'block_migration': 'auto'}}
        url = f'/servers/{server["id"]}/action'
        answer = self.admin_api.api_post(url, body, check_response_status=[500])
        assert 'NoValidHost' in answer.body['computeFault']['message']

    MOVES = (live, cold, resize, unshelve, evacuate)


class TestInTheLease(MovesTest):
    def test_server_moves_inside_its_lease_and_its_slot_follows(self):
        for lane in self.lanes.values():
            lane.open(self.whole_host())
        server = self.inside()
        for move in self.MOVES:
            with self.subTest(move=move.__name__):
                before = self.host_of(server)
                move(self, server)
                after = self.host_of(server)
                self.assert_host(server, after)
                # An unshelved server may come back to its host.
                assert after in {*self.POOL} - {before} or move is MovesTest.unshelve

    def test_rebuild_stays_and_keeps_the_slot_of_a_closed_lane(self):
        lane = self.lanes['host1'].open(self.slots(), 1)
        server = self.inside()
        lane.set(1, reserved=1)
        self._rebuild_server(server, 'a2459075-d96c-40d5-893e-577ff92e721c')
        self.assert_host(server, 'host1')

    def test_server_does_not_leave_its_lease(self):
        lane = self.lanes['host1'].open(self.whole_host())
        server = self.inside()
        for host in (None, 'host2', 'host3'):
            self.refuse(server, host)
        # Closed, but still of the reservation.
        lane.set(1000, reserved=1000)
        self.refuse(server)
        self.assert_host(server, 'host1')

    def test_ordinary_server_is_not_moved_into_the_pool(self):
        self.lanes['host1'].open(self.whole_host())
        server = self.boot()
        self.refuse(server, 'host1')
        self.refuse(server)
        self.assert_host(server, 'host3')

    def test_slots_of_both_hosts_are_held_until_a_resize_is_confirmed(self):
        first, second = (lane.open(self.slots(), 1) for lane in self.lanes.values())
        server = self.inside(api=self.admin_api, host='host1')
        self._migrate_server(server, api=self.admin_api)
        # On the source the migration holds it.
        assert first.consumers
        assert second.consumers == {server['id']} != first.consumers
        self.assert_no_host(self.inside())
        self._confirm_resize(server)
        assert (first.consumers, second.consumers) == (set(), {server['id']})

    def test_slots_of_both_hosts_are_held_until_the_host_of_an_evacuated_server_is_back(self):
        first, second = (lane.open(self.slots(), 1) for lane in self.lanes.values())
        server = self.inside(api=self.admin_api, host='host1')
        conn = Cloud(self.admin_api.base_url, self.placement_fixture.endpoint).service()
        assert not servers.was_evacuated(conn, server['id'])
        self.evacuate_from('host1', server)
        assert servers.was_evacuated(conn, server['id'])
        assert self.host_of(server) == 'host2'
        assert first.consumers == second.consumers == {server['id']}
        self.assert_no_host(self.inside())
        self.recover('host1')
        assert (first.consumers, second.consumers) == (set(), {server['id']})
        self.assert_host(self.inside(), 'host1')

    def test_forced_move_is_not_asked_about(self):
        """Microversions up to 2.67: nova-scheduler is skipped."""
        self.lanes['host1'].open(self.whole_host())
        self.admin_api.microversion = '2.67'
        action = {'host': 'host1', 'block_migration': 'auto', 'force': True}
        self.admin_api.post_server_action(
            (server := self.boot())['id'], {'os-migrateLive': action}
        )
        assert self.host_of(server) == 'host1'
        action['host'] = 'host3'
        self.refuse(self.inside(), **{'os-migrateLive': action})

    def test_server_in_a_slot_moves_to_a_slot_that_is_left_and_keeps_its_flavor(self):
        self.lanes['host1'].open(self.slots(), 1)
        server = self.inside()
        self.refuse(server)
        self.lanes['host2'].open(self.slots(), 1)
        self.live(server)
        self.assert_host(server, 'host2')
        self.refuse(server, resize={'flavorRef': self.api.get_flavors()[1]['id']})
        self.assert_host(server, 'host2')


class TestAfterTheLease(MovesTest):
    def test_servers_leave_the_pool_as_ordinary_ones(self):
        lane = self.lanes['host1'].open(self.whole_host())
        servers = {move: self.inside() for move in self.MOVES}
        lane.close()
        for move, server in servers.items():
            with self.subTest(move=move.__name__):
                move(self, server)
                self.assert_host(server, 'host3')
        assert lane.consumers == set()
        self.post({'reservation': self.reservation}, status=400)

    def test_resize_to_a_host_of_any_cell_is_a_move(self):
        assert self.asked(objects.Destination(host='host3', cell=None, allow_cross_cell_move=True))
        assert not self.asked(objects.Destination(host='host3'))

    def test_lease_is_not_over_because_placement_does_not_answer(self):
        destination = objects.Destination(cell=self.cell_mappings['cell1'])
        assert self.asked(destination.obj_clone())

        def fail(*args, **kwargs):
            raise ks_exceptions.ConnectFailure

        get = 'nova.scheduler.client.report.SchedulerReportClient.get'
        with fixtures.MonkeyPatch(get, fail):
            assert not self.asked(destination)

    def asked(self, destination):
        """Tell whether hosts outside are asked for, for a server of a lease that is over."""
        spec = objects.RequestSpec(
            flavor=objects.Flavor.get_by_id(self.ctxt, 1),
            project_id=self.api.project_id,
            scheduler_hints={lanes.HINT: [self.reservation]},
            requested_destination=destination,
            requested_resources=[],
        )
        row.isolate_pool(self.ctxt, spec)
        outside = lanes.POOL in (destination.forbidden_aggregates or ())
        assert outside != bool(spec.requested_resources)
        return outside
