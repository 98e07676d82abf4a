# SPDX-License-Identifier: Apache-2.0
"""Hosts are enrolled and given back, against a whole nova and its placement."""

import fixtures
import pytest

from climate_common import lanes
from climate_core import exceptions
from climate_core.cloud import errors
from climate_hosts import lane_providers, placement
from climate_hosts.db import hosts as db
from tests.functional.nova.hosts import Crash, HostsTest, use_nodes

LANES = [lanes.lane_name('host1', number) for number in range(HostsTest.LANES_PER_HOST)]
#: What an ordinary request and one of a reservation ask Placement for, at the least.
ORDINARY = f'resources=VCPU:1&member_of=!in:{lanes.POOL}'
RESERVED = f'resources=VCPU:1&resources_lane={lanes.SLOT}:1&group_policy=none&member_of_lane=in:%s'
AGGREGATE = lanes.host_aggregate('a-reservation', 'a-project')


class TestEnrol(HostsTest):
    def test_host_gets_closed_lanes_and_keeps_out_ordinary_servers(self):
        foreign = '11111111-1111-4111-8111-111111111111'
        self.set_aggregates(foreign)
        host = self.database.read(db.HOSTS.get, self.enrol(extra={'gpu': 'True', 'rack': '7'}))
        assert (host.hypervisor_hostname, host.service_name) == ('host1', 'host1')
        assert self.aggregates() == {foreign, lanes.POOL}
        assert self.lanes_of('host1') == LANES
        for lane_id in host.lane_ids:
            inventory = self._get_provider_inventory(lane_id)[lanes.SLOT]
            assert inventory['reserved'] == inventory['total']
            assert self._get_provider_traits(lane_id) == [lanes.TRAIT]
        assert self.candidates(ORDINARY) == {self.provider('host2')}

    def test_unit_has_what_nova_and_placement_say_and_numbers_are_numbers(self):
        self.set_ratio('VCPU', 4.0)
        host = self.database.read(db.HOSTS.get, self.enrol(extra={'rack': '7', 'gpu': 'True'}))
        assert host.capacity == {'vcpus': 8, 'memory_mb': 8192 - 512, 'disk_gb': 1028}
        unit = self.unit(host.id)
        assert unit['lanes'] == len(LANES)
        assert unit['properties'] | {'traits': [], 'root_traits': []} == {
            'hypervisor_hostname': 'host1',
            'service_name': 'host1',
            'hypervisor_type': 'fake',
            'hypervisor_version': 1000,
            'vcpus': 2,
            'memory_mb': 8192,
            'local_gb': 1028,
            'cpu_arch': 'x86_64',
            'cpu_model': 'Nehalem',
            'cpu_vendor': 'Intel',
            'availability_zone': 'nova',
            'traits': [],
            'root_traits': [],
            'divided': [],
            # One server cannot have more CPUs than the host has.
            'units': {'vcpus': [1, 2, 1]},
            'aggregates': [],
            'rack': 7,
            'gpu': 'True',
        }
        for traits in ('traits', 'root_traits'):
            assert 'COMPUTE_DEVICE_TAGGING' in unit['properties'][traits]

    def test_host_that_nova_does_not_have_is_refused(self):
        with pytest.raises(exceptions.UnknownHost, match='host9') as caught:
            self.enrol('host9')
        assert caught.value.field == 'name'

    def test_host_of_a_pool_is_refused(self):
        host_id = self.enrol()
        with pytest.raises(exceptions.HostExists, match=f'is host {host_id}'):
            self.enrol()
        assert lanes.POOL in self.aggregates()

    def test_host_with_servers_is_refused_and_stays_as_it_is(self):
        before = self.aggregates()
        server = self.boot(availability_zone='nova:host1', api=self.admin_api)
        with pytest.raises(exceptions.HostInUse, match=server['id']):
            self.enrol()
        assert (self.aggregates(), self.lanes_of('host1')) == (before, [])

    def test_server_that_comes_while_a_host_is_enrolled_gets_it(self):
        def boot(method, path):
            if method == 'PUT' and path.endswith('/aggregates'):
                self.cloud.before = lambda method, path: None
                self.boot(availability_zone='nova:host1', api=self.admin_api)

        before = self.aggregates()
        self.cloud.before = boot
        with pytest.raises(exceptions.HostInUse):
            self.enrol()
        assert self.aggregates() == before
        assert self.database.read(db.find, 'host1') is None

    def test_server_that_was_on_its_way_gets_the_host(self):
        """Its candidates are from before the mark, its claim is after it."""
        before = self.aggregates()

        def claim(seconds):
            assert seconds == self.conf.hosts.enrol_seconds > 0
            assert self.aggregates() == before | {lanes.POOL}
            self.claim(self.provider(), {'VCPU': 1})

        self.operations.pause = claim
        with pytest.raises(exceptions.HostInUse):
            self.enrol()
        assert self.aggregates() == before
        assert self.database.read(db.find, 'host1') is None

    def test_enrolment_that_died_anywhere_is_finished_by_the_same_request(self):
        before = self.aggregates()
        for step in range(1000):
            self.cloud.left = step
            try:
                host_id = self.enrol()
            except Crash:
                found = self.database.read(db.find, 'host1')
                assert found is None or found.is_new
                continue
            break
        assert step > 12
        self.cloud.left = None
        assert self.aggregates() == before | {lanes.POOL}
        assert self.lanes_of('host1') == LANES
        assert self.operations.delete_host(self.context, host_id) is None

    def test_enrolment_that_fails_gives_the_host_back(self):
        with (
            fixtures.MonkeyPatch('climate_hosts.operations.enrolment._complete', _fail),
            pytest.raises(RuntimeError),
        ):
            self.enrol()
        assert lanes.POOL not in self.aggregates()
        assert self.database.read(db.find, 'host1') is None
        assert self.enrol()


