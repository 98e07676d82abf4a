# SPDX-License-Identifier: Apache-2.0
"""Open matching: servers that name no reservation take its slots, then become ordinary."""

import fixtures
from keystoneauth1 import exceptions as ks_exceptions

from nova_ext.scheduler import matching
from tests.functional import cost
from tests.functional.nova.pool import PoolTest


class TestMatching(PoolTest):
    def setUp(self):
        super().setUp()
        self.lane = self.lanes['host1'].open(self.slots(open_to=self.api.project_id), 2)

    def test_servers_of_the_project_fill_the_slots_and_spill(self):
        self.assert_host(self.boot(api=self.other), 'host3')
        self.assert_host(self.boot(flavorRef=self.api.get_flavors()[1]['id']), 'host3')
        self.assert_host(matched := self.boot(), 'host1')
        self.assert_host(self.inside(), 'host1')
        self.assert_no_host(self.inside())
        self.assert_host(self.boot(), 'host3')
        # Who is moved is ordinary, also if there is room in the lane.
        self._live_migrate(matched, api=self.admin_api)
        self.assert_host(matched, 'host3')
        self.assert_host(self.boot(), 'host1')
        # The lease is over.
        self.lane.close()
        self.assert_host(self.boot(), 'host3')

    def test_servers_of_one_request_are_inside_together_or_outside(self):
        for count, host in ((3, 'host3'), (2, 'host1')):
            self.boot(name=f'of-{count}', min_count=count, max_count=count)
            servers = self.api.get_servers(search_opts={'name': f'of-{count}'})
            assert len(servers) == count
            for server in servers:
                self.assert_host(server, host)

    def test_what_placement_alone_does_not_choose_is_ordinary(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'affinity'})
        for hints, server in [
            ({'group': group['id']}, {}),
            (None, {'api': self.admin_api, 'host': 'host3'}),
            (None, {'api': self.admin_api, 'availability_zone': 'nova:host3'}),
        ]:
            self.assert_host(self.boot(hints, **server), 'host3')
        self.assert_host(self.reserve(), 'host3', 'RESERVED')

    def test_zone_without_the_lane_is_ordinary(self):
        aggregate = {'name': 'zone', 'availability_zone': 'zone'}
        aggregate = self.admin_api.post_aggregate({'aggregate': aggregate})
        self.admin_api.add_host_to_aggregate(aggregate['id'], 'host3')
        self.assert_host(self.boot(availability_zone='zone'), 'host3')
        self.assert_host(self.boot(), 'host1')

    def test_belt_lets_them_in(self):
        self.flags(enable_isolated_aggregate_filtering=True, group='scheduler')
        self.isolate()
        for host in ('host1', 'host1', 'host3'):
            self.assert_host(self.boot(), host)


class TestKnowledge(PoolTest):
    def test_lane_is_found_when_the_knowledge_is_too_old(self):
        self.assert_host(self.boot(), 'host3')
        self.lanes['host1'].open(self.whole_host(open_to=self.api.project_id))
        self.extension.clock = matching.RECENT_SECONDS - 1
        self.assert_host(self.boot(), 'host3')
        self.extension.clock = matching.RECENT_SECONDS
        self.assert_host(self.boot(), 'host1')

    def test_project_without_lanes_pays_one_request_in_a_while(self):
        self.assert_looks(1, 0)
        self.lanes['host1'].open(self.whole_host('other', open_to='other'))
        self.extension.clock += matching.RECENT_SECONDS
        self.assert_looks(2, 0)

    def assert_looks(self, *expected):
        """Check how often nova-scheduler looks for providers, by boots."""
        for number in expected:
            with cost.counted() as (_, http):
                self.assert_host(self.boot(), 'host3')
            urls = [url for _, url in http]
            assert sum('/resource_providers?member_of' in url for url in urls) == number
            assert sum('/allocation_candidates' in url for url in urls) == 1

    def test_servers_are_ordinary_while_placement_does_not_say(self):
        self.lanes['host1'].open(self.whole_host(open_to=self.api.project_id))
        real = self.placement_fixture._fake_get

        def fail(client, url, *args, **kwargs):
            if url.startswith('/resource_providers?member_of'):
                raise ks_exceptions.ConnectFailure
            return real(client, url, *args, **kwargs)

        get = 'nova.scheduler.client.report.SchedulerReportClient.get'
        with fixtures.MonkeyPatch(get, fail):
            self.assert_host(self.boot(), 'host3')
