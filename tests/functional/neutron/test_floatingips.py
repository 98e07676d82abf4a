# SPDX-License-Identifier: Apache-2.0
"""Floating IPs of leases in the real Neutron."""

import pytest
from oslo_config import cfg

from climate_core import exceptions
from climate_core.repair import reconciliation
from climate_networks.cloud import mark, tag
from tests.conformance.fake_floating_ips import FakeFloatingIps
from tests.conformance.floatingip_world import ADDRESSES, FIRST, SECOND, Addresses, shown
from tests.conformance.world import reserved
from tests.functional.neutron.base import NeutronTest
from tests.support.missing import find_missing


class WithPorts(NeutronTest):
    world: Addresses

    def make_world(self, url):
        return Addresses(self.fake, url, self.public['id'], self.connect)

    def inside(self, count):
        """Ports of the owner's behind a router."""
        network = self.make('network', name='inside')
        self.behind_router(network['id'], '10.9.0.0/24')
        return [self.make('port', network_id=network['id']) for _ in range(count)]


class TestFloatingIps(WithPorts):
    def test_address_that_others_may_get_or_have_is_refused(self):
        taken = '203.0.113.50'
        self.make('floatingip', floating_network_id=self.public['id'], floating_ip_address=taken)
        for address in ('203.0.113.1', '203.0.113.255', '203.0.113.200', '198.51.100.1', taken):
            with pytest.raises(exceptions.ClimateError) as caught:
                self.world.register(floating_ip_address=address)
            assert caught.value.field == 'floating_ip_address'
            assert 400 <= caught.value.status < 500, address
        inside = self.make('network', name='inside')
        with pytest.raises(exceptions.BadRequest, match='external'):
            self.world.register(floating_network_id=inside['id'], floating_ip_address=FIRST)

    def test_start_and_end_of_what_is_associated_and_forwarded(self):
        lease = self.world.started(amount=2)
        first, second = shown(lease)
        found = self.found()
        assert {each['project_id'] for each in found.values()} == {'demo-id'}
        assert found[first]['tags'] == [tag(lease.reservations[0].id)]
        port, other = self.inside(2)
        path = f'/floatingips/{found[first]["id"]}'
        self.request('PUT', path, {'floatingip': {'port_id': port['id']}}, roles='member,reader')
        self.forward(found[second], other)
        ended = self.world.ended(lease)
        assert (ended.status, ended.status_reason) == ('TERMINATED', None)
        assert self.found() == {}
        for each in (port, other):
            self.request('GET', f'/ports/{each["id"]}')

    def test_address_with_port_forwardings_is_given_back_last(self):
        lease = self.world.started(amount=3)
        ports = self.inside(2)
        self.forward(self.found()[SECOND], ports[0])
        lease = self.world.change(lease, amount=1)
        assert sorted(self.found()) == shown(lease) == [SECOND]
        lease = self.world.change(lease, amount=2)
        other = next(each for each in shown(lease) if each != SECOND)
        self.forward(self.found()[other], ports[1])
        with pytest.raises(exceptions.InvalidState, match='has port forwardings'):
            self.world.change(lease, amount=1)
        assert sorted(self.found()) == shown(lease)

    def test_end_finds_all_of_what_is_listed_by_short_pages(self):
        lease = self.world.started(amount=3)
        found = self.found()
        for number, port in enumerate(self.inside(2)):
            self.forward(found[SECOND], port, 8080 + number)
        cfg.CONF.set_override('pagination_max_limit', '1')
        assert self.world.ended(lease).status == 'TERMINATED'
        cfg.CONF.clear_override('pagination_max_limit')
        assert self.found() == {}

    def test_lost_answers_leave_one_of_each_and_nothing_at_the_end(self):
        for method in ('POST', 'PUT'):
            self.neutron.lost = method
            lease = self.world.started(amount=3)
            lease = self.world.engine.settle(lease.id, seconds=60)
            assert lease.status == 'ACTIVE'
            assert sorted(self.found()) == ADDRESSES
            assert all(each['tags'] for each in self.found().values())
            self.neutron.lost = 'DELETE'
            self.world.ended(lease)
            assert self.world.engine.settle(lease.id, seconds=60).status == 'TERMINATED'
            assert self.found() == {}

    def test_address_that_another_manager_has_just_made_is_taken_over(self):
        lease = self.world.lease()
        seen = self.world.plugin
        done = seen.start(lease, *lease.reservations)
        again = seen._create_floating_ip(
            lease, *lease.reservations, *shown(lease), None, made := {}
        )
        assert (again, made) == (None, done.progress['floatingips'])
        assert len(self.found()) == 1

    def test_full_quota_is_told_and_tried_again(self):
        cfg.CONF.set_override('quota_floatingip', 0, group='QUOTAS')
        lease = self.world.started()
        assert 'quota of the project' in lease.reservations[0].status_reason
        cfg.CONF.set_override('quota_floatingip', 1, group='QUOTAS')
        assert self.world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'

    def test_address_that_a_port_has_is_told(self):
        port = self.make('port', network_id=self.public['id'], fixed_ips=[{'ip_address': SECOND}])
        lease = self.world.started(required_floatingips=[SECOND])
        assert 'is in use in Neutron' in lease.reservations[0].status_reason
        self.request('DELETE', f'/ports/{port["id"]}', status=204)
        assert self.world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'

    def test_lines_of_the_policy_keep_users_off_and_are_enough_for_a_service(self):
        taken = {'floating_network_id': self.public['id'], 'floating_ip_address': FIRST}
        manager = 'manager,member,reader'
        self.request('POST', '/floatingips', {'floatingip': taken}, 403, manager)
        ordinary = {'floatingip': {'floating_network_id': self.public['id']}}
        made = self.request('POST', '/floatingips', ordinary, 201, manager)['floatingip']
        self.request('DELETE', f'/floatingips/{made["id"]}', status=204, roles='member,reader')
        self.neutron.roles = ['climate', 'service']
        lease = self.world.started(required_floatingips=[FIRST])
        assert lease.status == 'ACTIVE'
        path = f'/floatingips/{self.found()[FIRST]["id"]}/tags'
        self.request('PUT', path, {'tags': []}, 403, manager)
        self.forward(self.found()[FIRST], self.inside(1)[0])
        self.world.ended(lease)
        assert self.found() == {}

    def test_what_a_lease_left_behind_is_found_and_what_it_has_is_not(self):
        self.world.started(required_floatingips=[FIRST])
        self.make('floatingip', floating_network_id=self.public['id'])
        left = self.make(
            'floatingip', floating_network_id=self.public['id'], description=mark('dead')
        )
        plugin = self.world.plugin
        assert [*reconciliation.find_orphans(self.world.engine.database, plugin)] == [left['id']]
        plugin.discard(left['id'])
        assert [*reconciliation.find_orphans(self.world.engine.database, plugin)] == []


