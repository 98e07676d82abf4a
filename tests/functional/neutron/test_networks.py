# SPDX-License-Identifier: Apache-2.0
"""Networks of leases in the real Neutron."""

import importlib
import pkgutil

import pytest
import yaml
from neutron_lib.api import definitions
from neutron_lib.plugins import directory
from oslo_config import cfg

from climate_core import exceptions
from climate_networks.cloud import tag
from tests.conformance.network_world import FIRST, PHYSICAL, SECOND, Networks, shown
from tests.functional.neutron.base import POLICY, NeutronTest
from tests.support.missing import find_missing

MEMBER = 'member,reader'
CLIMATE = 'climate,service'
OTHER = '5d3c1f7a2b6e4c0d9a8f7e6d5c4b3a29'
OTHER_SUBNET = {'ip_version': 4, 'cidr': '10.8.0.0/24'}


def judged(collection):
    """Return the attributes that Neutron judges one by one, of all its extensions."""
    every = pkgutil.iter_modules(definitions.__path__, f'{definitions.__name__}.')
    for module in [importlib.import_module(each.name) for each in every]:
        found = getattr(module, 'RESOURCE_ATTRIBUTE_MAP', {}).get(collection, {})
        for name, attribute in found.items():
            if attribute.get('enforce_policy'):
                yield name
                rules = (attribute.get('validate') or {}).items()
                parts = [each for rule, each in rules if rule.endswith('dict_or_nodata')]
                yield from (f'{name}:{part}' for each in parts for part in each)


