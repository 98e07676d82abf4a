# SPDX-License-Identifier: Apache-2.0
"""Stacks that are reserved by the hints of their resources, or by a line of their environment."""

import uuid

import pytest
from heat.common import exception

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.users import ALICE, BOB
from tests.support.stacks import PAIR, added, changed, hinted, lease, stack_level


class TestReserved(ReservedTest):
    def assert_reserved(self, stack):
        """Check who is in the lease, and that an update before the start changes nothing."""
        disk, server = self.ids(stack, 'disk', 'server')
        assert self.leases.members(self.lease) == {
            ('virtual:stack', stack),
            ('virtual:volume', disk),
            ('virtual:instance', server),
        }
        params = {each.resource_id: each.params for each in self.leases.get(self.lease).live}
        assert params[disk]['stack_id'] == params[server]['stack_id'] == stack
        assert self.outputs(stack) == {'address': '10.0.0.2', 'status': 'lease-reserved'}
        asked = [each.method for each in self.leases.requests]
        assert asked.count('POST') == 1
        self.patch_stack(stack)
        assert self.statuses() == ['RESERVED', 'lease-reserved']
        assert self.wakes() == []

    def assert_woken_up(self, stack):
        """Let the lease start; check the order, and that the next update does nothing."""
        members = self.ids(stack, 'disk', 'server')
        self.start(stack)
        assert self.ids(stack, 'disk', 'server') == self.wakes() == members
        for name in ('disk', 'server'):
            assert 'climate_lease' not in self.data(stack, name)
        assert self.outputs(stack) == {'address': '10.0.0.2', 'status': 'available'}
        before, asked = self.changes(), len(self.leases.requests)
        self.patch_stack(stack)
        assert self.changes() == before
        assert len(self.leases.requests) == asked

    def test_hints_reserve_and_the_update_after_the_start_wakes_up(self):
        stack = self.reserve()
        self.assert_reserved(stack)
        self.assert_woken_up(stack)

    def test_environment_reserves_and_the_update_after_the_start_wakes_up(self):
        stack = self.reserve_all()
        self.assert_reserved(stack)
        self.assert_woken_up(stack)

    def test_lease_of_the_same_template_is_joined(self):
        dates = self.leases.later(hours=1), self.leases.later(hours=2)
        template = hinted(added(PAIR, lease=lease(*dates)), {'get_resource': 'lease'})
        del template['resources']['disk']['properties']['scheduler_hints']['reserved']
        stack = self.create(template)
        (self.lease,) = self.ids(stack, 'lease')
        assert self.held() == set(self.ids(stack, 'disk', 'server'))
        self.start(stack)
        assert self.wakes() == self.ids(stack, 'disk', 'server')

    def test_hints_win_over_the_environment(self):
        other = self.leases.make(ALICE)
        template = changed(PAIR, 'disk', scheduler_hints={'lease_id': other})
        template = changed(
            template, 'server', scheduler_hints={'reserved': False}, image='cirros',
            block_device_mapping_v2=None,
        )  # fmt: skip
        stack = self.reserve_all(template)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.leases.members(self.lease) == set()
        # A stack belongs to one lease; another lease wakes up its own resources.
        (disk,) = self.ids(stack, 'disk')
        assert self.leases.members(other) == {('virtual:volume', disk)}
        (held,) = self.leases.get(other).live
        assert 'stack_id' not in held.params
        self.patch_stack(stack)
        assert self.wakes() == []
        self.leases.start(other)
        self.patch_stack(stack)
        assert self.cloud.cinder.statuses() == ['available']

    def test_hint_without_a_lease_means_that_of_the_stack_and_a_preview_reserves_nothing(self):
        template = changed(PAIR, 'disk', scheduler_hints={'reserved': True})
        found = self.preview(template, environment=stack_level(self.lease))
        assert {each['resource_name'] for each in found['resources']} == {'net', 'disk', 'server'}
        assert self.changes() == []
        assert self.held() == set()
        stack = self.reserve_all(template)
        assert set(self.ids(stack, 'disk', 'server')) == self.held()


class TestRefused(ReservedTest):
    def test_value_that_is_no_id_is_refused_before_anything_is_created(self):
        for value in ('my lease', 17, ['x']):
            with pytest.raises(exception.StackValidationFailed) as error:
                self.create(PAIR, environment=stack_level(value))
            assert 'climate_lease_id' in str(error.value)
            assert repr(value) in str(error.value)
        assert self.changes() == []

    def test_lease_that_is_not_there_or_of_another_project_fails_the_creation(self):
        for number, value in enumerate((str(uuid.uuid4()), self.leases.make(BOB))):
            stack = self.create(
                PAIR, f's{number}', environment=stack_level(value), status='CREATE_FAILED'
            )
            assert 'was not found' in self.reason(stack)
        assert self.changes() == []

    def test_lease_that_is_over_fails_the_creation(self):
        self.reserve_all(name='other')
        self.leases.end(self.lease)
        self.bus.run()
        self.leases.forward(minutes=1)
        before = self.changes()
        stack = self.reserve_all(status='CREATE_FAILED')
        reason = f'Lease {self.lease} is TERMINATED; it must be one of PENDING,'
        assert reason in self.reason(stack)
        assert self.changes() == before

    def test_lack_of_room_leaves_nothing(self):
        self.cloud.nova.full = True
        stack = self.reserve_all(status='CREATE_FAILED')
        assert 'No valid host was found.' in self.reason(stack)
        self.delete(stack)
        self.assert_nothing_left()
