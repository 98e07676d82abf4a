# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: what is wrong is said before anything is built."""

import pytest
from heat.common import exception

from heat_ext.lease.reservations import clean_items
from tests.functional.heat import leases
from tests.functional.heat.leased import SERVER, LeaseTest
from tests.functional.heat.users import BOB


class TestValidation(LeaseTest):
    def refused(self, **properties):
        template = leases.template(**{'end_date': self.leases.later(hours=2), **properties})
        with pytest.raises(exception.StackValidationFailed) as caught:
            self.create(template)
        assert not self.leases.requests
        return str(caught.value)

    def test_end_and_duration_must_not_both_be_set_or_missing(self):
        told = 'Exactly one of end_date and duration must be set.'
        assert told in self.refused(duration='1h')
        with pytest.raises(exception.StackValidationFailed, match=told):
            self.create(leases.template(name='lease1'))

    def test_wrong_date_is_told_what_is_right(self):
        for name in ('start_date', 'end_date', 'before_end_date'):
            told = self.refused(**{name: 'tomorrow'})
            assert name in told
            assert "'tomorrow' is not a date: it must be" in told
            assert 'YYYY-MM-DD HH:MM' in told
        assert "'2026-02-30 12:00' is not a date" in self.refused(start_date='2026-02-30 12:00')

    def test_wrong_duration_is_told_what_is_right(self):
        for text in ('soon', '0', '1y', 'PT', '-5', '90 x', 'P1M'):
            template = leases.template(duration=text)
            with pytest.raises(exception.StackValidationFailed, match='PT1H30M'):
                self.create(template)

    def test_dates_in_the_wrong_order_are_refused(self):
        assert 'end_date: must be after start_date' in self.refused(
            start_date=self.leases.later(hours=3)
        )
        between = 'before_end_date: must be from start_date to end_date'
        assert between in self.refused(before_end_date=self.leases.later(hours=3))
        late = {'event_type': 'take_backup', 'time': self.leases.later(hours=3)}
        assert 'events[0].time: must not be after end_date' in self.refused(events=[late])

    def test_wrong_events_are_refused(self):
        time = self.leases.later(hours=1)
        assert 'event_type' in self.refused(events=[{'time': time}])
        assert 'lower case' in self.refused(events=[{'event_type': 'Backup', 'time': time}])
        assert 'lower case' in self.refused(events=[{'event_type': 'it.error', 'time': time}])

    def test_reservation_without_a_type_is_refused(self):
        told = self.refused(reservations=[{'resource_id': SERVER}])
        assert 'reservations[0].resource_type: must be set' in told

    def test_amounts_of_a_reservation_are_refused(self):
        """It would go with the token of Heat's own, which the lease service believes."""
        server = {**leases.of_server(SERVER), 'amounts': {'servers': 0}}
        told = self.refused(reservations=[leases.of_server(SERVER), server])
        assert 'reservations[1].amounts: must be left out' in told

    def test_amounts_that_are_known_late_are_not_sent(self):
        server = leases.of_server(SERVER)
        assert clean_items([{**server, 'amounts': {'servers': 0}, 'on_end': None}]) == [server]

    def test_wrong_values_are_refused(self):
        assert 'start_policy' in self.refused(start_policy='later')
        assert 'on_end' in self.refused(on_end='stop')
        assert 'before_start' in self.refused(before_start=[0])
        assert 'secret' in self.refused(webhook={'url': 'https://a', 'secret': 'short'})
        assert 'name' in self.refused(name='')

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
            with pytest.raises(exception.StackValidationFailed, match=f"'{value}' is not a"):
                self.create(template, given=value)


class TestConstraint(LeaseTest):
    """climate.lease."""

    TEMPLATE = {
        'heat_template_version': '2018-08-31',
        'parameters': {
            'lease': {'type': 'string', 'constraints': [{'custom_constraint': 'climate.lease'}]}
        },
        'resources': {
            'value': {'type': 'OS::Heat::Value', 'properties': {'value': {'get_param': 'lease'}}}
        },
    }

    def test_lease_of_the_project_passes(self):
        lease = self.leases.make(leases.ALICE)
        self.assert_stack(self.create(self.TEMPLATE, lease=lease), 'CREATE_COMPLETE')

    def test_lease_of_another_project_is_refused(self):
        lease = self.leases.make(BOB)
        with pytest.raises(exception.StackValidationFailed, match=f'Lease \\({lease}\\)'):
            self.create(self.TEMPLATE, lease=lease)

    def test_outage_of_the_lease_service_is_told(self):
        self.leases.answers = [leases.refusal(500, 'The database is away.')]
        with pytest.raises(exception.StackValidationFailed, match='The database is away'):
            self.create(self.TEMPLATE, lease=SERVER)
