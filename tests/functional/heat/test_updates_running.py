# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack whose lease has started.

Which test is for which row of the table in the user's guide: see test_documents.
"""

from tests.functional.heat.templates import PAIR, SERVER, added, changed, stack_level, without
from tests.functional.heat.updated import PLAIN, UpdateTest, ported, with_second
from tests.functional.heat.users import ALICE


class TestAfterTheStart(UpdateTest):
    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all(PLAIN)
        self.start(self.stack)

    def test_what_is_added_is_reserved_and_woken_at_once(self):
        self.change(self.stack, with_second(PLAIN))
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        server, second = self.ids(self.stack, 'server', 'second')
        assert self.held() == {server, second}
        assert self.wakes() == [server, second]

    def test_pair_that_is_added_is_woken_in_order(self):
        stack = self.create(PAIR, name='late', environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.wakes()[-1:] == self.ids(stack, 'server')
        assert self.cloud.cinder.changed('os-wake_up') == self.ids(stack, 'disk')
        assert self.outputs(stack)['status'] == 'available'

    def test_without_room_the_running_part_is_untouched(self):
        (server,) = self.ids(self.stack, 'server')
        before = self.cloud.nova.changes[:]
        self.cloud.nova.full = True
        found = self.change(self.stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.cloud.nova.servers[server]['status'] == 'ACTIVE'
        assert [each for each in self.cloud.nova.changes if each[1] == server] == before

    def test_what_was_taken_out_comes_back_in_a_rollback(self):
        self.change(self.stack, with_second(PLAIN))
        server, second = self.ids(self.stack, 'server', 'second')
        template = added(PLAIN, 'third', 'OS::Nova::Server', **SERVER)
        self.cloud.nova.faults.append(('POST', '/servers$', 400))
        rollback = {'disable_rollback': False}
        self.change(self.stack, template, status='ROLLBACK_COMPLETE', args=rollback)
        assert second not in self.cloud.nova.servers
        assert self.held() == {server, *self.ids(self.stack, 'second')}
        assert self.cloud.nova.statuses() == ['ACTIVE'] * 2

    def test_what_is_taken_out_is_freed(self):
        self.change(self.stack, without(PLAIN, 'server'))
        assert self.held() == set()
        assert not self.cloud.nova.servers

    def test_another_flavor_is_a_resize(self):
        before = self.ids(self.stack, 'server')
        self.change(self.stack, changed(PLAIN, 'server', flavor='m2'))
        assert self.ids(self.stack, 'server') == before
        assert self.cloud.nova.changed('resize') == before

    def test_another_image_is_a_rebuild(self):
        before = self.ids(self.stack, 'server')
        self.change(self.stack, changed(PLAIN, 'server', image='fedora'))
        assert self.ids(self.stack, 'server') == before
        assert self.cloud.nova.changed('rebuild') == before
        assert self.cloud.nova.servers[before[0]]['image'] == {'id': 'fedora'}
        assert self.held() == set(before)

    def test_what_heat_replaces_is_reserved_and_woken_before_the_old_one_goes(self):
        (old,) = self.ids(self.stack, 'server')
        policy = {'image_update_policy': 'REPLACE'}
        self.change(self.stack, changed(PLAIN, 'server', image='fedora', **policy))
        (new,) = self.ids(self.stack, 'server')
        assert self.cloud.nova.changes[-3:] == [
            ('create', new), ('wake_up', new), ('delete', old),
        ]  # fmt: skip
        assert self.held() == {new}

    def test_what_heat_replaces_gets_its_port_back_in_a_rollback(self):
        self.change(self.stack, ported(PLAIN))
        port, old = self.ids(self.stack, 'port', 'server')
        self.cloud.nova.full = True
        policy = {'image_update_policy': 'REPLACE'}
        self.change(
            self.stack, changed(ported(PLAIN), 'server', image='fedora', **policy),
            status='ROLLBACK_COMPLETE', args={'disable_rollback': False},
        )  # fmt: skip
        assert self.ids(self.stack, 'server') == [old]
        assert self.plugged(old) == {port}
        assert self.held() == {old}
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_another_port_changes_in_place(self):
        before = self.ids(self.stack, 'server')
        self.change(self.stack, ported(PLAIN))
        (port,) = self.ids(self.stack, 'port')
        assert self.ids(self.stack, 'server') == before
        assert self.plugged(before[0]) == {port}
        self.change(self.stack, ported(PLAIN, 'extra'))
        assert self.plugged(before[0]) == {port, *self.ids(self.stack, 'extra')}
        self.change(self.stack, ported(PLAIN))
        assert self.plugged(before[0]) == {port}
        assert self.ids(self.stack, 'server') == before
        assert self.held() == set(before)

    def test_other_metadata_change_in_place(self):
        before = self.ids(self.stack, 'server')
        self.change(self.stack, changed(PLAIN, 'server', metadata={'role': 'web'}))
        assert self.ids(self.stack, 'server') == before
        assert self.cloud.nova.servers[before[0]]['metadata'] == {'role': 'web'}

    def test_another_name_changes_in_place(self):
        before = self.ids(self.stack, 'server')
        self.change(self.stack, changed(PLAIN, 'server', name='web'))
        assert self.ids(self.stack, 'server') == before
        assert self.cloud.nova.servers[before[0]]['name'] == 'web'

    def test_a_larger_volume_is_extended(self):
        stack = self.create(PAIR, name='late', environment=stack_level(self.lease))
        before = self.ids(stack, 'disk', 'server')
        self.change(stack, changed(PAIR, 'disk', size=5))
        assert self.ids(stack, 'disk', 'server') == before
        assert self.cloud.cinder.changed('os-extend') == before[:1]

    def test_new_dates_keep_every_member(self):
        before, changes = self.ids(self.stack, 'server'), self.changes()
        self.set_dates()
        self.patch_stack(self.stack)
        assert self.ids(self.stack, 'server') == before
        assert self.changes() == changes

    def test_another_lease_changes_nothing_and_takes_nothing(self):
        before, changes = self.ids(self.stack, 'server'), self.changes()
        environment = stack_level(self.leases.make(ALICE))
        self.change(self.stack, PLAIN, environment=environment)
        assert self.changes() == changes
        found = self.change(
            self.stack, with_second(PLAIN), status='UPDATE_FAILED', environment=environment
        )
        assert f'already reserved by lease {self.lease}' in found.status_reason
        assert self.held() == set(before)
        assert self.changes() == changes

    def test_taking_out_the_lease_leaves_all_running(self):
        before = self.ids(self.stack, 'server')
        self.update(self.stack, PLAIN)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.ids(self.stack, 'server') == before
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_after_the_end_nothing_can_be_added(self):
        self.leases.end(self.lease)
        before = self.cloud.nova.changes[:]
        found = self.change(self.stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'to be joined' in found.status_reason
        assert self.cloud.nova.changes == before