class TestNetworks(NeutronTest):
    world: Networks

    def make_world(self, url):
        return Networks(self.fake, url, self.connect)

    def network(self, lease):
        """Return the network of a lease that is there."""
        return self.request('GET', f'/networks/{shown(lease)["network_id"]}')['network']

    def segment(self, number, **values):
        """Make a network on a segment, as an administrator can."""
        provider = {
            'network_type': 'vlan',
            'physical_network': PHYSICAL,
            'segmentation_id': number,
        }
        provider = {f'provider:{name}': value for name, value in provider.items()}
        return self.make('network', name='other', **provider, **values)

    def ask(self, method, path, body=None, status=200, roles=MEMBER, project_id='demo-id'):
        """Send a request as an ordinary user."""
        return self.request(method, path, body, status, roles, project_id)

    def port(self, network_id, project_id='demo-id'):
        body = {'port': {'network_id': network_id}}
        return self.ask('POST', '/ports', body, 201, project_id=project_id)['port']

    def trunk(self, parent, *subports):
        found = [
            {'port_id': each['id'], 'segmentation_type': 'vlan', 'segmentation_id': number}
            for number, each in enumerate(subports, 1)
        ]
        body = {'trunk': {'port_id': parent['id'], 'sub_ports': found}}
        return self.ask('POST', '/trunks', body, 201)['trunk']

    def routed(self, network_id, cidr, nexthop):
        """Make a router of the owner's with an interface, and a route through it."""
        _, router = self.behind_router(network_id, cidr)
        routes = [{'destination': '10.77.0.0/16', 'nexthop': nexthop}]
        self.ask('PUT', f'/routers/{router["id"]}', {'router': {'routes': routes}})
        return router

    def check_gone(self, lease):
        """Nothing is left of a lease, and its segment is free."""
        ended = self.world.ended(lease)
        assert (ended.status, ended.status_reason) == ('TERMINATED', None)
        listed = self.request('GET', '/networks')['networks']
        assert {each['name'] for each in listed} == {'public'}
        self.segment(lease.reservations[0].allocations[0].unit['segment_id'])

    def test_segment_that_is_in_use_is_not_set_apart(self):
        made = self.segment(300)
        for values in ({'segment_id': 300}, {'segment_range': '299-301'}):
            with pytest.raises(exceptions.NetworkInUse, match=made['id']):
                self.world.register(**values)
        self.request('DELETE', f'/networks/{made["id"]}', status=204)
        assert self.world.register(segment_range='299-301')

    def test_start_and_end_of_a_network_with_nothing_in_it(self):
        lease = self.world.started(
            segment_id=SECOND, network_description='for a class', network_tags=['mine']
        )
        found = self.network(lease)
        assert (found['name'], found['project_id']) == ('net1', 'demo-id')
        assert found['description'] == 'for a class'
        assert sorted(found['tags']) == sorted(['mine', tag(lease.reservations[0].id)])
        assert found['provider:segmentation_id'] == SECOND
        assert self.ask('GET', f'/networks/{found["id"]}')['network']['name'] == 'net1'
        self.check_gone(lease)

    def test_lost_answers_leave_one_network_and_nothing_at_the_end(self):
        for method in ('POST', 'PUT'):
            self.neutron.lost = method
            lease = self.world.started(network_description='mine')
            lease = self.world.engine.settle(lease.id, seconds=60)
            assert lease.status == 'ACTIVE'
            assert len(self.request('GET', '/networks?name=net1')['networks']) == 1
            assert self.network(lease)['description'] == 'mine'
            self.neutron.lost = 'DELETE'
            self.world.ended(lease)
            assert self.world.engine.settle(lease.id, seconds=60).status == 'TERMINATED'
            assert self.request('GET', '/networks?name=net1')['networks'] == []

    def test_network_that_another_manager_has_just_made_is_taken_over(self):
        lease = self.world.lease(segment_id=FIRST)
        first = self.world.plugin.start(lease, *lease.reservations)
        again = self.world.plugin.start(lease, *lease.reservations)
        assert first == again
        assert len(self.request('GET', '/networks?name=net1')['networks']) == 1

    def test_segment_that_is_in_use_at_the_start_is_told(self):
        made = self.segment(FIRST)
        lease = self.world.started(segment_id=FIRST)
        assert 'is in use in Neutron' in lease.reservations[0].status_reason
        self.request('DELETE', f'/networks/{made["id"]}', status=204)
        assert self.world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'

    def test_full_quota_is_told_and_tried_again(self):
        cfg.CONF.set_override('quota_network', 0, group='QUOTAS')
        lease = self.world.started()
        assert 'quota of the project for networks' in lease.reservations[0].status_reason
        # The external network is one, too.
        cfg.CONF.set_override('quota_network', 2, group='QUOTAS')
        assert self.world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'

    def test_physical_network_that_neutron_knows_no_more_is_an_error(self):
        vlans = directory.get_plugin().type_manager.drivers['vlan'].obj
        vlans._network_vlan_ranges['physnet9'] = []
        self.world.register(physical_network='physnet9', segment_id=FIRST)
        del vlans._network_vlan_ranges['physnet9']
        lease = self.world.started(physical_network='physnet9')
        assert lease.reservations[0].status == 'error'
        assert 'physnet9' in lease.reservations[0].status_reason
        assert self.world.ended(lease).status == 'TERMINATED'

    def test_end_removes_the_port_of_another_project(self):
        lease = self.world.started()
        network = self.network(lease)
        self.make('subnet', network_id=network['id'], ip_version=4, cidr='10.9.0.0/24')
        policy = {
            'object_type': 'network',
            'object_id': network['id'],
            'action': 'access_as_shared',
            'target_tenant': OTHER,
        }
        path = '/rbac-policies'
        self.ask('POST', path, {'rbac_policy': policy}, 201)
        port = self.port(network['id'], OTHER)
        self.check_gone(lease)
        self.request('GET', f'/ports/{port["id"]}', status=404)
        assert self.request('GET', path)['rbac_policies'] == [
            each
            for each in self.request('GET', path)['rbac_policies']
            if each['object_id'] == self.public['id']
        ]

    def test_end_drops_what_a_floating_ip_has_of_it(self):
        lease = self.world.started()
        network = self.network(lease)
        self.behind_router(network['id'], '10.9.0.0/24')
        port, other = self.port(network['id']), self.port(network['id'])
        one, forwarded = (
            self.make('floatingip', floating_network_id=self.public['id']) for _ in range(2)
        )
        path = f'/floatingips/{one["id"]}'
        self.ask('PUT', path, {'floatingip': {'port_id': port['id']}})
        self.forward(forwarded, other)
        self.check_gone(lease)
        assert {each['port_id'] for each in self.found().values()} == {None}
        assert len(self.found()) == 2

    def test_end_takes_ports_out_of_trunks(self):
        lease = self.world.started()
        network, elsewhere = self.network(lease), self.make('network', name='public')
        inside = [self.port(network['id']) for _ in range(3)]
        outside = [self.port(elsewhere['id']) for _ in range(2)]
        self.trunk(inside[0], outside[0])
        bound = self.trunk(inside[1])
        kept = self.trunk(outside[1], inside[2])
        body = {'port': {'binding:host_id': 'compute1', 'device_owner': 'compute:nova'}}
        self.request('PUT', f'/ports/{inside[1]["id"]}', body)
        self.neutron.paths.clear()
        ended = self.world.ended(lease)
        assert (ended.status, ended.status_reason) == ('TERMINATED', None)
        # Neutron names the trunk of each port that it does not delete.
        asked = [each for each in self.neutron.paths if '/trunks?' in each]
        assert len(asked) == 3
        assert all('&id=' in each for each in asked)
        (left,) = self.request('GET', '/trunks')['trunks']
        assert (left['id'], left['sub_ports']) == (kept['id'], [])
        assert left['id'] != bound['id']
        for each in outside:
            self.request('GET', f'/ports/{each["id"]}')

    def test_end_takes_router_interfaces_out_of_trunks(self):
        lease = self.world.started(segment_id=FIRST)
        network, elsewhere = self.network(lease), self.make('network', name='public')
        router = self.routed(network['id'], '10.9.0.0/24', '10.9.0.7')
        subport, outside = self.port(network['id']), self.port(elsewhere['id'])
        kept = self.trunk(self.port(elsewhere['id']), subport)
        other = self.make('router', name='other')
        path = f'/routers/{other["id"]}/add_router_interface'
        self.ask('PUT', path, {'port_id': subport['id']})
        owned = f'/ports?device_id={router["id"]}&network_id={network["id"]}'
        (parent,) = self.request('GET', owned)['ports']
        self.trunk(parent, outside)
        self.check_gone(lease)
        (left,) = self.request('GET', '/trunks')['trunks']
        assert (left['id'], left['sub_ports']) == (kept['id'], [])
        self.request('GET', f'/ports/{outside["id"]}')

    def test_end_deletes_ports_that_only_say_that_they_are_of_a_router(self):
        lease = self.world.started(segment_id=FIRST)
        network = self.network(lease)
        _, router = self.behind_router(network['id'], '10.9.0.0/24')
        for owner, device in (
            ('network:router_interface', router['id']),
            ('network:router_interface', ''),
            ('network:router_interface', f'../networks/{self.public["id"]}?'),
            ('network:router_interface', OTHER),
            ('network:router_gateway', router['id']),
            ('network:dhcp', ''),
            ('network:mine', ''),
        ):
            values = {'network_id': network['id'], 'device_owner': owner, 'device_id': device}
            self.ask('POST', '/ports', {'port': values}, 201)
        self.check_gone(lease)
        assert self.request('GET', f'/routers/{router["id"]}')

    def test_tear_down_that_is_refused_is_told_and_repeated(self):
        lease = self.world.started(segment_id=FIRST)
        network = self.network(lease)
        inside = self.port(network['id'])
        trunk = self.trunk(inside)
        path = f'/trunks/{trunk["id"]}'
        self.ask('PUT', path, {'trunk': {'admin_state_up': False}})
        ended = self.world.ended(lease)
        assert 'Neutron answered 409' in ended.reservations[0].status_reason
        with pytest.raises(exceptions.NotEnough):
            self.world.lease(segment_id=FIRST)
        self.ask('PUT', path, {'trunk': {'admin_state_up': True}})
        assert self.world.engine.settle(lease.id, seconds=600).status == 'TERMINATED'
        assert self.world.started(segment_id=FIRST).status == 'ACTIVE'

    def test_lines_of_the_policy_are_enough_for_climate(self):
        taken = {'name': 'x', 'provider:network_type': 'vlan', 'provider:segmentation_id': FIRST}
        taken['provider:physical_network'] = PHYSICAL
        self.ask('POST', '/networks', {'network': taken}, 403, 'manager,member,reader')
        self.neutron.roles = ['climate', 'service']
        self.world.register(segment_id=300)
        lease = self.world.started(segment_id=FIRST, network_description='mine')
        assert lease.status == 'ACTIVE'
        self.fill(self.network(lease)['id'])
        assert [*find_missing(self.world.plugin, lease.reservations)] == []
        (made,) = self.world.plugin.list_created()
        assert made.resource_id == self.network(lease)['id']
        self.check_gone(lease)

    def fill(self, network_id):
        """Put into a network of a lease whatever keeps Neutron from deleting it."""
        router = self.routed(network_id, '10.9.0.0/24', '10.9.0.7')
        elsewhere = self.make('network', name='public')
        inside = [self.port(network_id) for _ in range(4)]
        self.trunk(*inside[:2])
        bound, _ = self.trunk(inside[2]), self.trunk(self.port(elsewhere['id']), inside[3])
        body = {'port': {'binding:host_id': 'compute1', 'device_owner': 'compute:nova'}}
        self.request('PUT', f'/ports/{bound["port_id"]}', body)
        values = {'device_owner': 'network:router_interface', 'device_id': router['id']}
        self.ask('POST', '/ports', {'port': {'network_id': network_id, **values}}, 201)

    def test_lines_of_the_policy_take_nothing_from_owners_and_give_climate_nothing_else(self):
        network_id = self.make('network', name='net2')['id']
        router = self.routed(network_id, '10.9.0.0/24', '10.9.0.7')
        trunk = self.trunk(*(self.port(network_id) for _ in range(2)))
        lines = yaml.safe_load(POLICY.read_text())
        assert 'default' not in lines
        assert {f'remove_router_interface:{each}' for each in judged('routers')} <= {*lines}
        assert {f'remove_subports:{each}' for each in judged('trunks')} <= {*lines}
        subnet = {'subnet_id': self.make('subnet', **OTHER_SUBNET, network_id=network_id)['id']}
        path = f'/routers/{router["id"]}'
        self.ask('PUT', f'{path}/add_router_interface', subnet, 403, CLIMATE, OTHER)
        self.ask('PUT', path, {'router': {'name': 'x'}}, 403, CLIMATE, OTHER)
        # Every nova-compute has the role service.
        self.ask('PUT', f'{path}/remove_router_interface', subnet, 404, 'service', OTHER)
        self.ask('DELETE', f'/networks/{network_id}', None, 403, 'service', OTHER)
        self.ask('PUT', f'{path}/add_router_interface', subnet)
        self.ask('PUT', f'{path}/remove_router_interface', subnet)
        path = f'/trunks/{trunk["id"]}'
        subports = {'sub_ports': [{'port_id': trunk['sub_ports'][0]['port_id']}]}
        self.ask('PUT', f'{path}/remove_subports', subports)
        self.ask('PUT', path, {'trunk': {'name': 'x'}}, 403, CLIMATE, OTHER)
        self.ask('DELETE', path, status=204)

    def test_member_may_do_with_a_network_what_is_ordinary(self):
        lease = self.world.started()
        path = f'/networks/{self.network(lease)["id"]}'
        self.ask('PUT', path, {'network': {'name': 'mine'}})
        body = {'subnet': {'network_id': path[10:], 'ip_version': 4, 'cidr': '10.9.0.0/24'}}
        self.ask('POST', '/subnets', body, 201)
        assert 'provider:segmentation_id' not in self.ask('GET', path)['network']
        self.ask('DELETE', path, status=204)
        assert [*find_missing(self.world.plugin, lease.reservations)]
        assert self.world.ended(lease).status == 'TERMINATED'
