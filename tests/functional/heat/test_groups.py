# SPDX-License-Identifier: Apache-2.0
"""Autoscaling groups that hold their maximum for the whole lease."""

import json

import pytest
from heat.common import exception

from tests.functional.heat.grouped import GROUP, MEMBER, NESTED, GroupTest
from tests.functional.heat.templates import changed, parse, server, stack_level


class TestCreation(GroupTest):
    def test_maximum_is_reserved(self):
        stack = self.reserve_all(GROUP)
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert self.held() == set(self.cloud.nova.servers)
        assert self.outputs(stack)['size'] == 1
        assert len(self.wanted(stack)) == 1

    def test_hints_of_the_members(self):
        hints = {'reserved': True, 'lease_id': self.lease}
        template = changed(GROUP, 'group', resource=server(scheduler_hints=hints))
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert len(self.held()) == 3
        self.start(stack)
        self.assert_servers(stack, 1, 2)
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)

    def test_lease_of_the_same_template(self):
        hints = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        template = changed(GROUP, 'group', resource=server(scheduler_hints=hints))
        dates = {
            'start_date': self.leases.later(hours=1),
            'end_date': self.leases.later(hours=2),
        }
        template['resources']['lease'] = {
            'type': 'OS::Climate::Lease',
            'properties': {'name': 'lease1', **dates},
        }
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        (self.lease,) = self.ids(stack, 'lease')
        assert len(self.held()) == 3
        self.start(stack)
        self.assert_servers(stack, 1, 2)

    def test_preview_shows_the_maximum_and_reserves_nothing(self):
        found = self.preview(GROUP, environment=stack_level(self.lease))
        (members,) = [each for each in found['resources'] if isinstance(each, list)]
        assert len(members) == 3
        assert self.changes() == []
        assert self.leases.requests == []

    def test_without_room_nothing_is_left(self):
        self.cloud.nova.full = True
        stack = self.create(GROUP, environment=stack_level(self.lease))
        found = self.assert_stack(stack, 'CREATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        self.delete(stack)
        assert not self.exists(stack)
        assert self.held() == set()
        assert not self.cloud.nova.servers

    def test_in_a_started_lease_who_is_wanted_runs_at_once(self):
        self.leases.start(self.lease)
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=2))
        self.assert_servers(stack, 2, 1)

    def test_hints_that_make_no_sense(self):
        hints = {'reserved': False, 'lease_id': self.lease}
        template = changed(GROUP, 'group', resource=server(scheduler_hints=hints))
        with pytest.raises(exception.StackValidationFailed) as error:
            self.create(template)
        assert 'must be left out where reserved is False' in str(error.value)

    def test_lease_that_is_no_id(self):
        with pytest.raises(exception.StackValidationFailed) as error:
            self.create(GROUP, environment=stack_level('my lease'))
        assert 'climate_lease_id' in str(error.value)

    def test_delete(self):
        for start in (False, True):
            self.lease = self.leases.make(self.user)
            stack = self.reserve_all(GROUP)
            if start:
                self.start(stack)
            self.delete(stack)
            assert not self.exists(stack)
            assert not self.cloud.nova.servers
            assert self.held() == set()


class TestStart(GroupTest):
    def test_who_is_wanted_is_woken(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=2))
        wanted = self.wanted(stack)
        self.start(stack)
        assert sorted(self.wakes()) == sorted(wanted)
        assert self.wanted(stack) == wanted
        self.assert_servers(stack, 2, 1)
        assert self.outputs(stack)['addresses'] == self.addresses(wanted)

    def test_next_updates_wake_nobody(self):
        stack = self.running()
        before = self.changes()
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.leases.forward(minutes=30)
        self.patch_stack(stack)
        assert self.changes() == before
        self.assert_servers(stack, 1, 2)

    def test_what_cannot_be_woken_is_tried_again(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=3))
        first = self.wanted(stack)[0]
        self.cloud.nova.servers[first].update(failures=1, sleeps_on=True)
        self.start(stack, status='UPDATE_FAILED')
        found = self.load(stack)
        assert 'could not be started' in found.status_reason
        assert self.cloud.nova.servers[first]['status'] == 'RESERVED'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.assert_servers(stack, 3, 0)
        assert len(self.cloud.nova.changed('create')) == 3

    def test_other_actions_leave_spares_asleep(self):
        stack = self.running()
        spares = self.spares(stack)
        self.check(stack)
        self.assert_stack(stack, 'CHECK_COMPLETE')
        self.suspend(stack)
        self.assert_stack(stack, 'SUSPEND_COMPLETE')
        assert sorted(self.by_status('RESERVED')) == sorted(spares)
        assert len(self.by_status('SUSPENDED')) == 1
        self.resume(stack)
        self.assert_stack(stack, 'RESUME_COMPLETE')
        self.assert_servers(stack, 1, 2)

    def test_limit_of_resources_counts_spares(self):
        self.set_limit(6)
        template = changed(GROUP, 'group', max_size=7)
        with pytest.raises(exception.StackValidationFailed) as error:
            self.create(template, environment=stack_level(self.lease))
        assert 'Maximum resources per stack exceeded' in str(error.value)
        self.assert_stack(self.create(template), 'CREATE_COMPLETE')


