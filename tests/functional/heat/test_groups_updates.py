# SPDX-License-Identifier: Apache-2.0
"""Updates of a group with standby members, before and after the start."""

from tests.functional.heat.grouped import GroupTest
from tests.functional.heat.users import ALICE
from tests.support.stacks import GROUP, OF_GROUP, changed, server, stack_level, without


class UpdateTest(GroupTest):
    def each_phase(self):
        """Create a group before the start of its lease, and another one after it; gives each."""
        for started in (False, True):
            self.lease = self.leases.make(ALICE)
            stack = self.reserve_all(GROUP, f's{started}')
            if started:
                self.start(stack)
            yield stack

    def by_id(self):
        """Id of each server -> status."""
        return {key: each['status'] for key, each in self.cloud.nova.servers.items()}

    def assert_no_room(self, found):
        assert 'No valid host was found.' in found.status_reason

    def watch(self, *statuses):
        """Count the servers, or those in some statuses, whenever heat waits."""
        self.seen = []

        def meanwhile():
            found = self.cloud.nova.statuses()
            self.seen.append(sum(not statuses or each in statuses for each in found))
            self.leases.run()

        self.bus.meanwhile = meanwhile


class TestSizes(UpdateTest):
    def test_maximum_reserves_or_deletes_standby_members_or_changes_nothing_without_room(self):
        for stack in self.each_phase():
            woken, before = len(self.wakes()), self.by_id()
            self.cloud.nova.full = True
            self.assert_no_room(self.change_group(stack, status='UPDATE_FAILED', max_size=5))
            assert self.by_id() == before
            assert len(self.held()) == 3
            assert self.size(stack) == 1
            self.cloud.nova.full = False
            self.change_group(stack, max_size=5)
            assert len(self.held()) == 5
            assert self.size(stack) == 1
            assert len(self.wakes()) == woken
            self.start(stack)
            assert len(self.active(stack)) == 1
            assert len(self.standby(stack)) == 4
            before, active = self.by_id(), self.active(stack)
            self.cloud.nova.full = True
            self.change(stack, changed(GROUP, 'group', max_size=6), rollback=True)
            assert self.by_id() == before
            self.cloud.nova.full = False
            self.change_group(stack, max_size=2)
            assert self.active(stack) == active
            assert len(self.standby(stack)) == 1
            assert self.held() == {*active, *self.standby(stack)}

    def test_maximum_below_the_running_members_deletes_the_oldest(self):
        stack = self.running(desired_capacity=3)
        _, *others = self.active(stack)
        self.change_group(stack, max_size=2, desired_capacity=2)
        assert self.active(stack) == others
        self.assert_servers(stack, 2, 0)
        assert self.created() == 3

    def test_higher_minimum_activates_standby_members(self):
        stack = self.reserve_all(GROUP)
        self.change_group(stack, min_size=2)
        assert self.size(stack) == 2
        assert len(self.cloud.nova.servers) == 3
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        for minimum in (3, 1):
            self.change_group(stack, min_size=minimum)
            self.assert_servers(stack, 3, 0)
        assert self.created() == 3

    def test_desired_capacity_chooses_the_active_members(self):
        stack = self.reserve_all(GROUP)
        before = self.changes()
        for size in (3, 1, 2):
            self.change_group(stack, desired_capacity=size)
            assert self.size(stack) == size
        assert self.changes() == before
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        self.change_group(stack, desired_capacity=3)
        self.assert_servers(stack, 3, 0)
        active = self.active(stack)
        self.cloud.nova.full = True
        self.assert_no_room(self.change_group(stack, status='UPDATE_FAILED', desired_capacity=1))
        assert self.active(stack) == active
        self.assert_servers(stack, 3, 0)
        self.cloud.nova.full = False
        made = self.created()
        self.change_group(stack, desired_capacity=1)
        self.assert_servers(stack, 1, 2)
        assert self.created() == made + 2

    def test_new_members_are_reserved_before_anything_is_woken_up(self):
        stack = self.running()
        self.change_group(stack, max_size=5, desired_capacity=5)
        self.assert_servers(stack, 5, 0)
        changes = self.cloud.nova.changes
        last = max(changes.index(('create', each)) for each in self.cloud.nova.servers)
        woken = self.wakes()[1:]
        assert len(woken) == 4
        assert all(changes.index(('wake_up', each)) > last for each in woken)

    def test_group_added_after_the_start_runs_and_removed_group_is_deleted(self):
        stack = self.started(without(GROUP, *OF_GROUP))
        self.change_group(stack, desired_capacity=2)
        self.assert_servers(stack, 2, 1)
        self.change(stack, without(GROUP, *OF_GROUP))
        self.assert_nothing_left()