class TestNodes(HostsTest):
    COMPUTES = ('host1',)
    NODES = ('node1', 'node2')

    def setUp(self):
        use_nodes(self, self.NODES)
        super().setUp()

    def test_each_node_of_a_service_is_a_host(self):
        with pytest.raises(exceptions.UnknownHost, match=r'several nodes.*: node1, node2'):
            self.enrol()
        for name in self.NODES:
            host = self.database.read(db.HOSTS.get, self.enrol(name))
            assert (host.hypervisor_hostname, host.service_name) == (name, 'host1')


class TestNode(TestNodes):
    NODES = ('node1.example',)

    def test_each_node_of_a_service_is_a_host(self):
        """The name of the service is enough."""
        host = self.database.read(db.HOSTS.get, self.enrol())
        assert host.hypervisor_hostname == 'node1.example'


class TestLeave(HostsTest):
    def test_host_is_given_back_and_can_come_again(self):
        before = self.aggregates()
        host = self.database.read(db.HOSTS.get, self.enrol())
        self.operations.delete_host(self.context, host.id)
        assert self.aggregates() == before
        assert self.candidates(ORDINARY) == {self.provider('host1'), self.provider('host2')}
        with pytest.raises(exceptions.HostNotFound):
            self.database.read(db.HOSTS.get, host.id)
        again = self.database.read(db.HOSTS.get, self.enrol())
        assert again.lane_ids == host.lane_ids
        assert again.id != host.id

    def test_leaving_that_died_anywhere_is_finished_by_the_same_request(self):
        host_id = self.enrol()
        for step in range(1000):
            self.cloud.left = step
            try:
                self.operations.delete_host(self.context, host_id)
            except Crash:
                assert self.database.read(db.HOSTS.get, host_id)
                # One that was given back has the servers of everybody.
                if lanes.POOL not in self.aggregates():
                    self.claim(self.provider(), {'VCPU': 1})
                continue
            break
        assert step > 8
        assert lanes.POOL not in self.aggregates()

    def test_open_lane_is_closed(self):
        host = self.database.read(db.HOSTS.get, self.enrol())
        lane_providers.set_lane_aggregates(self.cloud.service(), host.lane_ids[0], [AGGREGATE])
        lane_providers.set_slots(self.cloud.service(), host.lane_ids[0], 2, is_open=True)
        self.operations.delete_host(self.context, host.id)
        assert not self._get_provider_aggregates(host.lane_ids[0])
        assert not self.candidates(RESERVED % AGGREGATE)

    def test_host_with_servers_stays_in_the_pool(self):
        host_id = self.enrol()
        self.claim(self.provider(), {'VCPU': 1})
        with pytest.raises(exceptions.HostInUse):
            self.operations.delete_host(self.context, host_id)
        assert lanes.POOL in self.aggregates()
        assert self.database.read(db.HOSTS.get, host_id).available

    def test_server_that_comes_meanwhile_has_the_host_stay_as_it_was(self):
        host_id = self.enrol()

        def claim(method, path):
            if method == 'PUT' and path.endswith('/inventories'):
                self.cloud.before = lambda _method, _path: None
                self.claim(self.provider(), {'VCPU': 1})

        self.cloud.before = claim
        with pytest.raises(exceptions.HostInUse):
            self.operations.delete_host(self.context, host_id)
        assert lanes.POOL in self.aggregates()
        assert self.database.read(db.HOSTS.get, host_id).available

    def test_host_that_nova_has_no_more_leaves(self):
        host_id = self.enrol()
        self.compute.stop()
        (service,) = self.admin_api.get_services(binary='nova-compute', host='host1')
        self.admin_api.api_delete(f'/os-services/{service["id"]}')
        assert self.operations.delete_host(self.context, host_id) is None


