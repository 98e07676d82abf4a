# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack whose lease has started."""

from tests.functional.heat.reserved import NO_SERVER, ReservedTest, guide_row
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    PAIR,
    PLAIN,
    added,
    changed,
    ported,
    server,
    stack_level,
    with_second,
    without,
)

REPLACED = changed(PLAIN, 'server', image='fedora', image_update_policy='REPLACE')


class TestAfterTheStart(ReservedTest):
    def setUp(self):
        super().setUp()
        self.stack = self.started(PLAIN)
        self.before = self.ids(self.stack, 'server')
        (self.server,) = self.before

    @guide_row('adds a server or volume', 'after')
    @guide_row('removes one', 'after')
    def test_added_server_is_woken_up_and_removed_one_is_deleted(self):
        self.change(self.stack, with_second(PLAIN))
        assert self.statuses() == ['ACTIVE', 'ACTIVE']
        (second,) = self.ids(self.stack, 'second')
        assert self.held() == {self.server, second}
        assert self.wakes() == [self.server, second]
        self.change(self.stack, PLAIN)
        assert (self.statuses(), self.held()) == (['ACTIVE'], {self.server})
        self.change(self.stack, without(PLAIN, 'server'))
        self.assert_nothing_left()

    @guide_row('adds a server or volume', 'after')
    @guide_row('another flavor, image or size', 'after')
    def test_added_pair_is_woken_up_in_order_and_its_volume_is_extended(self):
        stack = self.reserve_all(name='late')
        before = self.ids(stack, 'disk', 'server')
        assert self.wakes() == [before[0], self.server, before[1]]
        assert self.outputs(stack)['status'] == 'available'
        self.change(stack, changed(PAIR, 'disk', size=5))
        assert self.ids(stack, 'disk', 'server') == before
        assert self.cloud.cinder.changed('os-extend') == before[:1]

    @guide_row('adds one without capacity', 'after')
    def test_added_server_without_room_fails_and_keeps_the_running_one(self):
        before = self.cloud.nova.changes[:]
        self.cloud.nova.full = True
        found = self.change(self.stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.record(self.stack, 'server')['status'] == 'ACTIVE'
        assert [each for each in self.cloud.nova.changes if each[1] == self.server] == before

    @guide_row('removes one, and fails', 'after')
    def test_removed_server_is_created_again_by_a_rollback(self):
        self.change(self.stack, with_second(PLAIN))
        (second,) = self.ids(self.stack, 'second')
        self.cloud.nova.faults.append(NO_SERVER)
        self.change(self.stack, added(PLAIN, third=server()), rollback=True)
        assert second not in self.cloud.nova.servers
        assert self.held() == {self.server, *self.ids(self.stack, 'second')}
        assert self.statuses() == ['ACTIVE'] * 2

    @guide_row('another flavor, image or size', 'after')
    @guide_row('other metadata', 'after')
    @guide_row('another name', 'after')
    def test_other_property_changes_in_place(self):
        for properties, action, shown in (
            ({'flavor': 'm2'}, 'resize', {'flavor': {'id': '2'}}),
            ({'image': 'fedora'}, 'rebuild', {'image': {'id': 'fedora'}}),
            ({'metadata': {'role': 'web'}}, None, {'metadata': {'role': 'web'}}),
            ({'name': 'web'}, None, {'name': 'web'}),
        ):
            self.cloud.nova.changes.clear()
            self.stack_template = changed(self.stack_template, 'server', **properties)
            self.change(self.stack, self.stack_template)
            assert self.ids(self.stack, 'server') == self.before
            assert self.cloud.nova.changed(action) == (self.before if action else [])
            assert self.record(self.stack, 'server').items() >= shown.items()
            assert self.held() == {self.server}

    stack_template = PLAIN

    @guide_row('a change that replaces it', 'after')
    def test_replacement_is_reserved_and_woken_up_before_the_old_server_is_deleted(self):
        self.change(self.stack, REPLACED)
        (new,) = self.ids(self.stack, 'server')
        assert self.cloud.nova.changes[-3:] == [
            ('create', new), ('wake_up', new), ('delete', self.server),
        ]  # fmt: skip
        assert self.held() == {new}

    def test_replaced_server_gets_its_port_back_in_a_rollback(self):
        self.change(self.stack, ported(PLAIN))
        self.cloud.nova.full = True
        self.change(self.stack, ported(REPLACED), rollback=True)
        assert self.ids(self.stack, 'server') == self.before
        assert self.plugged(self.server) == set(self.ids(self.stack, 'port'))
        assert self.held() == {self.server}
        assert self.statuses() == ['ACTIVE']

    @guide_row('other ports or networks', 'after')
    def test_other_ports_change_in_place(self):
        for names in (['port'], ['port', 'extra'], ['port']):
            self.change(self.stack, ported(PLAIN, *names[1:]))
            assert self.ids(self.stack, 'server') == self.before
            assert self.plugged(self.server) == set(self.ids(self.stack, *names))
        assert self.held() == {self.server}

    @guide_row('new dates of the lease', 'after')
    @guide_row('another lease', 'after')
    @guide_row('removes the lease', 'after')
    def test_new_dates_or_another_or_no_lease_keep_everything_running(self):
        changes = self.changes()
        self.set_dates()
        self.patch_stack(self.stack)
        assert self.ids(self.stack, 'server') == self.before
        environment = stack_level(self.leases.make(ALICE))
        self.change(self.stack, PLAIN, environment=environment)
        found = self.change(
            self.stack, with_second(PLAIN), status='UPDATE_FAILED', environment=environment
        )
        assert f'already reserved by lease {self.lease}' in found.status_reason
        assert self.held() == {self.server}
        assert self.changes() == changes
        self.update(self.stack, PLAIN)
        assert self.ids(self.stack, 'server') == self.before
        assert self.statuses() == ['ACTIVE']

    def test_nothing_can_be_added_after_the_end(self):
        self.leases.end(self.lease)
        before = self.cloud.nova.changes[:]
        found = self.change(self.stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'to be joined' in found.status_reason
        assert self.cloud.nova.changes == before
