# SPDX-License-Identifier: Apache-2.0
"""Pinned CPUs, PCI devices, ports with guaranteed bandwidth, accelerators: held once."""

import uuid

import nova.conf
from nova import context as nova_context
from nova import objects, service_auth
from nova.tests import fixtures as nova_fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional import test_servers, test_servers_resource_request
from nova.tests.functional.libvirt import base as libvirt_base
from oslo_serialization import jsonutils

from climate_common import lanes
from tests.functional.lease_service import refusal
from tests.functional.nova import pool
from tests.functional.nova.base import NovaTest, Reservations, Spawned

CONF = nova.conf.CONF
DEVICE = {'vendor_id': fakelibvirt.PCI_VEND_ID, 'product_id': fakelibvirt.PCI_PROD_ID}
real_auth_plugin = service_auth.get_service_user_token_auth_plugin


class TestPinnedAndPci(NovaTest, libvirt_base.ServersTestBase):
    ADDITIONAL_FILTERS = ['NUMATopologyFilter', 'PciPassthroughFilter']
    ADMIN_API = True
    COMPUTES = ()

    def setUp(self):
        super().setUp()
        self.flags(cpu_dedicated_set='0-7', group='compute')
        self.flags(
            device_spec=[jsonutils.dumps(DEVICE)],
            alias=[jsonutils.dumps({**DEVICE, 'name': 'card'})],
            group='pci',
        )
        specs = {'hw:cpu_policy': 'dedicated', 'pci_passthrough:alias': 'card:1'}
        self.pinned = self._create_flavor(extra_spec=specs)
        self.start('compute1')

    def _setup_compute_service(self):
        libvirt_base.ServersTestBase._setup_compute_service(self)

    def start(self, host):
        self.start_compute(host, pci_info=fakelibvirt.HostPCIDevicesInfo(num_pci=2))

    def restart_libvirt(self, host='compute1'):
        self.restart_compute_service(host)

    def pins(self, host='compute1'):
        """Return the CPUs that the host has given to servers."""
        (node,) = self.computes[host].manager.rt.compute_nodes.values()
        topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
        return sorted(cpu for cell in topology.cells for cpu in cell.pinned_cpus)

    def cards(self, host='compute1'):
        """Servers that have a PCI device of the host."""
        node = objects.ComputeNode.get_by_host_and_nodename(self.ctxt, host, host)
        devices = objects.PciDeviceList.get_by_compute_node(self.ctxt, node.id)
        return [device.instance_uuid for device in devices if device.instance_uuid]

    def test_cpus_and_pci_devices_are_held_once_until_the_delete(self):
        server = self.reserve(flavorRef=self.pinned)
        self.assert_status(server, 'RESERVED')
        pins = self.pins()
        assert len(pins) == 2
        assert self.cards() == [server['id']]
        before = self.instance(server).numa_topology.cells[0].cpu_pinning

        self.restart_libvirt()
        self._run_periodics()
        assert self.pins() == pins
        assert self.cards() == [server['id']]

        spawned = self.spy_on('compute1')
        spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(server)
        self.assert_status(server, 'RESERVED')
        assert (self.pins(), self.cards()) == (pins, [server['id']])
        spawned.fail_with = None
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.pins() == pins
        assert self.cards() == [server['id']]
        assert self.instance(server).numa_topology.cells[0].cpu_pinning == before
        self._run_periodics()
        assert self.pins() == pins

        self.delete(server)
        assert (self.pins(), self.cards()) == ([], [])
        # Nor does a refused lease keep them.
        self.lease_service.answer = refusal(403, 'no')
        self.assert_status(self.reserve(flavorRef=self.pinned), 'ERROR')
        assert (self.pins(), self.cards()) == ([], [])
        self.lease_service.answer = None
        # What is held goes to no other server.
        servers = [self.reserve(flavorRef=self.pinned) for _ in range(2)]
        for server in servers:
            self.assert_status(server, 'RESERVED')
        third = self.reserve(flavorRef=self.pinned)
        self.assert_status(third, 'ERROR')
        assert sorted(self.cards()) == sorted(server['id'] for server in servers)

    def test_other_host_gives_its_own_cpus_and_pci_devices(self):
        server = self.reserve(flavorRef=self.pinned)
        self.start('compute2')
        self.lose('compute1')
        self.wake_up(server)
        found = self.assert_status(server, 'ACTIVE')
        assert found['OS-EXT-SRV-ATTR:host'] == 'compute2'
        assert len(self.pins('compute2')) == 2
        assert self.cards('compute2') == [server['id']]