class TestHeldFloatingIps(WithPorts):
    def setUp(self):
        super().setUp()
        self.held = self.holder()

    def holder(self):
        """Return a plugin that has no token yet."""
        held = FakeFloatingIps(self.fake)
        self.connect(held.cloud)
        return held

    def ordinary(self):
        """Make a floating IP as its owner does."""
        body = {'floatingip': {'floating_network_id': self.public['id']}}
        return self.request('POST', '/floatingips', body, 201, 'member,reader')['floatingip']

    def test_end_with_the_rights_of_the_owner_takes_back_what_is_forwarded(self):
        made, (port,) = self.ordinary(), self.inside(1)
        self.forward(made, port)
        case = reserved(self.held, resource_id=made['id'])
        assert case.reservation.params['floatingips'] == [made['floating_ip_address']]
        case.woken()
        case.end()
        assert self.found() == {}
        assert case.end_once() is None
        self.request('GET', f'/ports/{port["id"]}')

    def test_end_leaves_what_is_to_stay_and_who_has_the_address_by_now(self):
        kept, gone = self.ordinary(), self.ordinary()
        for made, on_end in ((kept, 'nothing'), (gone, 'delete')):
            case = reserved(self.held, resource_id=made['id'], on_end=on_end)
            if made is gone:
                self.request('DELETE', f'/floatingips/{gone["id"]}', status=204)
                address = {'floating_ip_address': gone['floating_ip_address']}
                self.make('floatingip', floating_network_id=self.public['id'], **address)
            case.end()
        assert {*self.found()} == {each['floating_ip_address'] for each in (kept, gone)}

    def test_missing_is_seen_with_the_roles_of_climate_and_not_guessed_without(self):
        kept, lost = (reserved(self.held, resource_id=self.ordinary()['id']) for _ in range(2))
        self.request('DELETE', f'/floatingips/{lost.resource_id}', status=204)
        both = [kept.reservation, lost.reservation]
        self.held.service_has('climate', 'service')
        assert list(find_missing(self.holder().plugin(), both)) == [lost.reservation.id]
        for _ in range(9):
            both.append(reserved(self.held, resource_id=self.ordinary()['id']).reservation)
        self.neutron.paths.clear()
        # Of many it asks for those that leases have, and then for what is not among them.
        assert list(find_missing(self.holder().plugin(), both)) == [lost.reservation.id]
        listed = [each for each in self.neutron.paths if '/floatingips?' in each]
        assert (len(listed), listed[0].count('&id=')) == (1, len(both))
        self.held.service_has('member')
        with pytest.raises(exceptions.Permanent, match='does not see'):
            find_missing(self.holder().plugin(), both)

    def test_floating_ip_of_a_lease_or_of_others_is_not_reserved(self):
        lease = self.world.started()
        made = self.found()[shown(lease)[0]]
        with pytest.raises(exceptions.BadRequest, match='created for a lease'):
            reserved(self.held, resource_id=made['id'])
        with pytest.raises(exceptions.ResourceNotFound):
            self.held.plugin().reserve(self.held.stranger(), {'resource_id': made['id']})