class TestLane(HostsTest):
    def setUp(self):
        super().setUp()
        self.conn = self.cloud.service()
        host = self.database.read(db.HOSTS.get, self.enrol())
        self.lane_id = host.lane_ids[0]

    def test_open_lane_lets_its_reservation_in(self):
        lane_providers.set_lane_aggregates(self.conn, self.lane_id, [AGGREGATE])
        lane_providers.set_slots(self.conn, self.lane_id, 2, is_open=False)
        assert not self.candidates(RESERVED % AGGREGATE)
        lane_providers.set_slots(self.conn, self.lane_id, 2, is_open=True)
        assert self.candidates(RESERVED % AGGREGATE)
        assert lane_providers.close_lane(self.conn, self.lane_id) == []
        assert not self.candidates(RESERVED % AGGREGATE)

    def test_closed_lane_tells_who_is_in_it(self):
        lane_providers.set_slots(self.conn, self.lane_id, 2, is_open=True)
        server_id = self.claim(self.lane_id, {lanes.SLOT: 1})
        assert lane_providers.close_lane(self.conn, self.lane_id) == [server_id]
        inventory = self._get_provider_inventory(self.lane_id)[lanes.SLOT]
        assert (inventory['total'], inventory['reserved']) == (2, 2)

    def test_write_goes_on_when_others_were_faster(self):
        lane_providers.set_slots(self.conn, self.lane_id, 9, is_open=True)
        claims = iter(range(3))

        def claim(method, path):
            if (
                method == 'PUT'
                and path.endswith('/inventories')
                and next(claims, None) is not None
            ):
                self.claim(self.lane_id, {lanes.SLOT: 1})

        self.cloud.before = claim
        assert len(lane_providers.close_lane(self.conn, self.lane_id)) == 3

    def test_claim_at_any_moment_while_a_lane_is_left_is_told_or_refused(self):
        own, ended = lanes.reservation_aggregate('r'), lanes.ended_aggregate('r')
        outcomes = []
        for moment in range(6):
            lane_providers.set_lane_aggregates(self.conn, self.lane_id, [own])
            lane_providers.set_slots(self.conn, self.lane_id, 9, is_open=True)
            came = []

            def claim(_method, _path, moment=moment, came=came):
                if len(self.cloud.requests) == moment and self.has_slot():
                    came.append(self.claim(self.lane_id, {lanes.SLOT: 1}))

            self.cloud.requests.clear()
            self.cloud.before = claim
            assert lane_providers.drain_lane(self.conn, self.lane_id, 'r') == came
            self.cloud.before = lambda _method, _path: None
            found = lane_providers.read_access(self.conn, self.lane_id).aggregates
            assert found == ({ended} if came else set())
            for each in came:
                self.placement.delete(f'/allocations/{each}', version='1.39')
            assert lane_providers.drain_lane(self.conn, self.lane_id, 'r') == []
            assert not lane_providers.is_open(self.conn, self.lane_id)
            outcomes.append(len(came))
        # The slots are closed by the third request, after which no claim gets in.
        assert outcomes == [1, 1, 1, 0, 0, 0]

    def has_slot(self):
        """Tell whether Placement would let a server into the lane."""
        slot = self._get_provider_inventory(self.lane_id)[lanes.SLOT]
        return slot['reserved'] < slot['total']

    def test_lane_of_another_host_is_refused(self):
        root = placement.Provider(self.provider('host2'), 'host1', self.provider('host2'))
        with pytest.raises(errors.Forbidden, match='does not belong to'):
            lane_providers.create_lane(self.conn, root, 0)


def _fail(*_args):
    raise RuntimeError
