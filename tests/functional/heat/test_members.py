# SPDX-License-Identifier: Apache-2.0
"""Servers and volumes that are reserved with their stack, by hints."""

from tests.functional.heat.reserved import ReservedTest


class TestMembers(ReservedTest):
    def test_all_sleeps_in_the_lease(self):
        stack = self.reserve()
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.cloud.cinder.statuses() == ['lease-reserved']
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

    def test_update_after_the_start_wakes_in_order(self):
        stack = self.reserve()
        disk, server = self.ids(stack, 'disk', 'server')
        self.start(stack)
        assert self.wakes() == [disk, server]
        assert self.ids(stack, 'disk', 'server') == [disk, server]
        assert 'climate_lease' not in self.resource(stack, 'disk').data()
        assert 'climate_lease' not in self.resource(stack, 'server').data()
        assert self.outputs(stack) == {'address': '10.0.0.2', 'status': 'available'}

    def test_once_awake_an_update_does_nothing(self):
        stack = self.reserve()
        self.start(stack)
        before = self.changes()
        asked = len(self.leases.requests)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.changes() == before
        assert len(self.leases.requests) == asked

    def test_update_before_the_start_wakes_nothing(self):
        stack = self.reserve()
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.cloud.cinder.statuses() == ['lease-reserved']
