# SPDX-License-Identifier: Apache-2.0
"""What can be seen of how hosts are kept from ordinary servers, of a whole nova."""

import pathlib
import tempfile

from climate_common import lanes
from climate_hosts import lane_providers
from climate_hosts.db import hosts as db
from climate_hosts.watch import isolation as host_checks
from climate_hosts.watch.refresh import HostRefresher
from tests.functional.nova.hosts import HostsTest

LOADED = 'available_filters = nova.scheduler.filters.all_filters\n'
LOADED += 'available_filters = nova_ext.scheduler.PoolFilter\n'
ENABLED = 'enabled_filters = ComputeFilter, PoolFilter\n'
ISOLATED = '[scheduler]\nenable_isolated_aggregate_filtering = true\n'


class TestHostChecks(HostsTest):
    def find(self, *files):
        return host_checks.find_problems(self.database, self.cloud.service(), files)

    def isolate(self, host):
        """Do what the installation guide says of a host."""
        aggregate = self.admin_api.post_aggregate({'aggregate': {'name': 'climate-pool'}})
        action = f'/os-aggregates/{aggregate["id"]}/action'
        metadata = {f'trait:{lanes.TRAIT}': 'required'}
        self.admin_api.api_post(action, {'set_metadata': {'metadata': metadata}})
        self.admin_api.api_post(action, {'add_host': {'host': host}})

    def test_where_no_pool_has_a_host_nothing_is_looked_at(self):
        assert self.find('/etc/hostname') is None

    def test_host_is_in_an_isolated_aggregate_or_it_is_told(self):
        self.enrol('host1')
        (told,) = self.find()
        assert told.startswith(f'In no host aggregate with trait:{lanes.TRAIT}=required: host1.')
        self.isolate('host1')
        assert self.find() == []

    def test_server_that_came_by_no_lease_is_told(self):
        host_id = self.enrol('host1')
        assert host_id
        self.isolate('host1')
        self.claim(self.provider(), {'VCPU': 1})
        (told,) = self.find()
        assert told.startswith('Servers entered host1 without a lease:')

    def test_server_that_came_by_no_lease_is_told_beside_one_that_did(self):
        self.enrol('host1')
        self.isolate('host1')
        (lane_id, _) = self.database.read(db.find, 'host1').lane_ids
        lane_providers.set_slots(self.cloud.service(), lane_id, 1, is_open=True)
        self.claim(self.provider(), {'VCPU': 1}, {lane_id: {lanes.SLOT: 1}})
        assert self.find() == []
        self.claim(self.provider(), {'VCPU': 1})
        (told,) = self.find()
        assert told.startswith('Servers entered host1 without a lease:')

    def test_configuration_of_nova_scheduler(self):
        self.enrol('host1')
        self.isolate('host1')
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'nova.conf')
        for text, told in (
            (f'[filter_scheduler]\n{LOADED}{ENABLED}{ISOLATED}', []),
            (f'[filter_scheduler]\n{LOADED}{ENABLED}', ['enable_isolated_aggregate_filtering']),
            (f'[filter_scheduler]\n{LOADED}{ISOLATED}', ['does not load and enable PoolFilter']),
            (f'[filter_scheduler]\n{ENABLED}{ISOLATED}', ['does not load and enable PoolFilter']),
            (ISOLATED, ['does not load and enable PoolFilter']),
            ('nonsense', ['could not be read']),
        ):
            place.write_text(text)
            found = self.find(str(place))
            assert len(found) == len(told), found
            assert all(part in said for part, said in zip(told, found, strict=True)), found
        assert self.find(f'{place}.none') == []

    def test_hosts_that_placement_leaves_out_are_told_and_read_all_the_same(self):
        for host in self.COMPUTES:
            self.enrol(host)
        (isolated,) = self.find()
        count = len(self.COMPUTES) * self.LANES_PER_HOST
        self.placement_fixture.conf_fixture.config(
            group='placement', max_allocation_candidates=self.LANES_PER_HOST - 1
        )
        told, rest = self.find()
        assert told.startswith('Placement omits host')
        assert f'more than the {count} lanes' in told
        assert rest == isolated
        for host in self.COMPUTES:
            self.set_ratio('VCPU', 4.0, host)
        refresher = HostRefresher(self.conf, self.database, self.cloud)
        with self.assertNoLogs('climate_hosts.watch.refresh', 'WARNING'):
            refresher.refresh()
        for host in self.COMPUTES:
            assert self.database.read(db.find, host).capacity['vcpus'] == 8

    def test_host_that_placement_left_out_and_does_not_keep_is_repaired(self):
        for host in self.COMPUTES:
            self.enrol(host)
        self.placement_fixture.conf_fixture.config(
            group='placement', max_allocation_candidates=self.LANES_PER_HOST - 1
        )
        for host in self.COMPUTES:
            self.set_aggregates(host=host)
        HostRefresher(self.conf, self.database, self.cloud).refresh()
        assert all(self.aggregates(host) == {lanes.POOL} for host in self.COMPUTES)