class TestPortsWithBandwidth(
    Reservations, test_servers_resource_request.PortResourceRequestBasedSchedulingTestBase
):
    def setUp(self):
        super().setUp()
        self.useFixture(nova_fixtures.CastAsCallFixture(self))

    def reserve_with_port(self, **hints):
        self.flavor = self.flavor_with_group_policy
        self.port = self.neutron.port_with_resource_request
        server = self.reserve(networks=[{'port': self.port['id']}], others=hints)
        self.assert_status(server, 'RESERVED')
        return server

    def bound_to(self):
        return self.neutron.show_port(self.port['id'])['port']['binding:profile'].get('allocation')

    def check(self, server, provider, *others):
        bridge = self.ovs_bridge_rp_per_host[provider]
        assert self.bound_to() == bridge
        assert set(self.allocations(server)) == {provider, bridge, *others}

    def test_bandwidth_is_held_and_mapped_at_the_start(self):
        server = self.reserve_with_port()
        self.check(server, self.compute1_rp_uuid)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        self.check(server, self.compute1_rp_uuid)
        self.delete(server)
        assert self.allocations(server) == {}
        assert self.bound_to() is None

    def test_bandwidth_comes_from_the_other_host(self):
        server = self.reserve_with_port()
        self._start_compute('host2')
        second = self._get_provider_uuid_by_host('host2')
        self._create_networking_rp_tree('host2', second)
        self.lose('host1')
        self.wake_up(server)
        found = self.assert_status(server, 'ACTIVE')
        assert found['OS-EXT-SRV-ATTR:host'] == 'host2'
        self.check(server, second)

    def test_bandwidth_is_held_and_mapped_beside_a_lane(self):
        reservation = str(uuid.uuid4())
        lane = pool.Pool(self.placement).enrol('host1')
        lane.open(lanes.lane_aggregates(reservation, [self.api.project_id]))
        server = self.reserve_with_port(reservation=reservation)
        self.check(server, self.compute1_rp_uuid, lane.uuid)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        self.check(server, self.compute1_rp_uuid, lane.uuid)

    def test_sriov_port_is_bound_at_the_start(self):
        self.flavor = self.flavor_with_group_policy
        port = self.neutron.port_with_sriov_resource_request
        server = self.reserve(networks=[{'port': port['id']}])
        self.assert_status(server, 'RESERVED')
        held = self.allocations(server)
        assert len(held) == 2
        before = self.neutron.show_port(port['id'])['port']['binding:profile']
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.allocations(server) == held
        assert self.neutron.show_port(port['id'])['port']['binding:profile'] == before
        devices = objects.PciDeviceList.get_by_instance_uuid(
            nova_context.get_admin_context(), server['id']
        )
        assert len(devices) == 1


class TestAccelerators(Reservations, test_servers.AcceleratorServerBase):
    """As far as nova's cyborg fixture goes: it binds at once and forgets on delete."""

    def setUp(self):
        super().setUp()
        # Nova's cyborg fixture replaces it for everybody.
        self.stub_out('nova.service_auth.get_service_user_token_auth_plugin', real_auth_plugin)
        self.useFixture(nova_fixtures.CastAsCallFixture(self))
        self.useFixture(nova_fixtures.SpawnIsSynchronousFixture())
        self.accelerated = self._create_acc_flavor()
        self.spawned = Spawned(self.compute_services[0].manager.driver)

    def arqs(self, server):
        return self.cyborg.fake_get_arqs_for_instance(server['id'])

    def test_accelerators_are_held_until_the_delete(self):
        server = self.reserve(flavorRef=self.accelerated)
        bound = self.arqs(server)
        assert bound
        self.spawned.fail_with = RuntimeError('no more smoke')
        for status in ('RESERVED', 'ACTIVE'):
            self.wake_up(server)
            self.assert_status(server, status)
            assert self.arqs(server) == bound
            self.spawned.fail_with = None
        given = [arq['uuid'] for arq in self.spawned.last['accel_info']]
        assert given == [arq['uuid'] for arq in bound]
        self.delete(server)
        assert self.arqs(server) == []

    def test_refused_lease_gives_devices_back_and_a_lost_host_keeps_them(self):
        self.lease_service.answer = refusal(403, 'no')
        server = self.reserve(flavorRef=self.accelerated)
        self.assert_status(server, 'ERROR')
        assert self.arqs(server) == []
        self.lease_service.answer = None
        server = self.reserve(flavorRef=self.accelerated)
        self.lose('accel_host0')
        answer = self.wake_up(server, status=409)
        assert 'accelerators' in answer.body['conflictingRequest']['message']
        self.assert_status(server, 'RESERVED')