class TestLeases(UpdateTest):
    def test_without_its_lease_only_the_active_members_stay(self):
        stack = self.running(desired_capacity=2)
        active = self.active(stack)
        self.update(stack, changed(GROUP, 'group', desired_capacity=2))
        assert sorted(self.cloud.nova.servers) == sorted(active)
        assert self.active(stack) == active
        assert self.statuses() == ['ACTIVE', 'ACTIVE']

    def test_without_its_lease_before_the_start_the_active_members_run(self):
        stack = self.reserve_all(GROUP)
        self.update(stack, GROUP)
        assert self.statuses() == ['ACTIVE']
        assert list(self.cloud.nova.servers) == self.active(stack)
        assert self.held() == set()

    def test_another_lease_is_refused(self):
        stack = self.reserve_all(GROUP)
        before = self.held()
        other = stack_level(self.leases.make(ALICE))
        found = self.update(stack, GROUP, environment=other, status='UPDATE_FAILED')
        assert 'cannot move to lease' in found.status_reason
        assert self.held() == before
        assert self.statuses() == ['RESERVED'] * 3
        self.change_group(stack)
        self.start(stack)
        self.assert_servers(stack, 1, 2)

    def test_lease_of_a_running_group_reserves_the_rest_of_the_maximum(self):
        stack = self.create(GROUP)
        active = self.active(stack)
        self.change_group(stack)
        assert self.active(stack) == active
        assert self.statuses() == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.held() == set(self.standby(stack))


class TestDefinitions(UpdateTest):
    POLICY = {'min_in_service': 0, 'max_batch_size': 1, 'pause_time': 0}

    def renew(self, stack, status='UPDATE_COMPLETE', **properties):
        return self.change_group(stack, status=status, resource=server(flavor='m2'), **properties)

    def assert_renewed(self):
        assert [each['flavor']['id'] for each in self.cloud.nova.servers.values()] == ['2'] * 3

    def test_all_members_are_reserved_anew_before_the_start(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=3))
        old = set(self.cloud.nova.servers)
        self.renew(stack, desired_capacity=1)
        self.assert_renewed()
        assert self.statuses() == ['RESERVED'] * 3
        assert not old & self.held()
        assert len(self.held()) == 3
        assert self.size(stack) == 1
        self.start(stack)
        self.assert_servers(stack, 1, 2)

    def test_batches_need_no_more_room_than_their_members(self):
        """No member is kept in service before the start."""
        for size, given, most in (
            (4, {'max_batch_size': 1}, 5),
            (4, {'max_batch_size': 2}, 6),
            (3, {'min_in_service': 3}, 4),
        ):
            self.lease = self.leases.make(ALICE)
            given = {
                'max_size': size,
                'desired_capacity': size - 1,
                'rolling_updates': {**self.POLICY, **given},
            }
            stack = self.reserve_all(changed(GROUP, 'group', **given), f's{most}')
            self.watch()
            self.renew(stack, **given)
            assert max(self.seen) == most
            assert len(self.held()) == size
            self.bus.meanwhile = self.leases.run
            self.delete(stack)

    def test_standby_members_are_reserved_anew_before_the_active_ones_are_resized(self):
        stack = self.running(desired_capacity=2)
        active, (standby,) = self.active(stack), self.standby(stack)
        self.renew(stack, desired_capacity=2)
        assert self.active(stack) == active
        assert sorted(self.cloud.nova.changed('resize')) == sorted(active)
        self.assert_renewed()
        assert self.standby(stack) != [standby]
        self.assert_servers(stack, 2, 1)
        for each in active:
            self.assert_order(('delete', standby), ('resize', each))

    def test_active_members_are_untouched_without_room_for_the_standby_members(self):
        stack = self.running(desired_capacity=2)
        active = self.active(stack)
        self.cloud.nova.full = True
        self.assert_no_room(self.renew(stack, status='UPDATE_FAILED', desired_capacity=2))
        assert sorted(self.by_status('ACTIVE')) == sorted(active)
        assert self.cloud.nova.changed('resize') == []
        self.cloud.nova.full = False
        self.renew(stack, desired_capacity=2)
        self.assert_servers(stack, 2, 1)
        self.assert_renewed()

    def test_members_that_heat_adds_meanwhile_are_standby_members(self):
        given = {'desired_capacity': 2, 'rolling_updates': {**self.POLICY, 'min_in_service': 2}}
        stack = self.running(**given)
        self.watch('ACTIVE', 'RESIZE', 'VERIFY_RESIZE')
        self.renew(stack, **given)
        self.assert_servers(stack, 2, 1)
        self.assert_renewed()
        assert (min(self.seen), max(self.seen)) == (2, 3)
        changes, woken = self.cloud.nova.changes, self.cloud.nova.changed('wake_up')
        first = min(changes.index(('delete', each)) for what, each in changes
                    if what == 'delete' and each in woken)  # fmt: skip
        assert 'create' not in [what for what, _ in changes[first:]]

    def test_fewer_members_with_a_new_definition(self):
        stack = self.running(desired_capacity=3)
        self.renew(stack, desired_capacity=1)
        self.assert_servers(stack, 1, 2)
        self.assert_renewed()
