# SPDX-License-Identifier: Apache-2.0
"""Floating IPs in templates: those that the calendar promises, and those of a reserved stack."""

import pytest

from climate_core import exceptions
from tests.functional.heat import addresses, leases
from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    CHAIN,
    PAIR,
    PLAIN,
    added,
    changed,
    hinted,
    lease,
    ported,
    resource,
    stack_level,
    without,
)

FIRST, SECOND = '203.0.113.20', '203.0.113.21'
OUTPUTS = {
    'address': {'value': {'get_attr': ['public', 'floating_ip_address']}},
    'port': {'value': {'get_attr': ['public', 'port_id']}},
}


def with_address(template, name='public', port='port', **properties):
    """Return a template that uses a floating IP of the calendar."""
    if port:
        properties['port_id'] = {'get_resource': port}
    return added(template, **{name: resource('OS::Climate::FloatingIP', **properties)})


class AddressTest(ReservedTest):
    """Has two floating IPs that are registered, and a lease that is promised one of them."""

    def setUp(self):
        super().setUp()
        addresses.register(self.leases.world.database, FIRST, SECOND)
        self.lease = self.promised()

    def promised(self, *which, **values):
        wanted = addresses.wanted(*which or [FIRST])
        return self.leases.make(ALICE, wanted, kind='immediate', **values)

    def floating_ips(self):
        """Return the floating IPs of neutron, by their addresses."""
        records = self.cloud.neutron.records['floatingips'].values()
        return {each['floating_ip_address']: each for each in records}

    def port(self, stack, name='port'):
        return self.ids(stack, name)[0]


