# SPDX-License-Identifier: Apache-2.0
"""Who gets onto hosts of the pool: servers of a reservation, of its project, while it lasts."""

import uuid

import fixtures
import pytest
from keystoneauth1 import exceptions as ks_exceptions
from nova.scheduler import host_manager, request_filter
from nova.scheduler.client import report
from nova.scheduler.filters.aggregate_instance_extra_specs import (
    AggregateInstanceExtraSpecsFilter,
)

from climate_common import lanes
from climateclient.extension.errors import Incompatible
from nova_ext import scheduler
from nova_ext.scheduler import pool as row
from tests.functional.nova.pool import PoolTest


class TestWhoGetsIn(PoolTest):
    def test_ordinary_servers_stay_outside(self):
        self.lanes['host1'].open(self.whole_host())
        for _ in range(2):
            self.assert_host(self.boot(), 'host3')
        for place in (
            {'availability_zone': 'nova:host1'},
            {'availability_zone': 'nova::host2'},
            {'host': 'host1'},
            {'hypervisor_hostname': 'host2'},
        ):
            with self.subTest(**place):
                self.assert_no_host(self.boot(api=self.admin_api, **place))
        self.assert_host(self.boot(api=self.admin_api, host='host3'), 'host3')

    def test_only_the_project_of_a_reservation_enters_with_its_id(self):
        self.lanes['host1'].open(self.whole_host())
        self.assert_host(self.inside(), 'host1')
        self.assert_host(self.boot({'reservation': [self.reservation.upper()]}), 'host1')
        self.assert_no_host(
            self.inside(api=self.other),
            self.inside(api=self.admin_api, host='host3'),
        )
        self.lanes['host2'].open(self.whole_host(self.api.project_id, 'other'))
        self.assert_host(self.inside(api=self.other), 'host2')

    def test_reservation_that_no_lane_is_for_is_refused_before_anything_is_built(self):
        self.lanes['host1'].open(self.whole_host())
        unknown = str(uuid.uuid4())
        answer = self.post({'reservation': unknown}, status=400).body['badRequest']
        assert answer['message'] == (
            'Invalid scheduler hint reservation: no host accepts servers for the reservation '
            f'{unknown}: its id is unknown, it has not started, it has ended, or its failed host '
            'is being replaced'
        )
        assert self.api.get_servers() == []

    def test_scheduler_judges_if_placement_does_not_answer_nova_api(self):
        real = report.SchedulerReportClient.get

        def get(client, url, *args, **kwargs):
            if 'resource_providers?member_of' in url:
                raise ks_exceptions.ConnectFailure
            return real(client, url, *args, **kwargs)

        self.lanes['host1'].open(self.whole_host())
        with fixtures.MonkeyPatch('nova.scheduler.client.report.SchedulerReportClient.get', get):
            self.assert_host(self.inside(), 'host1')
            self.assert_no_host(self.boot({'reservation': str(uuid.uuid4())}))

    def test_next_boot_obeys_what_was_opened_or_closed(self):
        lane = self.lanes['host1'].prepare(self.whole_host(), 1000)
        self.assert_no_host(self.inside())
        for _ in range(2):
            lane.set(1000)
            server = self.inside()
            self.assert_host(server, 'host1')
            lane.set(1000, reserved=1000)
            self.assert_no_host(self.inside())
            self.assert_host(server, 'host1')

    def test_lane_that_closes_after_the_candidates_were_read_refuses_the_claim(self):
        lane = self.lanes['host1'].open(self.whole_host())
        real = report.SchedulerReportClient.get_allocation_candidates
        found = []

        def close(client, context, resources):
            found.append(real(client, context, resources))
            lane.close()
            return found[-1]

        where = 'nova.scheduler.client.report.SchedulerReportClient.get_allocation_candidates'
        with fixtures.MonkeyPatch(where, close):
            server = self.inside()
        ((candidates, _, _),) = found
        assert candidates
        self.assert_no_host(server)