class TestNestedMembers(GroupTest):
    def reserve_nested(self, **kwargs):
        stack = self.create(NESTED, files={'member.yaml': MEMBER}, **kwargs)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def nova(self):
        return sorted(self.cloud.nova.statuses())

    def cinder(self):
        return sorted(self.cloud.cinder.statuses())

    def test_all_of_each_member_is_reserved_and_woken(self):
        stack = self.reserve_nested(environment=stack_level(self.lease))
        assert self.nova() == ['RESERVED'] * 6
        assert self.cinder() == ['lease-reserved'] * 6
        assert len(self.held()) == 12
        self.start(stack)
        assert self.nova() == ['ACTIVE'] * 2 + ['RESERVED'] * 4
        assert self.cinder() == ['available', 'in-use'] + ['lease-reserved'] * 4
        assert len(self.cloud.nova.changed('attach')) == 1
        (address,) = self.outputs(stack)['addresses']
        assert [address] in map(self.cloud.nova.addresses, self.by_status('ACTIVE'))

    def test_scaling(self):
        stack = self.reserve_nested(environment=stack_level(self.lease))
        self.start(stack)
        self.signal(stack, 'up')
        assert self.nova() == ['ACTIVE'] * 4 + ['RESERVED'] * 2
        assert self.cinder() == ['available'] * 2 + ['in-use'] * 2 + ['lease-reserved'] * 2
        assert len(self.cloud.nova.changed('create')) == 6
        assert self.size(stack) == 2
        self.signal(stack, 'down')
        assert self.nova() == ['ACTIVE'] * 2 + ['RESERVED'] * 4
        assert self.cinder() == ['available', 'in-use'] + ['lease-reserved'] * 4
        assert len(self.held()) == 12

    def test_hints_in_the_template_of_the_members(self):
        member = parse(MEMBER)
        member['parameters']['lease'] = {'type': 'string'}
        hints = {'reserved': True, 'lease_id': {'get_param': 'lease'}}
        for each in member['resources'].values():
            if each['type'] != 'OS::Cinder::VolumeAttachment':
                each['properties']['scheduler_hints'] = hints
        properties = {'net': {'get_resource': 'net'}, 'lease': self.lease}
        template = changed(
            NESTED, 'group', resource={'type': 'member.yaml', 'properties': properties}
        )
        stack = self.create(template, files={'member.yaml': json.dumps(member)})
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.nova() == ['RESERVED'] * 6
        self.start(stack)
        assert self.nova() == ['ACTIVE'] * 2 + ['RESERVED'] * 4
        self.signal(stack, 'up')
        assert self.nova() == ['ACTIVE'] * 4 + ['RESERVED'] * 2

    def test_group_in_a_group(self):
        inner = parse(GROUP)
        inner['resources'] = {key: inner['resources'][key] for key in ('net', 'group')}
        inner['outputs'] = {'size': inner['outputs']['size']}
        template = changed(
            GROUP, 'group', max_size=2, desired_capacity=1,
            resource={'type': 'inner.yaml'},
        )  # fmt: skip
        template['outputs'] = {}
        stack = self.create(
            template, files={'inner.yaml': json.dumps(inner)}, environment=stack_level(self.lease)
        )
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.nova() == ['RESERVED'] * 6
        self.start(stack)
        assert self.nova() == ['ACTIVE'] + ['RESERVED'] * 5
        for outer in self.load(self.nested(stack, 'group')).resources.values():
            inner = self.group(outer.resource_id)
            members = set(self.load(inner.resource_id).resources)
            assert len(inner.standby_names()) == 2
            assert inner.standby_names() < members
        self.signal(stack, 'up')
        assert self.nova() == ['ACTIVE'] * 2 + ['RESERVED'] * 4
        self.patch_stack(stack)
        assert self.size(stack) == 1


class TestAttributes(GroupTest):
    def attribute(self, stack, *path):
        return self.group(stack).get_attribute(*path)

    def test_only_who_is_wanted_counts(self):
        template = parse(GROUP)
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
        wanted = self.wanted(stack)
        assert len(wanted) == 2
        assert sorted(found['refs_map'].values()) == sorted(wanted)
        addresses = self.addresses(wanted)
        assert sorted(found['map'].values()) == sorted(addresses)
        assert found['list'] == addresses
        assert found['first'] == wanted[0]
        assert [found['address'], found['short']] == addresses
        told = self.outputs(self.nested(stack, 'group'))
        assert all(set(each) == set(found['refs_map']) for each in told.values())

    def test_what_no_template_refers_to(self):
        """Heat reads those from the members themselves."""
        stack = self.running(desired_capacity=2)
        wanted = self.wanted(stack)
        names = self.attribute(stack, 'outputs_list', 'name')
        assert len(names) == 2
        assert list(self.attribute(stack, 'outputs', 'name').values()) == names
        assert self.attribute(stack, 'resource.1', 'name') == names[1]
        assert self.attribute(stack, 'resource.0.name') == names[0]
        assert [self.attribute(stack, f'resource.{n}') for n in (0, 1)] == wanted

    def test_spares_are_no_members(self):
        stack = self.running()
        for path in (['resource.1'], ['resource.2', 'first_address'], ['resource.1', 'name']):
            with pytest.raises(exception.NotFound, match='not found in group'):
                self.attribute(stack, *path)

    def test_attribute_without_a_path(self):
        stack = self.running()
        with pytest.raises(exception.InvalidTemplateAttribute):
            self.attribute(stack, 'outputs')
