# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack before the start of its lease."""

import datetime

from oslo_config import cfg

from tests.functional.heat.reserved import NO_SERVER, NO_VOLUME, ReservedTest, guide_row
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    PAIR,
    PLAIN,
    added,
    changed,
    ported,
    server,
    stack_level,
    volume,
    with_second,
)


class TestBeforeTheStart(ReservedTest):
    @guide_row('changes nothing', 'before')
    def test_same_template_changes_nothing(self):
        stack = self.reserve_all()
        changes = self.changes()
        self.change(stack, PAIR)
        self.patch_stack(stack)
        cfg.CONF.set_override('observe_on_update', True)
        self.change(stack, PAIR)
        assert self.changes() == changes

    @guide_row('adds a server or volume', 'before')
    @guide_row('removes one', 'before')
    def test_added_server_is_reserved_and_removed_one_is_deleted(self):
        stack = self.reserve_all(PLAIN)
        self.change(stack, with_second(PLAIN))
        assert self.statuses() == ['RESERVED', 'RESERVED']
        assert self.held() == set(self.ids(stack, 'server', 'second'))
        assert self.wakes() == []
        self.change(stack, PLAIN)
        assert self.statuses() == ['RESERVED']
        assert self.held() == set(self.ids(stack, 'server'))

    @guide_row('adds one without capacity', 'before')
    @guide_row('another flavor, image or size', 'before')
    def test_server_without_room_fails_or_rolls_back_and_keeps_the_others(self):
        stack = self.reserve_all(PLAIN)
        self.cloud.nova.full = True
        found = self.change(stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.record(stack, 'server')['status'] == 'RESERVED'
        self.delete(stack)
        self.cloud.nova.full = False
        # With a rollback, which Heat remembers.
        stack = self.reserve_all(PLAIN)
        before = self.ids(stack, 'server')
        self.cloud.nova.full = True
        self.change(stack, changed(PLAIN, 'server', flavor='m2'), rollback=True)
        assert self.ids(stack, 'server') == before
        self.change(stack, added(with_second(PLAIN), extra=volume(size=1)), rollback=True)
        assert self.held() == set(before)
        assert self.statuses() == ['RESERVED']
        self.cloud.nova.full = False
        self.start(stack)
        assert self.wakes() == before

    @guide_row('removes one, and fails', 'before')
    def test_removed_server_is_reserved_again_by_a_rollback(self):
        """Heat deletes what nothing depends on at once, and not after all that is created."""
        stack = self.reserve_all(with_second(PLAIN))
        first, second = self.ids(stack, 'server', 'second')
        self.cloud.nova.faults.append(NO_SERVER)
        self.change(stack, added(PLAIN, third=server()), rollback=True)
        assert second not in self.cloud.nova.servers
        assert self.held() == {first, *self.ids(stack, 'second')}
        assert self.statuses() == ['RESERVED'] * 2

    @guide_row('another flavor, image or size', 'before')
    @guide_row('a change that replaces it', 'before')
    @guide_row('other metadata', 'before')
    def test_other_property_reserves_a_new_server_and_then_deletes_the_old(self):
        stack = self.reserve_all(PLAIN)
        for properties, shown in (
            ({'flavor': 'm2'}, {'flavor': {'id': '2'}}),
            ({'image': 'fedora'}, {'image': {'id': 'fedora'}}),
            ({'user_data': 'echo'}, {}),
            # Nova does not change those of a server that has never run.
            ({'metadata': {'role': 'web'}}, {'metadata': {'role': 'web'}}),
        ):
            (old,) = self.ids(stack, 'server')
            self.change(stack, changed(PLAIN, 'server', **properties))
            (new,) = self.ids(stack, 'server')
            assert new != old
            assert self.held() == {new}
            assert self.cloud.nova.changes[-2:] == [('create', new), ('delete', old)]
            assert self.record(stack, 'server').items() >= {'status': 'RESERVED', **shown}.items()
        ignored = {'user_data': 'ls', 'user_data_update_policy': 'IGNORE'}
        self.change(stack, changed(PLAIN, 'server', **properties, **ignored))
        assert self.ids(stack, 'server') == [new]

    @guide_row('another flavor, image or size', 'before')
    def test_larger_volume_is_reserved_anew_with_its_server(self):
        stack = self.reserve_all()
        old = self.ids(stack, 'disk', 'server')
        self.change(stack, changed(PAIR, 'disk', size=5))
        new = self.ids(stack, 'disk', 'server')
        assert self.held() == set(new)
        assert not set(new) & set(old)
        assert self.record(stack, 'disk')['size'] == 5
        assert self.record(stack, 'server')['volumes'] == new[:1]

    @guide_row('another flavor, image or size', 'before')
    def test_server_with_a_volume_or_port_is_deleted_before_its_replacement_is_reserved(self):
        """A volume or port can only belong to one server, also in a rollback."""
        for template in (PAIR, ported(PLAIN)):
            stack = self.reserve_all(template)
            (old,) = self.ids(stack, 'server')
            others = self.held() - {old}
            other = changed(template, 'server', flavor='m2')
            for rollback in (False, True):
                if rollback:
                    self.cloud.nova.faults.append(NO_SERVER)
                self.change(stack, template if rollback else other, rollback=rollback)
                (new,) = self.ids(stack, 'server')
                self.assert_order(('delete', old), ('create', new))
                assert self.held() == {new, *others}
                found = self.record(stack, 'server')
                assert (found['flavor'], found['status']) == ({'id': '2'}, 'RESERVED')
                assert set(found['volumes']) == others
                old = new
            assert self.cloud.nova.changed('plug') == self.cloud.nova.changed('unplug') == []
            if not others:
                assert self.plugged(new) == set(self.ids(stack, 'port'))
            self.delete(stack)

    def test_replacement_is_deleted_by_a_rollback(self):
        before = added(PAIR, extra={**volume(size=1), 'depends_on': 'server'})
        stack = self.reserve_all(before)
        disk, extra = self.ids(stack, 'disk', 'extra')
        self.cloud.cinder.faults.append(NO_VOLUME)
        template = changed(changed(before, 'server', flavor='m2'), 'extra', size=2)
        self.change(stack, template, rollback=True)
        (new,) = self.ids(stack, 'server')
        assert self.held() == {disk, extra, new}
        assert self.record(stack, 'server')['flavor'] == {'id': '1'}
        assert list(self.cloud.nova.servers) == [new]

    @guide_row('other ports or networks', 'before')
    def test_other_ports_reserve_a_new_server(self):
        template = ported(PLAIN)
        stack = self.reserve_all(template)
        for after, ports in (
            (ported(template, 'extra'), ('port', 'extra')),
            (template, ('port',)),
        ):
            before = self.ids(stack, 'server')
            self.change(stack, after)
            (new,) = self.ids(stack, 'server')
            assert new not in before
            assert self.held() == {new}
            assert self.plugged(new) == set(self.ids(stack, *ports))
        assert self.statuses() == ['RESERVED']

    @guide_row('another name', 'before')
    def test_name_changes_while_reserved_and_the_rest_after_the_start(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        template = changed(PAIR, 'server', name='web', tags=['a', 'b'])
        template = changed(template, 'disk', name='data', metadata={'x': 'y'}, read_only=True)
        self.change(stack, template)
        assert self.ids(stack, 'disk', 'server') == before
        disk, found = self.record(stack, 'disk'), self.record(stack, 'server')
        assert (disk['name'], disk['metadata']) == ('data', {'x': 'y'})
        assert (found['name'], found['tags']) == ('web', [])
        assert self.statuses() == ['RESERVED', 'lease-reserved']
        self.start(stack)
        assert found['tags'] == ['a', 'b']
        assert self.cloud.cinder.changed('os-update_readonly_flag') == before[:1]

    def test_changes_of_the_waking_update_are_made_after_the_start(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        self.leases.start(self.lease)
        template = changed(PAIR, 'server', name='web', tags=['a'], metadata={'role': 'web'})
        self.change(stack, changed(template, 'disk', name='data', read_only=True))
        assert self.ids(stack, 'disk', 'server') == self.wakes() == before
        found = self.record(stack, 'server')
        assert (found['name'], found['tags'], found['metadata']) == ('web', ['a'], {'role': 'web'})
        assert self.record(stack, 'disk')['name'] == 'data'
        assert self.cloud.cinder.changed('os-update_readonly_flag') == before[:1]

    def test_replacement_of_the_waking_update_takes_the_place_of_the_old_server(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.leases.start(self.lease)
        self.change(stack, changed(PLAIN, 'server', user_data='echo'))
        (new,) = self.ids(stack, 'server')
        assert self.cloud.nova.changes == [
            ('create', old), ('delete', old), ('create', new), ('wake_up', new),
        ]  # fmt: skip

    @guide_row('new dates of the lease', 'before')
    @guide_row('another lease', 'before')
    @guide_row('removes the lease', 'before')
    def test_another_lease_is_refused_and_without_one_everything_runs(self):
        """The stack is one reservation, and its lease would delete it at its end."""
        stack = self.reserve_all()
        before, changes = self.ids(stack, 'disk', 'server'), self.changes()
        self.set_dates(start=self.leases.now + datetime.timedelta(hours=5))
        self.patch_stack(stack)
        assert self.ids(stack, 'disk', 'server') == before
        other = self.leases.make(ALICE)
        found = self.change(stack, PAIR, status='UPDATE_FAILED', environment=stack_level(other))
        reason = f'reserved in lease {self.lease} and cannot move to lease {other}'
        assert reason in found.status_reason
        assert self.changes() == changes
        assert self.held() == set(before)
        assert self.leases.members(other) == set()
        self.update(stack, PAIR)
        assert self.held() == set()
        assert self.statuses() == ['ACTIVE', 'available']

    def test_server_deleted_without_heat_is_reserved_again(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.cloud.nova.forget(old)
        self.change(stack, PLAIN)
        (new,) = self.ids(stack, 'server')
        assert new != old
        assert self.held() == {new}
