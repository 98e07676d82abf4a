# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack before the start of its lease.

Which test is for which row of the table in the user's guide: see test_documents.
"""

import datetime

from oslo_config import cfg

from tests.functional.heat.templates import PAIR, SERVER, added, changed, stack_level
from tests.functional.heat.updated import PLAIN, UpdateTest, ported, with_second
from tests.functional.heat.users import ALICE


class TestBeforeTheStart(UpdateTest):
    def test_nothing_new_wakes_nothing(self):
        stack = self.reserve_all()
        changes = self.changes()
        self.change(stack, PAIR)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.changes() == changes

    def test_what_is_added_is_reserved(self):
        stack = self.reserve_all(PLAIN)
        self.change(stack, with_second(PLAIN))
        assert self.cloud.nova.statuses() == ['RESERVED', 'RESERVED']
        assert self.held() == set(self.ids(stack, 'server', 'second'))
        assert self.wakes() == []

    def test_what_is_taken_out_is_freed(self):
        stack = self.reserve_all(with_second(PLAIN))
        self.change(stack, PLAIN)
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.held() == set(self.ids(stack, 'server'))

    def test_without_room_what_was_reserved_stays(self):
        stack = self.reserve_all(PLAIN)
        (server,) = self.ids(stack, 'server')
        self.cloud.nova.full = True
        found = self.change(stack, with_second(PLAIN), status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.cloud.nova.servers[server]['status'] == 'RESERVED'

    def test_without_room_a_rollback_takes_back_all(self):
        """All or nothing is what heat's rollback is for."""
        stack = self.reserve_all(PLAIN)
        (server,) = self.ids(stack, 'server')
        template = with_second(PLAIN)
        volume = {'size': 1}
        template = added(template, 'extra', 'OS::Cinder::Volume', **volume)
        self.cloud.nova.full = True
        self.change(stack, template, status='ROLLBACK_COMPLETE', args={'disable_rollback': False})
        assert self.held() == {server}
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert not self.cloud.cinder.volumes
        self.cloud.nova.full = False
        self.start(stack)
        assert self.wakes() == [server]

    def test_what_was_taken_out_comes_back_in_a_rollback(self):
        """Heat deletes what nothing depends on at once, and not after all that is to be made."""
        stack = self.reserve_all(with_second(PLAIN))
        server, second = self.ids(stack, 'server', 'second')
        template = added(PLAIN, 'third', 'OS::Nova::Server', **SERVER)
        self.cloud.nova.faults.append(('POST', '/servers$', 400))
        self.change(stack, template, status='ROLLBACK_COMPLETE', args={'disable_rollback': False})
        assert second not in self.cloud.nova.servers
        assert self.held() == {server, *self.ids(stack, 'second')}
        assert self.cloud.nova.statuses() == ['RESERVED'] * 2

    def test_another_flavor_is_reserved_anew(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.change(stack, changed(PLAIN, 'server', flavor='m2'))
        (new,) = self.ids(stack, 'server')
        assert new != old
        assert self.held() == {new}
        assert self.cloud.nova.servers[new]['flavor'] == {'id': '2'}
        created = self.cloud.nova.changes.index(('create', new))
        assert created < self.cloud.nova.changes.index(('delete', old))

    def test_another_flavor_without_room_leaves_the_old_one(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.cloud.nova.full = True
        self.change(
            stack, changed(PLAIN, 'server', flavor='m2'), status='ROLLBACK_COMPLETE',
            args={'disable_rollback': False},
        )  # fmt: skip
        assert self.ids(stack, 'server') == [old]
        assert self.held() == {old}
        assert self.cloud.nova.statuses() == ['RESERVED']

    def test_another_image_is_reserved_anew(self):
        stack = self.reserve_all(PLAIN)
        self.change(stack, changed(PLAIN, 'server', image='fedora'))
        (server,) = self.cloud.nova.servers.values()
        assert server['image'] == {'id': 'fedora'}
        assert server['status'] == 'RESERVED'

    def test_other_user_data_are_reserved_anew(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.change(stack, changed(PLAIN, 'server', user_data='echo'))
        (new,) = self.ids(stack, 'server')
        assert self.cloud.nova.changes == [('create', old), ('create', new), ('delete', old)]
        assert self.held() == {new}
        ignored = changed(PLAIN, 'server', user_data='ls', user_data_update_policy='IGNORE')
        self.change(stack, ignored)
        assert self.ids(stack, 'server') == [new]

    def test_a_larger_volume_is_reserved_anew_with_its_server(self):
        stack = self.reserve_all()
        old = self.ids(stack, 'disk', 'server')
        self.change(stack, changed(PAIR, 'disk', size=5))
        disk, server = self.ids(stack, 'disk', 'server')
        assert disk not in old
        assert server not in old
        assert self.held() == {disk, server}
        assert self.cloud.cinder.volumes[disk]['size'] == 5
        assert self.cloud.nova.servers[server]['volumes'] == [disk]

    def test_a_server_with_volumes_is_freed_first(self):
        """Its volume can only be one server's."""
        stack = self.reserve_all()
        disk, old = self.ids(stack, 'disk', 'server')
        self.change(stack, changed(PAIR, 'server', flavor='m2'))
        _, new = self.ids(stack, 'disk', 'server')
        assert self.held() == {disk, new}
        assert self.cloud.nova.servers[new]['volumes'] == [disk]
        created = self.cloud.nova.changes.index(('create', new))
        assert created > self.cloud.nova.changes.index(('delete', old))

    def test_a_server_with_volumes_comes_back_in_a_rollback(self):
        stack = self.reserve_all()
        disk, old = self.ids(stack, 'disk', 'server')
        template = changed(PAIR, 'server', flavor='m2')
        self.cloud.nova.faults.append(('POST', '/servers$', 400))
        self.change(stack, template, status='ROLLBACK_COMPLETE', args={'disable_rollback': False})
        _, new = self.ids(stack, 'disk', 'server')
        assert new != old
        assert self.held() == {disk, new}
        assert self.cloud.nova.servers[new]['flavor'] == {'id': '1'}
        assert self.cloud.nova.statuses() == ['RESERVED']

    def test_a_server_with_a_port_comes_back_in_a_rollback(self):
        template = ported(PLAIN)
        stack = self.reserve_all(template)
        port, old = self.ids(stack, 'port', 'server')
        self.cloud.nova.faults.append(('POST', '/servers$', 400))
        template = changed(template, 'server', flavor='m2')
        self.change(stack, template, status='ROLLBACK_COMPLETE', args={'disable_rollback': False})
        _, new = self.ids(stack, 'port', 'server')
        assert new != old
        assert self.held() == {new}
        assert self.cloud.neutron.records['ports'][port]['device_id'] == new
        assert self.cloud.nova.changed('plug') == self.cloud.nova.changed('unplug') == []

    def test_a_server_with_a_port_is_freed_first(self):
        template = ported(PLAIN)
        stack = self.reserve_all(template)
        (port,) = self.ids(stack, 'port')
        self.change(stack, changed(template, 'server', flavor='m2'))
        (new,) = self.ids(stack, 'server')
        assert self.held() == {new}
        assert self.cloud.neutron.records['ports'][port]['device_id'] == new

    def test_a_rollback_frees_the_server_that_took_the_place(self):
        before = added(PAIR, 'extra', 'OS::Cinder::Volume', size=1)
        before['resources']['extra']['depends_on'] = 'server'
        stack = self.reserve_all(before)
        disk, extra = self.ids(stack, 'disk', 'extra')
        template = changed(changed(before, 'server', flavor='m2'), 'extra', size=2)
        self.cloud.cinder.faults.append(('POST', '/volumes$', 400))
        self.change(stack, template, status='ROLLBACK_COMPLETE', args={'disable_rollback': False})
        _, new = self.ids(stack, 'disk', 'server')
        assert self.held() == {disk, extra, new}
        assert self.cloud.nova.servers[new]['flavor'] == {'id': '1'}
        assert list(self.cloud.nova.servers) == [new]

    def test_another_port_is_reserved_anew(self):
        template = ported(PLAIN)
        stack = self.reserve_all(template)
        (port,) = self.ids(stack, 'port')
        self.change(stack, ported(template, 'extra'))
        (server,) = self.ids(stack, 'server')
        assert self.held() == {server}
        assert self.plugged(server) == {port, *self.ids(stack, 'extra')}
        self.change(stack, template)
        (server,) = self.ids(stack, 'server')
        assert self.held() == {server}
        assert self.plugged(server) == {port}
        assert self.cloud.nova.statuses() == ['RESERVED']

    def test_a_name_changes_in_the_sleep(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        template = changed(PAIR, 'server', name='web', tags=['a', 'b'])
        template = changed(template, 'disk', name='data', metadata={'x': 'y'}, read_only=True)
        self.change(stack, template)
        assert self.ids(stack, 'disk', 'server') == before
        disk, server = (
            self.cloud.cinder.volumes[before[0]], self.cloud.nova.servers[before[1]],
        )  # fmt: skip
        assert (disk['name'], disk['metadata'], disk['status']) == (
            'data', {'x': 'y'}, 'lease-reserved',
        )  # fmt: skip
        assert (server['name'], server['status'], server['tags']) == ('web', 'RESERVED', [])
        self.start(stack)
        assert server['tags'] == ['a', 'b']
        assert self.cloud.cinder.changed('os-update_readonly_flag') == [before[0]]

    def test_what_changes_with_the_wake_up_is_done_after_it(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        self.leases.start(self.lease)
        template = changed(PAIR, 'server', name='web', tags=['a'])
        self.change(stack, changed(template, 'disk', name='data', read_only=True))
        disk, server = before
        assert self.wakes() == before
        assert self.cloud.nova.servers[server]['tags'] == ['a']
        assert self.cloud.nova.servers[server]['name'] == 'web'
        assert self.cloud.cinder.volumes[disk]['name'] == 'data'
        assert self.cloud.cinder.changed('os-update_readonly_flag') == [disk]

    def test_metadata_that_change_with_the_wake_up_are_written_after_it(self):
        stack = self.reserve_all(PLAIN)
        before = self.ids(stack, 'server')
        self.leases.start(self.lease)
        self.change(stack, changed(PLAIN, 'server', metadata={'role': 'web'}))
        assert self.ids(stack, 'server') == before
        assert self.wakes() == before
        assert self.cloud.nova.servers[before[0]]['metadata'] == {'role': 'web'}

    def test_what_is_made_anew_with_the_wake_up_takes_the_place_of_the_old(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.leases.start(self.lease)
        self.change(stack, changed(PLAIN, 'server', user_data='echo'))
        (new,) = self.ids(stack, 'server')
        assert self.cloud.nova.changes == [
            ('create', old), ('delete', old), ('create', new), ('wake_up', new),
        ]  # fmt: skip

    def test_metadata_of_a_server_is_reserved_anew(self):
        """Nova does not change those of a server that has never run."""
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.change(stack, changed(PLAIN, 'server', metadata={'role': 'web'}))
        (server,) = self.cloud.nova.servers.values()
        assert server['id'] != old
        assert server['metadata'] == {'role': 'web'}

    def test_another_lease_is_refused(self):
        """The stack is one reservation, and its lease would take it away at its end."""
        stack = self.reserve_all()
        before, changes = self.ids(stack, 'disk', 'server'), self.changes()
        other = self.leases.make(ALICE)
        environment = stack_level(other)
        found = self.change(stack, PAIR, status='UPDATE_FAILED', environment=environment)
        assert f'reserved in lease {self.lease} and cannot move to lease {other}' in (
            found.status_reason
        )
        assert self.changes() == changes
        assert self.held() == set(before)
        assert self.leases.members(other) == set()

    def test_no_lease_any_more_runs_all(self):
        stack = self.reserve_all()
        self.update(stack, PAIR)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.held() == set()
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.cloud.cinder.statuses() == ['available']

    def test_new_dates_keep_every_member(self):
        stack = self.reserve_all()
        before, changes = self.ids(stack, 'disk', 'server'), self.changes()
        self.set_dates(start=self.leases.now + datetime.timedelta(hours=5))
        self.patch_stack(stack)
        assert self.ids(stack, 'disk', 'server') == before
        assert self.changes() == changes
        self.start(stack)
        assert self.wakes() == before

    def test_what_was_deleted_beside_heat_is_reserved_again(self):
        stack = self.reserve_all(PLAIN)
        (old,) = self.ids(stack, 'server')
        self.cloud.nova.forget(old)
        self.change(stack, PLAIN)
        (new,) = self.ids(stack, 'server')
        assert new != old
        assert self.held() == {new}

    def test_observed_reality_changes_nothing(self):
        cfg.CONF.set_override('observe_on_update', True)
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        self.change(stack, PAIR)
        assert self.ids(stack, 'disk', 'server') == before
