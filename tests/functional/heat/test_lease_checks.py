# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: what is wrong is said before anything is built."""

import fixtures
import pytest
from heat.common import exception

from heat_ext.lease import networks
from heat_ext.lease.reservations import clean_items
from tests.functional.heat import addresses, leases
from tests.functional.heat.leased import SERVER, LeaseTest
from tests.functional.heat.users import BOB
from tests.support.stacks import EMPTY, resource

#: How often Heat validates a template before it creates the stack.
CHECKS = 1
INVALID = exception.StackValidationFailed


def wrong_properties(time, late):
    """Return properties of a lease that are wrong, and words of the errors.

    :param time: before the end of the lease
    :param late: after the end of the lease
    """
    server = leases.of_server(SERVER)
    return (
        ({'duration': '1h'}, 'Exactly one of end_date and duration must be set.'),
        ({'end_date': None}, 'Exactly one of end_date and duration must be set.'),
        *(
            ({name: 'tomorrow'}, name, "'tomorrow' is not a date: it must be", 'YYYY-MM-DD HH')
            for name in ('start_date', 'end_date', 'before_end_date')
        ),
        ({'start_date': '2026-02-30 12:00'}, "'2026-02-30 12:00' is not a date"),
        *(
            ({'end_date': None, 'duration': text}, 'PT1H30M')
            for text in ('soon', '0', '1y', 'PT', '-5', '90 x', 'P1M')
        ),
        ({'start_date': late}, 'end_date: must be after start_date'),
        (
            {'before_end_date': late},
            'before_end_date: must be from start_date to end_date',
        ),
        (
            {'events': [{'event_type': 'take_backup', 'time': late}]},
            'events[0].time: must not be after end_date',
        ),
        ({'events': [{'time': time}]}, 'event_type'),
        ({'events': [{'event_type': 'Backup', 'time': time}]}, 'lower case'),
        ({'events': [{'event_type': 'it.error', 'time': time}]}, 'lower case'),
        (
            {'reservations': [{'resource_id': SERVER}]},
            'reservations[0].resource_type: must be set',
        ),
        # It would go with the token of Heat's own, which the lease service believes.
        (
            {'reservations': [server, {**server, 'amounts': {'servers': 0}}]},
            'reservations[1].amounts: must be left out',
        ),
        (
            {'reservations': [{'resource_type': 'virtual:instance', 'server': {}}]},
            'reservations[0].server: must be left out',
        ),
        (
            {'reservations': [{'resource_type': 'virtual:volume', 'volume': {}}]},
            'reservations[0].volume: must be left out',
        ),
        ({'start_policy': 'later'}, 'start_policy'),
        ({'on_end': 'stop'}, 'on_end'),
        ({'before_start': [0]}, 'before_start'),
        ({'webhook': {'url': 'https://a', 'secret': 'short'}}, 'secret'),
        ({'name': ''}, 'name'),
    )


class TestValidation(LeaseTest):
    def test_wrong_property_is_told_what_is_right(self):
        times = self.leases.later(hours=1), self.leases.later(hours=3)
        for properties, *words in wrong_properties(*times):
            given = {'end_date': self.leases.later(hours=2), **properties}
            given = {name: value for name, value in given.items() if value is not None}
            with self.subTest(**properties), pytest.raises(INVALID) as caught:
                self.create(leases.template(**given))
            for word in words:
                assert word in str(caught.value)
        assert not self.leases.requests

    def test_amounts_that_are_known_late_are_not_sent(self):
        server = leases.of_server(SERVER)
        assert clean_items([{**server, 'amounts': {'servers': 0}, 'on_end': None}]) == [server]

    def test_unknown_end_is_not_checked(self):
        template = self.template()
        other = {'type': 'OS::Heat::Value', 'properties': {'value': self.leases.later(hours=3)}}
        template['resources']['other'] = other
        properties = template['resources']['lease']['properties']
        properties['end_date'] = {'get_attr': ['other', 'value']}
        self.create(template)
        assert self.leases.lease.end_date.isoformat() == self.leases.later(hours=3)

    def test_constraints_of_parameters_refuse_wrong_values(self):
        template = self.template()
        for value, name in [('soon', 'climate.date'), ('never', 'climate.duration')]:
            template['parameters'] = {
                'given': {'type': 'string', 'constraints': [{'custom_constraint': name}]}
            }
            with pytest.raises(INVALID, match=f"'{value}' is not a"):
                self.create(template, given=value)