class TestFlavor(PoolTest):
    def test_flavor_names_the_reservation(self):
        self.lanes['host1'].open(self.slots())
        for specs, host in [
            ({lanes.EXTRA_SPEC: self.reservation}, 'host1'),
            ({lanes.EXTRA_SPEC: self.reservation, 'quota:cpu_shares': '5'}, None),
            ({'quota:cpu_shares': '5'}, 'host3'),
        ]:
            with self.subTest(specs=specs):
                server = self.boot(flavorRef=self.like_the_usual(specs))
                if host:
                    self.assert_host(server, host)
                else:
                    self.assert_no_host(server)

    def test_hint_goes_before_the_flavor(self):
        self.lanes['host1'].open(self.whole_host())
        flavor = self.like_the_usual({lanes.EXTRA_SPEC: str(uuid.uuid4())})
        self.assert_host(self.inside(flavorRef=flavor), 'host1')

    def test_filter_by_aggregates_lets_a_reservation_pass_and_keeps_flavors_of_blazar(self):
        """No aggregate has the metadata that the filter wants for what Blazar's clients read."""
        filters = self.scheduler.manager.host_manager.enabled_filters
        filters.append(AggregateInstanceExtraSpecsFilter())
        self.lanes['host1'].open(self.slots())
        marks = dict.fromkeys(lanes.MARKS, self.reservation)
        server = self.boot(flavorRef=self.like_the_usual(marks))
        self.assert_host(server, 'host1')
        assert self.show(server)['flavor']['extra_specs'] == marks
        of_blazar = self.like_the_usual({lanes.BLAZAR_SPEC: self.reservation})
        self.assert_no_host(self.boot(flavorRef=of_blazar))

    def test_flavor_must_name_a_uuid(self):
        flavor = self.like_the_usual({lanes.EXTRA_SPEC: self.reservation})
        url = f'/flavors/{flavor}/os-extra_specs'
        for name, value in [(lanes.EXTRA_SPEC, 'lease1'), ('climate:lease', self.reservation)]:
            body = {'extra_specs': {name: value}}
            self.admin_api.api_post(url, body, check_response_status=[400])
        # Nova validates nothing before microversion 2.86.
        self.admin_api.microversion = '2.85'
        self.admin_api.post_extra_spec(flavor, {'extra_specs': {lanes.EXTRA_SPEC: 'lease1'}})
        self.admin_api.microversion = self.microversion
        self.assert_no_host(server := self.boot(flavorRef=flavor))
        assert f'{lanes.EXTRA_SPEC}: must be a uuid' in self.show(server)['fault']['message']

    def like_the_usual(self, extra_specs):
        """Make a flavor with the sizes of the usual one; give its id."""
        sizes = {name: self.flavor[name] for name in ('ram', 'vcpus', 'disk')}
        flavor = {'id': uuid.uuid4().hex, 'name': uuid.uuid4().hex, **sizes}
        self.admin_api.post_flavor({'flavor': flavor})
        self.admin_api.post_extra_spec(flavor['id'], {'extra_specs': extra_specs})
        return flavor['id']


class TestSlots(PoolTest):
    def setUp(self):
        super().setUp()
        self.lane = self.lanes['host1'].open(self.slots(), 2)

    def test_servers_of_the_flavor_take_the_slots_and_give_them_back(self):
        self.assert_no_host(self.inside(flavorRef=self.api.get_flavors()[1]['id']))
        first, second = self.inside(), self.inside()
        self.assert_no_host(self.inside())
        self.delete(first)
        self.assert_host(third := self.inside(), 'host1')
        assert self.lane.consumers == {second['id'], third['id']}
        # Fewer than are used: nothing happens to those.
        self.lane.set(1)
        self.assert_host(third, 'host1')
        self.delete(third)
        self.assert_no_host(self.inside())

    def test_several_servers_of_one_request_get_slots_all_or_none(self):
        for count, fits in ((3, False), (2, True)):
            self.inside(name=f'of-{count}', min_count=count, max_count=count)
            servers = self.api.get_servers(search_opts={'name': f'of-{count}'})
            assert len(servers) == count
            if fits:
                assert self.lane.consumers == {each['id'] for each in servers}
            else:
                self.assert_no_host(*servers)

    def test_reservations_share_a_host_by_a_lane_each(self):
        others = self.pool.enrol('host1', 1).open(self.slots('other'), 2)
        theirs, ours = self.inside(api=self.other), self.inside()
        assert {self.host_of(theirs), self.host_of(ours)} == {'host1'}
        assert (others.consumers, self.lane.consumers) == ({theirs['id']}, {ours['id']})


