# SPDX-License-Identifier: Apache-2.0
"""A whole stack that is reserved by a line of its environment."""

import uuid

import pytest
from heat.common import exception

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import COUNTED, PAIR, changed, stack_level
from tests.functional.heat.users import ALICE, BOB


class TestStackLevel(ReservedTest):
    def test_plain_template_is_reserved_and_woken(self):
        stack = self.reserve_all()
        disk, server = self.ids(stack, 'disk', 'server')
        assert self.leases.members(self.lease) == {
            ('virtual:stack', stack),
            ('virtual:volume', disk),
            ('virtual:instance', server),
        }
        assert self.wakes() == []
        self.start(stack)
        assert self.wakes() == [disk, server]
        assert self.outputs(stack) == {'address': '10.0.0.2', 'status': 'available'}

    def test_members_of_nested_stacks_belong_to_the_root(self):
        stack = self.reserve_all(COUNTED)
        nested = self.nested(stack, 'group')
        members = self.ids(nested, '0', '1')
        assert self.leases.members(self.lease) == {
            ('virtual:stack', stack),
            *(('virtual:instance', each) for each in members),
        }
        live = self.leases.get(self.lease).live
        assert {r.params.get('stack_id') for r in live if r.resource_id in members} == {stack}
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        assert sorted(self.wakes()) == sorted(members)
        assert sorted(self.outputs(stack)['addresses']) == ['10.0.0.2', '10.0.0.3']

    def test_own_hints_win(self):
        other = self.leases.make(ALICE)
        template = changed(PAIR, 'disk', scheduler_hints={'lease_id': other})
        template = changed(
            template, 'server', scheduler_hints={'reserved': False}, image='cirros',
            block_device_mapping_v2=None,
        )  # fmt: skip
        stack = self.create(template, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.leases.members(self.lease) == set()
        # A stack belongs to one lease; what is in another one is woken by that.
        (disk,) = self.ids(stack, 'disk')
        assert self.leases.members(other) == {('virtual:volume', disk)}
        (held,) = self.leases.get(other).live
        assert 'stack_id' not in held.params
        self.patch_stack(stack)
        assert self.wakes() == []
        self.leases.start(other)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.cinder.statuses() == ['available']

    def test_hint_without_a_lease_means_that_of_the_stack(self):
        stack = self.reserve_all(changed(PAIR, 'disk', scheduler_hints={'reserved': True}))
        assert set(self.ids(stack, 'disk', 'server')) == self.held()

    def test_what_is_no_id_is_refused_before_anything_is_made(self):
        for value in ('my lease', 17, ['x']):
            with pytest.raises(exception.StackValidationFailed) as error:
                self.create(PAIR, environment=stack_level(value))
            assert 'climate_lease_id' in str(error.value)
            assert repr(value) in str(error.value)
        assert self.changes() == []

    def test_lease_that_is_not_there(self):
        lease = str(uuid.uuid4())
        stack = self.create(PAIR, environment=stack_level(lease))
        found = self.assert_stack(stack, 'CREATE_FAILED')
        assert 'was not found' in found.status_reason
        assert self.changes() == []

    def test_lease_of_somebody_else(self):
        lease = self.leases.make(BOB)
        stack = self.create(PAIR, environment=stack_level(lease))
        found = self.assert_stack(stack, 'CREATE_FAILED')
        assert 'was not found' in found.status_reason
        assert self.changes() == []

    def test_lease_that_is_over(self):
        other = self.create(PAIR, name='other', environment=stack_level(self.lease))
        self.assert_stack(other, 'CREATE_COMPLETE')
        self.leases.end(self.lease)
        self.bus.run()
        self.leases.forward(minutes=1)
        before = self.changes()
        stack = self.create(PAIR, environment=stack_level(self.lease))
        found = self.assert_stack(stack, 'CREATE_FAILED')
        assert (
            f'Lease {self.lease} is TERMINATED; it must be one of PENDING,' in found.status_reason
        )
        assert self.changes() == before

    def test_preview_reserves_nothing(self):
        found = self.preview(PAIR, environment=stack_level(self.lease))
        names = {each['resource_name'] for each in found['resources']}
        assert names == {'net', 'disk', 'server'}
        assert self.changes() == []
        assert self.leases.members(self.lease) == set()

    def test_no_room_leaves_no_member(self):
        self.cloud.nova.full = True
        stack = self.create(PAIR, environment=stack_level(self.lease))
        found = self.assert_stack(stack, 'CREATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        self.delete(stack)
        assert not self.exists(stack)
        assert self.held() == set()
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes

    def test_lease_of_the_same_template(self):
        template = changed(PAIR, 'disk', scheduler_hints={'lease_id': {'get_resource': 'lease'}})
        hints = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        template = changed(template, 'server', scheduler_hints=hints)
        template['resources']['lease'] = {
            'type': 'OS::Climate::Lease',
            'properties': {
                'name': 'lease1',
                'start_date': self.leases.later(hours=1),
                'end_date': self.leases.later(hours=2),
            },
        }
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        (self.lease,) = self.ids(stack, 'lease')
        assert self.held() == set(self.ids(stack, 'disk', 'server'))
        self.start(stack)
        assert self.wakes() == self.ids(stack, 'disk', 'server')