class TestNetworks(LeaseTest):
    """A reservation of floating IPs names its network."""

    def setUp(self):
        super().setUp()
        addresses.register(self.leases.world.database, '203.0.113.20', '203.0.113.21')
        self.networks = self.cloud.neutron.records.setdefault('networks', {})
        self.networks[addresses.NETWORK] = {'id': addresses.NETWORK, 'name': 'public'}

    def wanted(self, network='public', amount=1):
        both = {'resource_type': 'virtual:floatingip', 'amount': amount}
        return {**both, 'network_id': network}

    def promised(self):
        (found,) = [
            each for each in self.leases.lease.live if each.resource_type == 'virtual:floatingip'
        ]
        return found.id, found.params['network_id'], found.params['amount']

    def test_name_is_as_good_as_the_id(self):
        stack = self.make(reservations=[self.wanted()])
        made, *rest = self.promised()
        assert rest == [addresses.NETWORK, 1]
        for network in (addresses.NETWORK, 'public'):
            self.change(stack, reservations=[self.wanted(network)])
            assert self.promised() == (made, addresses.NETWORK, 1)

    def floatingips(self):
        """Return the networks of the floating IPs that the lease holds."""
        held = (each for each in self.leases.lease.live if 'network_id' in each.params)
        return [each.params['network_id'] for each in held]

    def give_back(self, *now):
        """Reserve of a network that is called public, have neutron show others, and update."""
        stack = self.make(reservations=[self.wanted()])
        assert self.floatingips() == [addresses.NETWORK]
        self.networks.clear()
        self.networks.update({which: {'id': which, 'name': name} for which, name in now})
        self.change(stack, reservations=[])
        assert self.floatingips() == []

    def test_floating_ip_of_a_network_that_was_deleted_is_given_back(self):
        self.give_back()

    def test_floating_ip_of_a_network_that_was_renamed_is_given_back(self):
        self.give_back((addresses.NETWORK, 'outside'))

    def test_floating_ip_of_a_network_whose_name_another_one_has_is_given_back(self):
        self.give_back((addresses.NETWORK, 'outside'), (SERVER, 'public'))

    def test_network_named_in_an_update_is_given_back_with_its_name(self):
        stack = self.make(reservations=[])
        self.change(stack, reservations=[self.wanted()])
        made = self.promised()
        self.networks[addresses.NETWORK]['name'] = 'outside'
        self.change(stack, reservations=[self.wanted('outside')])
        assert self.promised() == made
        del self.networks[addresses.NETWORK]
        self.change(stack, reservations=[])
        assert self.floatingips() == []

    def test_failed_update_knows_the_network_of_the_template_before(self):
        stack = self.make(reservations=[self.wanted()])
        self.networks[addresses.NETWORK]['name'] = 'outside'
        self.networks[SERVER] = {'id': SERVER, 'name': 'public'}
        # No floating IP of this network is registered.
        self.refused(stack, reservations=[self.wanted(amount=2)])
        assert self.floatingips() == [addresses.NETWORK]
        self.change(stack, reservations=[])
        assert self.floatingips() == []

    def test_neutron_that_does_not_answer_fails_the_creation_with_its_reason(self):
        self.cloud.neutron.faults.append(('GET', '/networks', 503))
        with pytest.raises(INVALID, match='A fault that the test ordered'):
            self.make(reservations=[self.wanted()])
        assert not self.leases.requests

    def test_neutron_that_fails_after_the_checks_leaves_no_lease(self):
        """Heat has looked for the name in its checks already."""
        looked = networks.find_ids
        looks = []

        def fail_later(items, neutron):
            looks.append(items)
            if len(looks) == CHECKS + 1:
                self.cloud.neutron.faults.append(('GET', '/networks', 503))
            return looked(items, neutron)

        self.useFixture(fixtures.MonkeyPatch('heat_ext.lease.networks.find_ids', fail_later))
        template = self.template(reservations=[self.wanted()])
        stack = self.create(template, status='CREATE_FAILED')
        assert 'A fault that the test ordered' in self.reason(stack)
        assert not [each for each in self.leases.requests if each.method == 'POST']
        self.update(stack, template)
        assert self.promised()[1:] == (addresses.NETWORK, 1)
        self.delete(stack)

    def test_unknown_name_is_refused_before_anything_is_created(self):
        other = {**self.networks[addresses.NETWORK], 'id': SERVER}
        with pytest.raises(INVALID, match=r"reservations\[1\]\.network_id: Unable .*'inner'"):
            self.make(reservations=[self.wanted(), self.wanted('inner')])
        self.networks[SERVER] = other
        with pytest.raises(INVALID, match=r"reservations\[0\]\.network_id: Multiple .*'public'"):
            self.make(reservations=[self.wanted()])
        assert not self.leases.requests

    def test_network_that_is_not_there_yet_is_looked_for_later(self):
        """Its id is used as soon as it is known."""
        template = self.template(reservations=[self.wanted({'get_resource': 'net'})])
        template['resources']['net'] = resource('OS::Neutron::Net', name='outside')
        self.create(template, status='CREATE_FAILED')
        (made,) = self.networks.keys() - {addresses.NETWORK}
        (asked,) = [each for each in self.leases.requests if each.method == 'POST']
        assert made in asked.text


class TestConstraint(LeaseTest):
    """climate.lease."""

    TEMPLATE = {
        **EMPTY,
        'parameters': {
            'lease': {'type': 'string', 'constraints': [{'custom_constraint': 'climate.lease'}]}
        },
        'resources': {
            'value': {'type': 'OS::Heat::Value', 'properties': {'value': {'get_param': 'lease'}}}
        },
    }

    def test_only_a_lease_of_the_project_that_can_be_looked_up_passes(self):
        lease = self.leases.make(leases.ALICE)
        self.assert_stack(self.create(self.TEMPLATE, lease=lease), 'CREATE_COMPLETE')
        other = self.leases.make(BOB)
        with pytest.raises(INVALID, match=f'Lease \\({other}\\)'):
            self.create(self.TEMPLATE, name='stack2', lease=other)
        self.leases.answers = [leases.refusal(500, 'The database is away.')]
        with pytest.raises(INVALID, match='The database is away'):
            self.create(self.TEMPLATE, name='stack2', lease=SERVER)
