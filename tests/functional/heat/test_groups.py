# SPDX-License-Identifier: Apache-2.0
"""Autoscaling groups that reserve their maximum for the whole lease."""

import pytest
from heat.common import exception

from tests.functional.heat.grouped import GroupTest
from tests.support.stacks import (
    GROUP,
    MEMBER,
    NESTED,
    added,
    changed,
    hinted,
    lease,
    resource,
    server,
    stack_level,
    without,
)


def hinted_group(**hints):
    """Return the group with hints in the definition of its members."""
    return changed(GROUP, 'group', resource=server(scheduler_hints=hints))


class TestCreation(GroupTest):
    def test_members_join_a_lease_of_the_same_template(self):
        dates = self.leases.later(hours=1), self.leases.later(hours=2)
        template = hinted_group(reserved=True, lease_id={'get_resource': 'lease'})
        stack = self.create(added(template, lease=lease(*dates)))
        (self.lease,) = self.ids(stack, 'lease')
        assert len(self.held()) == 3
        self.start(stack)
        self.assert_servers(stack, 1, 2)
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)

    def test_preview_shows_the_maximum_and_reserves_nothing(self):
        found = self.preview(GROUP, environment=stack_level(self.lease))
        (members,) = [each for each in found['resources'] if isinstance(each, list)]
        assert len(members) == 3
        assert self.changes() == []
        assert self.leases.requests == []

    def test_active_members_of_a_started_lease_run_at_once(self):
        self.leases.start(self.lease)
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=2))
        self.assert_servers(stack, 2, 1)

    def test_wrong_hints_and_wrong_lease_are_refused(self):
        wrong_hints = hinted_group(reserved=False, lease_id=self.lease)
        for template, name, reason in (
            (wrong_hints, self.lease, 'must be left out where reserved is False'),
            (GROUP, 'my lease', 'climate_lease_id'),
        ):
            with pytest.raises(exception.StackValidationFailed) as error:
                self.create(template, environment=stack_level(name))
            assert reason in str(error.value)

    def test_limit_of_resources_counts_standby_members(self):
        self.set_limit(8)
        template = changed(GROUP, 'group', max_size=9)
        with pytest.raises(exception.StackValidationFailed) as error:
            self.reserve_all(template)
        assert 'Maximum resources per stack exceeded' in str(error.value)
        self.create(template)

    def test_lack_of_room_leaves_nothing_and_neither_does_a_delete_before_the_start(self):
        self.cloud.nova.full = True
        stack = self.reserve_all(GROUP, status='CREATE_FAILED')
        assert 'No valid host was found.' in self.reason(stack)
        self.delete(stack)
        self.assert_nothing_left()
        self.cloud.nova.full = False
        self.delete(self.reserve_all(GROUP))
        self.assert_nothing_left()


class TestStart(GroupTest):
    def test_maximum_is_reserved_and_the_active_members_are_woken_up(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=2))
        assert self.statuses() == ['RESERVED'] * 3
        assert self.held() == set(self.cloud.nova.servers)
        assert self.outputs(stack)['size'] == 2
        active = self.active(stack)
        self.start(stack)
        assert sorted(self.wakes()) == sorted(active)
        assert self.active(stack) == active
        self.assert_servers(stack, 2, 1)
        assert self.outputs(stack)['addresses'] == self.addresses(active)
        before = self.changes()
        self.patch_stack(stack)
        self.leases.forward(minutes=30)
        self.patch_stack(stack)
        assert self.changes() == before
        self.check(stack)
        self.suspend(stack)
        assert self.by_status('RESERVED') == self.standby(stack)
        assert sorted(self.by_status('SUSPENDED')) == sorted(active)
        self.resume(stack)
        self.assert_servers(stack, 2, 1)
        self.delete(stack)
        self.assert_nothing_left()

    def test_failed_member_is_woken_up_again_by_the_next_update(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=3))
        first = self.cloud.nova.servers[self.active(stack)[0]]
        first.update(failures=1, sleeps_on=True)
        found = self.start(stack, status='UPDATE_FAILED')
        assert 'could not be started' in found.status_reason
        assert first['status'] == 'RESERVED'
        self.patch_stack(stack)
        self.assert_servers(stack, 3, 0)
        assert self.created() == 3


