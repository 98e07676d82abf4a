# SPDX-License-Identifier: Apache-2.0
"""Members of nested stacks, and standby members among them."""

from heat_ext.stacks import paths
from tests.functional.heat.reserved import ReservedTest
from tests.support.stacks import INNER, OUTER, changed, stack_level


class TestNested(ReservedTest):
    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all(OUTER, files={'inner.yaml': INNER})

    def with_standby(self, *members):
        """Return the environment in which members of the group are standby members."""
        group = self.load(self.nested(self.stack, 'group')).name
        places = [f'{group}/{member}' for member in members]
        return stack_level(self.lease, climate_spares=places)

    def members(self, *names):
        """Ids of the servers of members of the group."""
        group = self.nested(self.stack, 'group')
        return {self.resource(self.nested(group, name), 'server').resource_id for name in names}

    def running(self):
        found = self.cloud.nova.servers.values()
        return {each['id'] for each in found if each['status'] == 'ACTIVE'}

    def test_tree_is_reserved_and_started_in_its_order(self):
        live = self.leases.get(self.lease).live
        params = {each.params.get('stack_id') for each in live if each.params.get('stack_id')}
        assert params == {self.stack}
        assert len(self.held()) == 7
        (last,) = self.ids(self.stack, 'last')
        self.start(self.stack)
        assert len(self.cloud.nova.changed('wake_up')) == 4
        assert self.cloud.nova.changed('wake_up')[-1] == last
        assert len(self.cloud.cinder.changed('os-wake_up')) == 3
        assert '' not in self.outputs(self.stack)['addresses']

    def test_standby_members_stay_reserved_and_are_woken_up_when_active(self):
        self.leases.start(self.lease)
        self.patch_stack(self.stack, environment=self.with_standby('1', '2'))
        (last,) = self.ids(self.stack, 'last')
        wanted = {*self.members('0'), last}
        assert self.running() == wanted
        assert len(self.cloud.cinder.changed('os-wake_up')) == 1
        self.check(self.stack)
        self.suspend(self.stack)
        self.resume(self.stack)
        assert self.running() == wanted
        self.patch_stack(self.stack, environment=self.with_standby('2'))
        assert self.running() == {*self.members('0', '1'), last}
        # One that is created after the start stays reserved, too.
        self.update(
            self.stack,
            changed(OUTER, 'group', count=4),
            environment=self.with_standby('3'),
            files={'inner.yaml': INNER},
        )
        assert self.running() == {*self.members('0', '1', '2'), last}
        assert self.members('3') <= self.held()
        self.delete(self.stack)
        self.assert_nothing_left()

    def test_failed_wake_up_in_a_nested_stack_is_repeated_by_the_next_update(self):
        group = self.nested(self.stack, 'group')
        member = self.nested(group, '1')
        names = [self.load(each).name for each in (self.stack, group, member)]
        assert paths.list_places(self.load(member), 'server') == {
            f'{names[0]}/group', f'{names[1]}/1', f'{names[2]}/server',
        }  # fmt: skip
        assert paths.list_places(self.load(self.stack), 'last') == {f'{names[0]}/last'}
        (broken,) = self.members('1')
        self.cloud.nova.servers[broken].update(failures=1, sleeps_on=True)
        self.start(self.stack, 'UPDATE_FAILED')
        assert 'could not be started' in self.reason(self.stack)
        awake = self.running()
        self.patch_stack(self.stack)
        assert awake < self.running()
        assert len(self.running()) == 4
