# SPDX-License-Identifier: Apache-2.0
"""Scaling a group with standby members, by signals, and after the end of its lease."""

import datetime

import pytest
from heat.common import exception
from oslo_utils import timeutils

from tests.functional.heat.grouped import GroupTest
from tests.functional.heat.leases import refusal
from tests.support.stacks import GROUP, changed


class ScalingTest(GroupTest):
    def deleted(self):
        return self.cloud.nova.changed('delete')

    def metadata(self, stack):
        return self.group(stack).metadata_get(refresh=True)

    def nested_template(self, stack):
        found = self.load(self.nested(stack, 'group'))
        return found.t.t, found.env.param_defaults

    def refused(self, stack, signal, reason):
        """Scale the group in vain."""
        with pytest.raises(exception.ResourceFailure) as error:
            self.signal(stack, signal)
        assert reason in str(error.value)
        return str(error.value)

    def later(self, seconds):
        timeutils.clear_time_override()
        self.zero = getattr(self, 'zero', timeutils.utcnow())
        timeutils.set_time_override(self.zero + datetime.timedelta(seconds=seconds))
        self.addCleanup(timeutils.clear_time_override)


class TestSignals(ScalingTest):
    def test_signals_of_every_kind_after_the_start(self):
        stack = self.running()
        first, before = self.active(stack), self.standby(stack)
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)
        (woken,) = set(self.active(stack)) - set(first)
        assert woken in before
        assert self.wakes() == [*first, woken]
        assert self.created() == 3
        self.signal(stack, 'up')
        self.assert_servers(stack, 3, 0)
        before = self.changes()
        self.signal(stack, 'up')
        assert self.changes() == before
        for name, size in (('down', 2), ('down', 1), ('exact', 3), ('half', 2)):
            self.signal(stack, name)
            self.assert_servers(stack, size, 3 - size)
        self.patch_stack(stack)
        self.assert_servers(stack, 2, 1)

    def test_failed_standby_member_is_woken_up_last(self):
        stack = self.running()
        nested = self.nested(stack, 'group')
        for turn in (0, 1):
            failed = self.standby(stack)[turn]
            (name,) = [
                each.name
                for each in self.load(nested).resources.values()
                if each.resource_id == failed
            ]
            self._do('resource_mark_unhealthy', nested, name, True, 'it smells')
            self.signal(stack, 'up')
            assert failed in self.standby(stack)
            self.assert_servers(stack, 2, 1)
            self.signal(stack, 'down')

    def test_down_reserves_a_standby_member_and_then_deletes_the_oldest(self):
        stack = self.running(desired_capacity=2)
        active, standby = self.active(stack), self.standby(stack)
        oldest, other = active
        template, before = self.nested_template(stack), self.changes()
        # An outage of the lease service, or no room for it, changes nothing.
        self.leases.answers[:] = [refusal(500, 'out of order')] * 9
        for name in ('down', 'up'):
            self.refused(stack, name, 'out of order')
        self.leases.answers.clear()
        assert self.changes() == before
        self.cloud.nova.full = True
        self.refused(stack, 'down', 'No valid host was found.')
        assert sorted(self.by_status('ACTIVE')) == sorted(active)
        assert self.by_status('RESERVED') == standby
        self.assert_servers(stack, 2, 1)
        assert self.nested_template(stack) == template
        assert not set(self.deleted()) & {*active, *standby}
        self.cloud.nova.full = False
        failed = self.deleted()
        self.signal(stack, 'down')
        self.assert_servers(stack, 1, 2)
        assert self.active(stack) == [other]
        (new,) = set(self.standby(stack)) - {*standby}
        assert self.deleted() == [*failed, oldest]
        self.assert_order(('create', new), ('delete', oldest))

    def test_failure_to_restore_a_group_hides_no_earlier_failure(self):
        stack = self.running(desired_capacity=2)
        self.cloud.nova.full = True
        kind = type(self.group(stack))
        update, done = kind.update_with_template, []

        def fail_later(group, *args, **kwargs):
            done.append(1)
            if len(done) > 1:
                raise ValueError('nor can it be restored')
            return update(group, *args, **kwargs)

        self.patchobject(kind, 'update_with_template', new=fail_later)
        assert 'restored' not in self.refused(stack, 'down', 'No valid host was found.')
        assert len(done) == 2

    def test_signals_before_the_start_choose_the_active_members(self):
        stack = self.reserve_all(GROUP)
        before = self.changes()
        for name, size in (('up', 2), ('up', 3), ('down', 2)):
            self.signal(stack, name)
            assert self.size(stack) == size
        assert self.changes() == before
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        assert self.created() == 3

    def test_failed_wake_up_is_repeated_by_the_next_signal(self):
        stack = self.running()
        for each in self.standby(stack):
            self.cloud.nova.servers[each].update(failures=1, sleeps_on=True)
        self.refused(stack, 'up', 'could not be started')
        assert len(self.by_status('ACTIVE')) == 1
        assert self.size(stack) == 1
        self.signal(stack, 'up')
        self.assert_servers(stack, 2, 1)
        assert self.created() == 3

    def test_cooldown_of_a_policy_ignores_signals(self):
        stack = self.running(changed(GROUP, 'up', cooldown=60))
        for seconds, size in ((0, 2), (59, 2), (61, 3)):
            self.later(seconds)
            self.signal(stack, 'up')
            assert self.size(stack) == size
        self.assert_servers(stack, 3, 0)

    def test_cooldown_begins_after_the_last_change(self):
        """It does not begin between the new standby member and the end of the old member."""
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


class TestEnd(ScalingTest):
    def test_group_that_was_kept_at_the_end_of_its_lease_only_shrinks(self):
        stack = self.running(desired_capacity=2)
        standby = self.standby(stack)
        _, other = self.active(stack)
        self.leases.end(self.lease)
        for each in standby:
            if each in self.cloud.nova.servers:
                self.cloud.nova.forget(each)
        before = self.changes()
        self.refused(stack, 'up', 'to be joined')
        assert len(self.by_status('ACTIVE')) == 2
        assert [each for each in self.changes() if each not in before] == []
        self.patch_stack(stack)
        assert self.standby(stack) == []
        self.check(stack)
        self.signal(stack, 'down')
        assert list(self.cloud.nova.servers) == self.active(stack) == [other]
