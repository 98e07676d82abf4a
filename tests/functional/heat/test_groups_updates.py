# SPDX-License-Identifier: Apache-2.0
"""Updates of a group that holds its maximum, before and after the start."""

from tests.functional.heat.grouped import GROUP, GroupTest
from tests.functional.heat.templates import changed, server, stack_level, without
from tests.functional.heat.users import ALICE


class TestSizes(GroupTest):
    def test_higher_maximum_before_the_start(self):
        stack = self.reserve_all(GROUP)
        self.change(stack, max_size=5)
        assert self.cloud.nova.statuses() == ['RESERVED'] * 5
        assert len(self.held()) == 5
        assert self.size(stack) == 1
        self.start(stack)
        self.assert_servers(stack, 1, 4)

    def test_higher_maximum_after_the_start(self):
        stack = self.running()
        self.change(stack, max_size=5)
        self.assert_servers(stack, 1, 4)
        assert len(self.wakes()) == 1

    def test_higher_maximum_without_room(self):
        for start in (False, True):
            self.lease = self.leases.make(ALICE)
            self.cloud.nova.full = False
            stack = self.create(GROUP, name=f's{start}', environment=stack_level(self.lease))
            if start:
                self.start(stack)
            before = {key: each['status'] for key, each in self.cloud.nova.servers.items()}
            self.cloud.nova.full = True
            found = self.change(stack, status='UPDATE_FAILED', max_size=5)
            assert 'No valid host was found.' in found.status_reason
            after = {key: each['status'] for key, each in self.cloud.nova.servers.items()}
            assert after == before
            assert len(self.held()) == 3
            assert self.size(stack) == 1
            self.cloud.nova.full = False
            self.change(stack, max_size=4)
            assert len(self.held()) == 4
            assert self.size(stack) == 1

    def test_rollback_without_room(self):
        stack = self.running()
        before = dict(self.cloud.nova.servers)
        self.cloud.nova.full = True
        self.update(
            stack, changed(GROUP, 'group', max_size=5), environment=stack_level(self.lease),
            args={'disable_rollback': False},
        )  # fmt: skip
        self.assert_stack(stack, 'ROLLBACK_COMPLETE')
        assert self.cloud.nova.servers == before
        self.assert_servers(stack, 1, 2)

    def test_lower_maximum_frees_spares(self):
        for start in (False, True):
            self.lease = self.leases.make(ALICE)
            stack = self.create(GROUP, name=f's{start}', environment=stack_level(self.lease))
            if start:
                self.start(stack)
            wanted = self.wanted(stack)
            self.change(stack, max_size=2)
            assert self.wanted(stack) == wanted
            assert len(self.spares(stack)) == 1
            assert self.held() == {*wanted, *self.spares(stack)}

    def test_lower_maximum_than_run(self):
        stack = self.running(desired_capacity=3)
        _, *others = self.wanted(stack)
        self.change(stack, max_size=2, desired_capacity=2)
        assert self.wanted(stack) == others
        self.assert_servers(stack, 2, 0)
        assert len(self.cloud.nova.changed('create')) == 3

    def test_higher_minimum(self):
        stack = self.reserve_all(GROUP)
        self.change(stack, min_size=2)
        assert self.size(stack) == 2
        assert len(self.cloud.nova.servers) == 3
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        self.change(stack, min_size=3)
        self.assert_servers(stack, 3, 0)
        self.change(stack, min_size=1)
        self.assert_servers(stack, 3, 0)
        assert len(self.cloud.nova.changed('create')) == 3

    def test_desired_capacity(self):
        stack = self.reserve_all(GROUP)
        before = self.changes()
        for size in (3, 1, 2):
            self.change(stack, desired_capacity=size)
            assert self.size(stack) == size
        assert self.changes() == before
        self.start(stack)
        self.assert_servers(stack, 2, 1)
        self.change(stack, desired_capacity=3)
        self.assert_servers(stack, 3, 0)
        assert len(self.cloud.nova.changed('create')) == 3
        self.change(stack, desired_capacity=1)
        self.assert_servers(stack, 1, 2)
        assert len(self.cloud.nova.changed('create')) == 5

    def test_less_without_room_leaves_all_running(self):
        stack = self.running(desired_capacity=3)
        wanted = self.wanted(stack)
        self.cloud.nova.full = True
        found = self.change(stack, status='UPDATE_FAILED', desired_capacity=1)
        assert 'No valid host was found.' in found.status_reason
        assert sorted(self.by_status('ACTIVE')) == sorted(wanted)
        assert self.wanted(stack) == wanted
        self.assert_servers(stack, 3, 0)

    def test_more_than_ever_in_one_step(self):
        """What is new is reserved before anything is woken."""
        stack = self.running()
        self.change(stack, max_size=5, desired_capacity=5)
        self.assert_servers(stack, 5, 0)
        last = max(
            self.cloud.nova.changes.index(('create', each)) for each in self.cloud.nova.servers
        )
        woken = self.wakes()[1:]
        assert len(woken) == 4
        assert all(self.cloud.nova.changes.index(('wake_up', each)) > last for each in woken)

    def test_group_that_is_added_to_a_started_lease(self):
        stack = self.reserve_all(without(GROUP, 'group', 'up', 'down'))
        self.start(stack)
        self.change(stack, desired_capacity=2)
        self.assert_servers(stack, 2, 1)

    def test_group_that_is_taken_out(self):
        stack = self.running()
        self.update(
            stack, without(GROUP, 'group', 'up', 'down'), environment=stack_level(self.lease)
        )
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert not self.cloud.nova.servers
        assert self.held() == set()


