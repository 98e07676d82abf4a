# SPDX-License-Identifier: Apache-2.0
"""Scaling a group that holds its maximum, by signals and by updates."""

import datetime

import pytest
from heat.common import exception
from oslo_utils import timeutils

from tests.functional.heat.grouped import GROUP, GroupTest
from tests.functional.heat.leases import refusal
from tests.functional.heat.templates import changed, parse


class ScalingTest(GroupTest):
    def created(self):
        return len(self.cloud.nova.changed('create'))

    def deleted(self):
        return self.cloud.nova.changed('delete')

    def metadata(self, stack):
        return self.group(stack).metadata_get(refresh=True)


class TestSignals(ScalingTest):
    def test_up_wakes_the_oldest_spare(self):
        stack = self.running()
        first = self.wanted(stack)
        before = self.spares(stack)
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)
        (woken,) = set(self.wanted(stack)) - set(first)
        assert woken in before
        assert self.wakes() == [*first, woken]
        assert self.created() == 3

    def test_broken_spare_is_woken_last(self):
        stack = self.running()
        nested = self.nested(stack, 'group')
        for turn in (0, 1):
            broken = self.spares(stack)[turn]
            (name,) = [
                each.name
                for each in self.load(nested).resources.values()
                if each.resource_id == broken
            ]
            self._do('resource_mark_unhealthy', nested, name, True, 'it smells')
            self.signal(stack, 'up')
            assert broken in self.spares(stack)
            self.assert_servers(stack, 2, 1)
            self.signal(stack, 'down')

    def test_never_above_the_maximum(self):
        stack = self.running(desired_capacity=2)
        self.signal(stack, 'up')
        self.assert_servers(stack, 3, 0)
        before = self.changes()
        # No action is required, heat says nothing.
        self.signal(stack, 'up')
        assert self.changes() == before
        self.assert_servers(stack, 3, 0)

    def test_down_reserves_a_new_spare_and_then_deletes_the_oldest(self):
        stack = self.running(desired_capacity=2)
        oldest, other = self.wanted(stack)
        (spare,) = self.spares(stack)
        self.signal(stack, 'down')
        self.assert_servers(stack, 1, 2)
        assert self.wanted(stack) == [other]
        (new,) = set(self.spares(stack)) - {spare}
        assert self.deleted() == [oldest]
        changes = self.cloud.nova.changes
        assert changes.index(('create', new)) < changes.index(('delete', oldest))

    def test_down_without_room_changes_nothing(self):
        stack = self.running(desired_capacity=2)
        wanted, spares = self.wanted(stack), self.spares(stack)
        template = self.nested_template(stack)
        self.cloud.nova.full = True
        with pytest.raises(exception.ResourceFailure) as error:
            self.signal(stack, 'down')
        assert 'No valid host was found.' in str(error.value)
        assert sorted(self.by_status('ACTIVE')) == sorted(wanted)
        assert self.by_status('RESERVED') == spares
        self.assert_servers(stack, 2, 1)
        assert self.nested_template(stack) == template
        assert not set(self.deleted()) & {*wanted, *spares}
        self.cloud.nova.full = False
        self.signal(stack, 'down')
        self.assert_servers(stack, 1, 2)
        assert wanted[0] not in self.cloud.nova.servers

    def nested_template(self, stack):
        found = self.load(self.nested(stack, 'group'))
        return found.t.t, found.env.param_defaults

    def test_the_first_failure_is_told(self):
        stack = self.running(desired_capacity=2)
        self.cloud.nova.full = True
        kind = type(self.group(stack))
        update, done = kind.update_with_template, []

        def fail_later(group, *args, **kwargs):
            done.append(1)
            if len(done) > 1:
                raise ValueError('nor can it be put back')
            return update(group, *args, **kwargs)

        self.patchobject(kind, 'update_with_template', new=fail_later)
        with pytest.raises(exception.ResourceFailure) as error:
            self.signal(stack, 'down')
        assert 'No valid host was found.' in str(error.value)
        assert 'put back' not in str(error.value)
        assert len(done) == 2

    def test_before_the_start_only_who_is_wanted_changes(self):
        stack = self.reserve_all(GROUP)
        before = self.changes()
        self.signal(stack, 'up')
        assert self.size(stack) == 2
        self.signal(stack, 'up')
        assert self.size(stack) == 3
        self.signal(stack, 'down')
        assert self.size(stack) == 2
        assert self.changes() == before
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        assert self.created() == 3

    def test_up_and_down_and_up(self):
        stack = self.running()
        for name, size in (('up', 2), ('up', 3), ('down', 2), ('down', 1), ('up', 2)):
            self.signal(stack, name)
            self.assert_servers(stack, size, 3 - size)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.assert_servers(stack, 2, 1)

    def test_other_adjustments(self):
        template = parse(GROUP)
        for name, kind, adjustment in (
            ('exact', 'exact_capacity', 3), ('half', 'percent_change_in_capacity', -50),
        ):  # fmt: skip
            template['resources'][name] = {
                'type': 'OS::Heat::ScalingPolicy',
                'properties': {
                    'adjustment_type': kind,
                    'auto_scaling_group_id': {'get_resource': 'group'},
                    'scaling_adjustment': adjustment,
                },
            }
        stack = self.running(template)
        self.signal(stack, 'exact')
        self.assert_servers(stack, 3, 0)
        self.signal(stack, 'half')
        self.assert_servers(stack, 2, 1)

    def test_what_cannot_be_woken_is_tried_again(self):
        stack = self.running()
        for each in self.spares(stack):
            self.cloud.nova.servers[each].update(failures=1, sleeps_on=True)
        with pytest.raises(exception.ResourceFailure) as error:
            self.signal(stack, 'up')
        assert 'could not be started' in str(error.value)
        assert len(self.by_status('ACTIVE')) == 1
        assert self.size(stack) == 1
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)
        assert self.created() == 3

    def test_cooldown(self):
        template = changed(GROUP, 'up', cooldown=60)
        stack = self.running(template)
        self.later(0)
        self.signal(stack, 'up')
        self.later(59)
        self.signal(stack, 'up')
        assert self.size(stack) == 2
        self.later(61)
        self.signal(stack, 'up')
        self.assert_servers(stack, 3, 0)

    def later(self, seconds):
        timeutils.clear_time_override()
        self.started = getattr(self, 'started', timeutils.utcnow())
        timeutils.set_time_override(self.started + datetime.timedelta(seconds=seconds))
        self.addCleanup(timeutils.clear_time_override)

    def test_cooldown_begins_when_all_is_done(self):
        """Not between the new spare and the end of the old member."""
        stack = self.running(desired_capacity=2, cooldown=60)
        seen = []
        self.bus.meanwhile = lambda: (seen.append(self.metadata(stack)), self.leases.run())
        before = self.metadata(stack)['cooldown_end']
        self.later(100)
        self.signal(stack, 'down')
        self.assert_servers(stack, 1, 2)
        assert seen
        assert all(each['scaling_in_progress'] for each in seen)
        assert all(each['cooldown_end'] == before for each in seen)
        found = self.metadata(stack)
        assert not found['scaling_in_progress']
        assert found['cooldown_end'] != before

    def test_lease_service_that_does_not_answer(self):
        stack = self.running(desired_capacity=2)
        before = self.changes()
        self.leases.answers[:] = [refusal(500, 'out of order')] * 9
        for name in ('down', 'up'):
            with pytest.raises(exception.ResourceFailure) as error:
                self.signal(stack, name)
            assert 'out of order' in str(error.value)
        self.leases.answers.clear()
        assert self.changes() == before
        self.signal(stack, 'down')
        self.assert_servers(stack, 1, 2)


class TestEnd(ScalingTest):
    def after_the_end(self):
        """What is left: who ran, as a stack that is kept at the end."""
        stack = self.running(desired_capacity=2)
        spares = self.spares(stack)
        self.leases.end(self.lease)
        for each in spares:
            if each in self.cloud.nova.servers:
                self.cloud.nova.forget(each)
        return stack

    def test_scaling_up_fails_with_the_reason(self):
        stack = self.after_the_end()
        before = self.changes()
        with pytest.raises(exception.ResourceFailure) as error:
            self.signal(stack, 'up')
        assert 'to be joined' in str(error.value)
        assert len(self.by_status('ACTIVE')) == 2
        assert [each for each in self.changes() if each not in before] == []

    def test_scaling_down_deletes(self):
        stack = self.after_the_end()
        _, other = self.wanted(stack)
        self.signal(stack, 'down')
        assert list(self.cloud.nova.servers) == [other]
        assert self.wanted(stack) == [other]

    def test_update_forgets_the_spares(self):
        stack = self.after_the_end()
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.spares(stack) == []
        self.check(stack)
        self.assert_stack(stack, 'CHECK_COMPLETE')