class TestBelt(PoolTest):
    """Nova's own aggregates, isolated by a trait, keep the pool shut where the row is missing."""

    def setUp(self):
        super().setUp()
        self.flags(enable_isolated_aggregate_filtering=True, group='scheduler')
        self.lanes['host1'].open(self.whole_host())

    def test_pool_works_with_the_belt(self):
        self.isolate()
        self.assert_host(self.inside(), 'host1')
        self.assert_host(self.boot(), 'host3')

    def test_pool_is_shut_in_a_scheduler_without_the_row(self):
        request_filter.ALL_REQUEST_FILTERS.remove(row.isolate_pool)
        to_the_pool = {'api': self.admin_api, 'availability_zone': 'nova:host1'}
        assert self.host_of(self.boot(**to_the_pool)) == 'host1'
        self.isolate()
        self.assert_no_host(self.boot(**to_the_pool))
        self.assert_host(self.boot(), 'host3')
        self.assert_host(self.inside(), 'host3')


class TestReserved(PoolTest):
    """A reserved server in a lane; its own lease is another."""

    def reserved_inside(self):
        server = self.reserve(others={'reservation': self.reservation})
        self.assert_status(server, 'RESERVED')
        return server

    def test_reserved_server_takes_a_slot_and_keeps_it_when_it_starts(self):
        for aggregates in (self.whole_host(), self.slots()):
            lane = self.lanes['host1'].open(aggregates, 1)
            server = self.reserved_inside()
            self.assert_host(server, 'host1', 'RESERVED')
            self.assert_no_host(self.inside())
            lane.close()
            self.wake_up(server)
            self.assert_host(server, 'host1')
            self.delete(server)
            assert lane.consumers == set()

    def test_reserved_server_of_a_lost_host_starts_in_another_lane(self):
        for lane in self.lanes.values():
            lane.open(self.whole_host())
        server = self.reserved_inside()
        host = self.host_of(server)
        self.lose(host)
        self.wake_up(server)
        (left,) = {*self.POOL} - {host}
        self.assert_host(server, left)

    def test_reserved_server_of_a_lost_host_starts_outside_when_the_hosts_are_given_back(self):
        lane = self.lanes['host1'].open(self.whole_host())
        server = self.reserved_inside()
        self.lose('host1')
        self.wake_up(server, status=409)
        lane.close()
        self.wake_up(server)
        self.assert_host(server, 'host3')


class TestNodes(PoolTest):
    """Several nodes of one nova-compute, as Ironic's; only one of them is in the pool."""

    COMPUTES = ('host1',)
    POOL = ('host1',)

    def _setup_compute_service(self):
        compute = super()._setup_compute_service()
        compute.manager.driver._set_nodes(['host1', 'node2'])
        self._run_periodics()
        return compute

    def test_only_the_node_is_in_the_pool(self):
        self.lanes['host1'].open(self.whole_host())
        for _ in range(2):
            assert self.node_of(self.boot()) == 'node2'
            assert self.node_of(self.inside()) == 'host1'
        for node, hints in (('host1', None), ('node2', {'reservation': self.reservation})):
            self.assert_no_host(self.boot(hints, self.admin_api, hypervisor_hostname=node))

    def node_of(self, server):
        return self.assert_status(server, 'ACTIVE')['OS-EXT-SRV-ATTR:hypervisor_hostname']


class TestInstall(PoolTest):
    def test_row_is_the_first_and_there_once(self):
        scheduler.PoolFilter()
        assert request_filter.ALL_REQUEST_FILTERS[0] is row.isolate_pool
        assert request_filter.ALL_REQUEST_FILTERS.count(row.isolate_pool) == 1
        assert request_filter.isolate_aggregates in request_filter.ALL_REQUEST_FILTERS

    def test_scheduler_of_a_nova_that_differs_does_not_start(self):
        for name, value in [
            ('ALL_REQUEST_FILTERS', (request_filter.isolate_aggregates,)),
            ('process_reqspec', lambda spec: None),
        ]:
            where = f'nova.scheduler.request_filter.{name}'
            with fixtures.MonkeyPatch(where, value), pytest.raises(Incompatible, match=name):
                host_manager.HostManager()