class TestLeases(GroupTest):
    def test_no_lease_any_more_frees_the_spares(self):
        stack = self.running(desired_capacity=2)
        wanted = self.wanted(stack)
        self.update(stack, changed(GROUP, 'group', desired_capacity=2))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert sorted(self.cloud.nova.servers) == sorted(wanted)
        assert self.wanted(stack) == wanted
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']

    def test_no_lease_any_more_before_the_start_runs_who_is_wanted(self):
        stack = self.reserve_all(GROUP)
        self.update(stack, GROUP)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert list(self.cloud.nova.servers) == self.wanted(stack)
        assert self.held() == set()

    def test_another_lease_is_refused(self):
        """As for every member: a stack stays in its lease."""
        stack = self.reserve_all(GROUP)
        before = self.held()
        self.update(stack, GROUP, environment=stack_level(self.leases.make(ALICE)))
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'cannot move to lease' in found.status_reason
        assert self.held() == before
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        self.change(stack)
        self.start(stack)
        self.assert_servers(stack, 1, 2)

    def test_lease_for_a_group_that_runs(self):
        """Who runs stays; the rest of the maximum is reserved."""
        stack = self.create(GROUP)
        wanted = self.wanted(stack)
        self.change(stack)
        assert self.wanted(stack) == wanted
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.held() == set(self.spares(stack))