class TestPromised(AddressTest):
    def test_address_is_known_before_the_start_and_associated_at_it(self):
        template = {**with_address(ported(PLAIN, server='server')), 'outputs': OUTPUTS}
        stack = self.reserve_all(template)
        assert self.outputs(stack) == {'address': FIRST, 'port': None}
        assert 'climate_deferred' in self.data(stack, 'public')
        assert ('virtual:stack', stack) in self.leases.members(self.lease)
        self.patch_stack(stack)
        self.check(stack)
        assert self.floating_ips() == {}
        self.start(stack)
        made = self.floating_ips()[FIRST]
        assert made['port_id'] == self.port(stack)
        assert self.ids(stack, 'public') == [made['id']]
        assert self.outputs(stack) == {'address': FIRST, 'port': self.port(stack)}
        self.check(stack)
        before = list(self.cloud.neutron.changes)
        self.patch_stack(stack)
        assert self.cloud.neutron.changes == before

    def test_lease_of_the_same_template_is_used_without_servers(self):
        dates = self.leases.later(hours=3), self.leases.later(hours=4)
        own = lease(*dates, reservations=[addresses.wanted(FIRST, SECOND)])
        template = with_address(without(ported(PLAIN), 'server'), lease_id={'get_resource': 'own'})
        template = with_address(template, 'other', None, lease_id={'get_resource': 'own'}, index=1)
        self.leases.end(self.lease)
        stack = self.create({**added(template, own=own), 'outputs': OUTPUTS})
        assert self.outputs(stack)['address'] == FIRST
        (self.lease,) = self.ids(stack, 'own')
        self.start(stack)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)
        assert self.floating_ips()[SECOND]['port_id'] is None
        self.delete(stack)
        self.leases.forward(minutes=1)
        assert self.floating_ips() == {}

    def test_certain_address_of_several_is_taken(self):
        self.leases.end(self.lease)
        start = self.leases.later(hours=3)
        self.lease = self.promised(
            FIRST, SECOND, start_date=start, end_date=self.leases.later(hours=4)
        )
        stack = self.reserve_all(with_address(ported(PLAIN), floating_ip_address=SECOND))
        self.start(stack)
        assert {a: bool(e['port_id']) for a, e in self.floating_ips().items()} == {
            FIRST: False,
            SECOND: True,
        }

    def test_address_that_the_lease_does_not_have_fails_and_says_what_it_has(self):
        for name, wrong in (('a', {'index': 1}), ('b', {'floating_ip_address': SECOND})):
            template = with_address(without(ported(PLAIN), 'server'), **wrong)
            stack = self.reserve_all(template, name, status='CREATE_FAILED')
            (said,) = wrong.items()
            assert f'{said[0]} {said[1]}: lease {self.lease}' in self.reason(stack)
            assert f'it has {FIRST}' in self.reason(stack)

    def test_address_of_no_lease_is_refused(self):
        template = with_address(without(ported(PLAIN), 'server'))
        with pytest.raises(Exception, match='lease_id: must be given, or climate_lease_id'):
            self.create(template)
        bare = added(PLAIN, public=resource('OS::Climate::FloatingIP', fixed_ip_address='1.2.3.4'))
        with pytest.raises(Exception, match='port_id'):
            self.reserve_all(bare)

    def test_address_that_comes_late_is_waited_for_by_the_stack(self):
        stack = self.reserve_all(with_address(ported(PLAIN)))
        self.leases.addresses.answers = [exceptions.Transient('The quota is full.')]
        self.leases.start(self.lease)
        assert ('wake', stack) not in self.leases.stacks.calls
        self.patch_stack(stack)
        assert 'climate_deferred' in self.data(stack, 'public')
        self.leases.forward(minutes=5)
        assert ('wake', stack) in self.leases.stacks.calls
        self.patch_stack(stack)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)

    def test_association_that_neutron_refuses_is_requested_again(self):
        stack = self.reserve_all(with_address(ported(PLAIN)))
        before = self.resource(stack, 'public').id
        self.cloud.neutron.faults.append(('PUT', '/floatingips/', 409))
        self.start(stack, 'UPDATE_FAILED')
        self.patch_stack(stack)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)
        assert self.resource(stack, 'public').id == before

    def test_address_of_a_lease_that_runs_is_associated_at_once_and_its_stack_is_free(self):
        self.leases.start(self.lease)
        template = with_address(without(ported(PLAIN), 'server'), lease_id=self.lease)
        stack = self.create(template)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)
        assert ('virtual:stack', stack) not in self.leases.members(self.lease)
        self.delete(stack)
        assert self.floating_ips()[FIRST]['port_id'] is None

    def test_another_port_is_a_change_in_place(self):
        template = with_address(ported(PLAIN, 'second'))
        stack = self.reserve_all(template)
        self.change(stack, changed(template, 'public', port_id={'get_resource': 'second'}))
        self.start(stack)
        (before,) = self.ids(stack, 'public')
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack, 'second')
        self.change(stack, template)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)
        self.change(stack, changed(template, 'public', port_id=None))
        assert self.floating_ips()[FIRST]['port_id'] is None
        assert self.ids(stack, 'public') == [before]

    def test_port_that_somebody_else_chose_is_left_at_the_deletion(self):
        self.leases.start(self.lease)
        template = with_address(without(ported(PLAIN), 'server'), lease_id=self.lease)
        stack = self.create(template)
        self.floating_ips()[FIRST]['port_id'] = 'another'
        self.delete(stack)
        assert self.floating_ips()[FIRST]['port_id'] == 'another'

    def test_floating_ip_that_was_deleted_does_not_keep_its_stack(self):
        self.leases.start(self.lease)
        stack = self.create(with_address(without(ported(PLAIN), 'server'), lease_id=self.lease))
        self.cloud.neutron.records['floatingips'].clear()
        self.check(stack, 'CHECK_FAILED')
        self.delete(stack)

    def test_earlier_lease_of_the_project_with_the_same_address_is_not_used(self):
        self.leases.start(self.lease)
        end = self.leases.get(self.lease).end_date.isoformat()
        later = self.promised(start_date=end, end_date=self.leases.later(hours=5))
        template = with_address(without(ported(PLAIN), 'server'), lease_id=later)
        stack = self.create({**template, 'outputs': OUTPUTS})
        assert self.outputs(stack) == {'address': FIRST, 'port': None}
        assert self.floating_ips()[FIRST]['port_id'] is None

    def test_lease_that_holds_no_stack_is_followed_by_an_update_of_its_user(self):
        self.leases.end(self.lease)
        self.lease = self.leases.make(
            ALICE,
            addresses.wanted(FIRST),
            start_date=self.leases.later(hours=3),
            end_date=self.leases.later(hours=4),
        )
        assert self.leases.get(self.lease).kind == 'scheduled'
        stack = self.create(with_address(without(ported(PLAIN), 'server'), lease_id=self.lease))
        assert ('virtual:stack', stack) not in self.leases.members(self.lease)
        self.start(stack)
        assert self.floating_ips()[FIRST]['port_id'] == self.port(stack)

    def test_address_of_a_lease_that_waits_is_known_when_it_is_granted(self):
        both = {'start_date': 'now', 'end_date': self.leases.later(hours=9), 'kind': 'retry'}
        self.lease = self.leases.make(ALICE, addresses.wanted(FIRST, SECOND), **both)
        assert self.leases.get(self.lease).status == 'WAITING'
        template = with_address(without(ported(PLAIN), 'server'), lease_id=self.lease)
        stack = self.create({**template, 'outputs': OUTPUTS})
        assert self.outputs(stack) == {'address': None, 'port': None}