class TestNestedMembers(GroupTest):
    def reserve_nested(self, template=NESTED, member=MEMBER):
        return self.reserve_all(template, files={'member.yaml': member})

    def assert_members(self, active):
        """Check the two servers and two volumes of each of three members."""
        standby = 3 - active
        assert self.statuses() == [
            *['ACTIVE'] * 2 * active, *['RESERVED'] * 2 * standby,
            *['available'] * active, *['in-use'] * active, *['lease-reserved'] * 2 * standby,
        ]  # fmt: skip

    def test_all_of_each_member_is_reserved_woken_up_and_scaled(self):
        stack = self.reserve_nested()
        self.assert_members(0)
        assert len(self.held()) == 12
        self.start(stack)
        self.assert_members(1)
        assert len(self.cloud.nova.changed('attach')) == 1
        (address,) = self.outputs(stack)['addresses']
        assert [address] in map(self.cloud.nova.addresses, self.by_status('ACTIVE'))
        self.signal(stack, 'up')
        self.assert_members(2)
        assert self.created() == 6
        assert self.size(stack) == 2
        self.signal(stack, 'down')
        self.assert_members(1)
        assert len(self.held()) == 12

    def test_hints_in_the_template_of_the_members(self):
        member = hinted(MEMBER, {'get_param': 'lease'})
        member['parameters']['lease'] = {'type': 'string'}
        nested = resource('member.yaml', net={'get_resource': 'net'}, lease=self.lease)
        template = changed(NESTED, 'group', resource=nested)
        stack = self.create(template, files={'member.yaml': member})
        self.assert_members(0)
        self.start(stack)
        self.assert_members(1)
        self.signal(stack, 'up')
        self.assert_members(2)

    def test_group_in_a_group(self):
        inner = without(GROUP, 'up', 'down', 'exact', 'half')
        template = changed(
            without(GROUP), 'group', max_size=2, desired_capacity=1,
            resource={'type': 'member.yaml'},
        )  # fmt: skip
        stack = self.reserve_nested(template, inner)
        assert self.statuses() == ['RESERVED'] * 6
        self.start(stack)
        assert self.statuses() == ['ACTIVE'] + ['RESERVED'] * 5
        for outer in self.load(self.nested(stack, 'group')).resources.values():
            group = self.group(outer.resource_id)
            members = set(self.load(group.resource_id).resources)
            assert len(group.standby_names()) == 2
            assert group.standby_names() < members
        self.signal(stack, 'up')
        assert self.statuses() == ['ACTIVE'] * 2 + ['RESERVED'] * 4
        self.patch_stack(stack)
        assert self.size(stack) == 1


class TestAttributes(GroupTest):
    def attribute(self, stack, *path):
        return self.group(stack).get_attribute(*path)

    def test_attributes_show_active_members(self):
        template = changed(GROUP, 'group')
        outputs = {
            'map': ['outputs', 'first_address'],
            'list': ['outputs_list', 'first_address'],
            'refs_map': ['refs_map'],
            'first': ['resource.0'],
            'address': ['resource.0', 'first_address'],
            'short': ['resource.1.first_address'],
        }
        for name, path in outputs.items():
            template['outputs'][name] = {'value': {'get_attr': ['group', *path]}}
        stack = self.running(template, desired_capacity=2)
        found = self.outputs(stack)
        active = self.active(stack)
        assert len(active) == 2
        assert sorted(found['refs_map'].values()) == sorted(active)
        addresses = self.addresses(active)
        assert sorted(found['map'].values()) == sorted(addresses)
        assert found['list'] == addresses
        assert found['first'] == active[0]
        assert [found['address'], found['short']] == addresses
        told = self.outputs(self.nested(stack, 'group'))
        assert all(set(each) == set(found['refs_map']) for each in told.values())
        # Heat reads what no template refers to from the members themselves.
        names = self.attribute(stack, 'outputs_list', 'name')
        assert len(names) == 2
        assert list(self.attribute(stack, 'outputs', 'name').values()) == names
        assert self.attribute(stack, 'resource.1', 'name') == names[1]
        assert self.attribute(stack, 'resource.0.name') == names[0]
        assert [self.attribute(stack, f'resource.{n}') for n in (0, 1)] == active
        for path in (['resource.2'], ['resource.2', 'first_address'], ['resource.2', 'name']):
            with pytest.raises(exception.NotFound, match='not found in group'):
                self.attribute(stack, *path)
        with pytest.raises(exception.InvalidTemplateAttribute):
            self.attribute(stack, 'outputs')