class TestDefinitions(GroupTest):
    POLICY = {'min_in_service': 0, 'max_batch_size': 1, 'pause_time': 0}

    def renew(self, stack, status='UPDATE_COMPLETE', template=GROUP, **properties):
        return self.change(stack, template, status, resource=server(flavor='m2'), **properties)

    def flavors(self):
        return [each['flavor']['id'] for each in self.cloud.nova.servers.values()]

    def test_before_the_start_all_are_reserved_anew(self):
        stack = self.reserve_all(GROUP)
        old = set(self.cloud.nova.servers)
        self.renew(stack)
        assert self.flavors() == ['2'] * 3
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert not old & self.held()
        assert len(self.held()) == 3
        assert self.size(stack) == 1
        self.start(stack)
        self.assert_servers(stack, 1, 2)

    def test_batches_need_no_more_room_than_they_have_members(self):
        for size in (1, 2):
            self.lease = self.leases.make(ALICE)
            stack = self.create(
                changed(GROUP, 'group', max_size=4), name=f's{size}',
                environment=stack_level(self.lease),
            )  # fmt: skip
            self.watch()
            self.renew(stack, max_size=4, rolling_updates={**self.POLICY, 'max_batch_size': size})
            assert max(self.seen) == 4 + size
            assert len(self.held()) == 4
            self.bus.meanwhile = self.leases.run
            self.delete(stack)

    def test_before_the_start_no_room_for_batches_is_needed(self):
        """Nobody is in service."""
        policy = {**self.POLICY, 'min_in_service': 3}
        stack = self.reserve_all(
            changed(GROUP, 'group', desired_capacity=3, rolling_updates=policy)
        )
        self.watch()
        self.renew(stack, desired_capacity=3, rolling_updates=policy)
        assert self.flavors() == ['2'] * 3
        assert max(self.seen) == 4

    def watch(self):
        self.seen = []
        self.bus.meanwhile = lambda: (
            self.seen.append(len(self.cloud.nova.servers)), self.leases.run(),
        )  # fmt: skip

    def test_after_the_start_spares_are_reserved_anew_and_who_runs_is_resized(self):
        stack = self.running(desired_capacity=2)
        wanted, (spare,) = self.wanted(stack), self.spares(stack)
        self.renew(stack, desired_capacity=2)
        assert self.wanted(stack) == wanted
        assert sorted(self.cloud.nova.changed('resize')) == sorted(wanted)
        assert self.flavors() == ['2'] * 3
        assert self.spares(stack) != [spare]
        self.assert_servers(stack, 2, 1)
        first = min(self.cloud.nova.changes.index(('resize', each)) for each in wanted)
        assert self.cloud.nova.changes.index(('delete', spare)) < first

    def test_without_room_for_the_spares_who_runs_is_untouched(self):
        stack = self.running(desired_capacity=2)
        wanted = self.wanted(stack)
        self.cloud.nova.full = True
        found = self.renew(stack, status='UPDATE_FAILED', desired_capacity=2)
        assert 'No valid host was found.' in found.status_reason
        assert sorted(self.by_status('ACTIVE')) == sorted(wanted)
        assert self.cloud.nova.changed('resize') == []
        self.cloud.nova.full = False
        self.renew(stack, desired_capacity=2)
        self.assert_servers(stack, 2, 1)
        assert self.flavors() == ['2'] * 3

    def test_members_that_heat_has_meanwhile_are_spares(self):
        policy = {**self.POLICY, 'min_in_service': 2}
        stack = self.running(desired_capacity=2, rolling_updates=policy)
        self.watch_running()
        self.renew(stack, desired_capacity=2, rolling_updates=policy)
        self.assert_servers(stack, 2, 1)
        assert self.flavors() == ['2'] * 3
        assert min(self.seen) == 2
        assert max(self.seen) == 3
        first_delete = min(
            self.cloud.nova.changes.index(('delete', each))
            for each in self.cloud.nova.changed('delete')
            if each in self.cloud.nova.changed('wake_up')
        )
        created = [
            place
            for place, (what, _) in enumerate(self.cloud.nova.changes)
            if what == 'create' and place > first_delete
        ]
        assert created == []

    def watch_running(self):
        self.seen = []
        self.bus.meanwhile = lambda: (
            self.seen.append(
                sum(
                    each['status'] in ('ACTIVE', 'RESIZE', 'VERIFY_RESIZE')
                    for each in self.cloud.nova.servers.values()
                )
            ),
            self.leases.run(),
        )

    def test_less_and_new_in_one_step(self):
        stack = self.running(desired_capacity=3)
        self.renew(stack, desired_capacity=1)
        self.assert_servers(stack, 1, 2)
        assert self.flavors() == ['2'] * 3

    def test_less_and_new_in_one_step_before_the_start(self):
        stack = self.reserve_all(changed(GROUP, 'group', desired_capacity=3))
        self.renew(stack, desired_capacity=1)
        assert self.size(stack) == 1
        assert self.flavors() == ['2'] * 3
        assert len(self.held()) == 3
