# SPDX-License-Identifier: Apache-2.0
"""Hosts stay in the pool, and open to a reservation, whatever others do with them in Nova."""

import fixtures
from nova.cmd import manage

from tests.functional.nova.pool import PoolTest


class TestPoolLasts(PoolTest):
    def setUp(self):
        super().setUp()
        self.lanes['host1'].open(self.whole_host())
        self.server = self.inside()
        self.before = self.look()

    def look(self):
        """Return the aggregates of all providers, and what the lanes have."""
        providers = self.pool.call('get', '/resource_providers')['resource_providers']
        found = {
            each['name']: self.pool.call('get', f'/resource_providers/{each["uuid"]}/aggregates')
            for each in providers
        }
        inside = {
            host: self.pool.call('get', f'{lane.url}/inventories')['inventories']
            for host, lane in self.lanes.items()
        }
        return {name: set(each['aggregates']) for name, each in found.items()}, inside

    def assert_as_before(self):
        (aggregates, inside), (had, has) = self.look(), self.before
        assert inside == has
        assert {name: aggregates[name] & had[name] for name in had} == had
        self.assert_host(self.server, 'host1')
        self.assert_host(self.boot(), 'host3')
        self.assert_host(another := self.inside(), 'host1')
        self.delete(another)

    def test_nova_compute_starts_again_and_reports_what_its_host_has(self):
        for host in self.POOL:
            self.restart(host)
        self._run_periodics()
        self.assert_as_before()

    def test_nova_manage_puts_placement_right(self):
        self.isolate()
        output = self.useFixture(fixtures.StringStream('stdout')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stdout', output))
        self.before = self.look()
        command = manage.PlacementCommands()
        for run in (
            lambda: command.heal_allocations(verbose=True),
            lambda: command.sync_aggregates(verbose=True),
            lambda: command.audit(verbose=True, delete=True),
        ):
            run()
            self.assert_as_before()

    def test_service_and_aggregates_are_changed(self):
        (service,) = self.admin_api.get_services(binary='nova-compute', host='host1')
        for status in ('disabled', 'enabled'):
            self.admin_api.put_service(service['id'], {'status': status})
        self.assert_as_before()
        aggregate = self.admin_api.post_aggregate({'aggregate': {'name': 'rack'}})
        self.admin_api.add_host_to_aggregate(aggregate['id'], 'host1')
        self.assert_as_before()
        action = {'remove_host': {'host': 'host1'}}
        self.admin_api.post_aggregate_action(aggregate['id'], action)
        self.assert_as_before()

    def test_placement_names_fewer_candidates_than_there_are(self):
        self.flags(max_placement_results=1, group='scheduler')
        self.lanes['host1'].close()
        self.delete(self.server)
        for host in self.POOL:
            self.lanes[host].open(self.whole_host())
            for _ in range(2):
                self.assert_host(self.inside(), host)
                self.assert_host(self.boot(), 'host3')
            self.lanes[host].close()