OWN = resource('OS::Neutron::FloatingIP', floating_network={'get_resource': 'net'})


class TestOwn(AddressTest):
    def held(self):
        """Return what the lease holds of floating IPs that their owner has: id -> params."""
        return {
            each.resource_id: each.params
            for each in self.leases.get(self.lease).live
            if each.resource_type == 'held:floatingip'
        }

    def test_floating_ip_of_a_reserved_stack_is_held_with_it_and_ends_with_it(self):
        stack = self.reserve_all(added(CHAIN, own=OWN))
        (made,) = self.ids(stack, 'own')
        assert self.held() == {made: {'stack_id': stack}}
        self.start(stack)
        self.patch_stack(stack)
        assert self.ids(stack, 'own') == [made]
        client = ALICE.context().clients.client('climate')
        found = {each.resource_id: each.id for each in self.leases.get(self.lease).live}
        client.leases.update_reservation(self.lease, found[stack], on_end='delete')
        self.leases.end(self.lease)
        self.bus.run()
        self.leases.forward(minutes=1)
        assert not self.exists(stack)
        assert made not in self.cloud.neutron.records['floatingips']
        assert self.leases.get(self.lease).status == 'TERMINATED'

    def test_floating_ip_that_an_update_takes_out_leaves_the_lease(self):
        stack = self.reserve_all(added(PAIR, own=OWN))
        self.change(stack, PAIR)
        self.leases.run()
        assert self.held() == {}
        assert self.cloud.neutron.records['floatingips'] == {}
        assert not self.leases.get(self.lease).degraded

    def test_floating_ip_of_a_stack_that_is_deleted_leaves_the_lease(self):
        stack = self.reserve_all(added(PAIR, own=OWN))
        self.delete(stack)
        self.leases.run()
        assert self.held() == {}

    def test_lease_service_that_is_away_keeps_no_deletion(self):
        stack = self.reserve_all(added(without(PAIR), own=OWN))
        self.leases.answers = [leases.refusal(500, 'The database is away.')]
        self.change(stack, PAIR)
        assert self.cloud.neutron.records['floatingips'] == {}

    def test_floating_ip_that_the_lease_refuses_fails_and_leaves_nothing(self):
        self.leases.answers = [None, None, leases.refusal(409, 'Another lease has it.')]
        alone = added(without(PLAIN, 'server'), own=OWN)
        stack = self.reserve_all(alone, status='CREATE_FAILED')
        assert self.held() == {}
        self.delete(stack)
        assert self.cloud.neutron.records['floatingips'] == {}

    def test_cloud_that_reserves_no_floating_ips_has_them_in_the_stack_alone(self):
        unknown = leases.refusal(400, 'No such type.', error_name='reservation.unknown_type')
        self.leases.answers = [None, None, unknown]
        stack = self.reserve_all(added(without(PLAIN, 'server'), own=OWN))
        assert self.held() == {}
        self.delete(stack)
        assert self.cloud.neutron.records['floatingips'] == {}

    def test_empty_lease_of_the_environment_is_refused(self):
        with pytest.raises(Exception, match='climate_lease_id'):
            self.create(added(PLAIN, own=OWN), environment=stack_level(''))

    def test_stack_without_a_lease_for_all_keeps_its_floating_ip_to_itself(self):
        stack = self.create(added(hinted(PAIR, self.lease), own=OWN))
        assert self.held() == {}
        self.delete(stack)
