# SPDX-License-Identifier: Apache-2.0
"""Actions of a reserved stack before, during and after its wake-up."""

import copy
import json

import pytest
from heat.common import exception
from heat.engine.resources.openstack.nova import server as nova_server
from oslo_config import cfg

from tests.functional.heat.reserved import ReservedTest, SlowEngines
from tests.functional.heat.users import ALICE
from tests.support.stacks import PAIR, changed


class PhaseTest(ReservedTest):
    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all()
        self.members = self.ids(self.stack, 'disk', 'server')
        self.before = self.changes()
        self.networks = self.cloud.neutron.changes[:]

    def assert_untouched(self):
        assert self.changes() == self.before
        assert self.statuses() == ['RESERVED', 'lease-reserved']


class TestReserved(PhaseTest):
    def test_check_suspend_resume_and_snapshot_touch_nothing(self):
        for action in (self.check, self.suspend, self.resume):
            action(self.stack)
            self.assert_untouched()
        made = self.snapshot(self.stack)
        self.assert_stack(self.stack, 'SNAPSHOT_COMPLETE')
        self.assert_untouched()
        self._do('stack_restore', self.stack, made['id'], status='RESTORE_COMPLETE')
        assert self.ids(self.stack, 'disk', 'server') == self.members
        self.assert_untouched()
        self.start(self.stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_delete_after_an_earlier_abandoned_traversal_leaves_nothing(self):
        self.resource(self.stack, 'server').data_set('climate_abandoned', 'an earlier traversal')
        self.delete(self.stack)
        self.assert_nothing_left()

    def test_adopted_stack_finds_what_the_lease_service_woke_up(self):
        left = self.abandon(self.stack)
        assert not self.exists(self.stack)
        self.assert_untouched()
        assert left['resources']['server']['resource_data']['climate_lease'] == self.lease
        stack = self.adopt(left)
        self.leases.start(self.lease)
        for volume in self.cloud.cinder.volumes.values():
            volume['status'] = 'available'
        self.patch_stack(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.outputs(stack)['status'] == 'available'

    def test_adopted_stack_with_another_lease_wakes_up_nothing(self):
        other = self.leases.make(ALICE, start_date=self.leases.later(minutes=1))
        left = self.abandon(self.stack)
        for each in left['resources'].values():
            each['resource_data'] = {'climate_lease': other}
        left['environment']['parameter_defaults'] = {'climate_lease_id': other}
        stack = self.adopt(left)
        self.leases.start(other)
        self.patch_stack(stack, status=None)
        self.assert_untouched()

    def adopt(self, left):
        cfg.CONF.set_override('enable_stack_adopt', True)
        text = json.dumps({key: left[key] for key in left if key != 'files'})
        return self.create(
            left['template'], name='adopted', environment=left['environment'],
            args={'adopt_stack_data': text}, status='ADOPT_COMPLETE',
        )  # fmt: skip

    def test_attributes_can_be_read_and_delete_with_the_policy_snapshot_takes_none(self):
        template = copy.deepcopy(PAIR)
        for name in nova_server.Server.attributes_schema:
            if name not in ('console_urls', 'show', 'os_collect_config', 'tags', 'addresses'):
                template['outputs'][name] = {'value': {'get_attr': ['server', name]}}
        for name in ('disk', 'server'):
            template['resources'][name]['deletion_policy'] = 'Snapshot'
        cfg.CONF.set_override('backups_enabled', True, group='volumes')
        stack = self.reserve_all(template, name='other')
        (port,) = self.cloud.nova.addresses(self.ids(stack, 'server')[0])
        assert self.outputs(stack)['networks'] == {'private': [port]}
        assert self.outputs(stack)['first_address'] == port
        self.delete(stack)


class TestDuringTheWakeUp(PhaseTest):
    def during(self, do, status='UPDATE_COMPLETE'):
        """Do something while a server is being started."""
        self.while_waiting(do, until=lambda: self.cloud.nova.changed('wake_up'))
        self.start(self.stack, status)

    def begun(self, action):
        """Return how often heat has begun to do something with the stack."""
        told = [status for name, status, _ in self.events(self.stack) if name == 'stack1']
        return told.count(f'{action}_IN_PROGRESS')

    def test_delete_leaves_nothing(self):
        self.during(lambda: self.delete(self.stack, run=False), status=None)
        assert not self.exists(self.stack)
        self.assert_nothing_left()

    def test_delete_waits_for_a_volume_that_is_being_created(self):
        disk, server = self.members
        self.cloud.nova.servers[server]['volumes'] = []
        volume = self.cloud.cinder.volumes[disk]
        volume.update(status='creating', next=['creating'] * 12 + ['available'])
        self.delete(self.stack)
        self.assert_nothing_left()

    def act_meanwhile(self, action, undo=None, status=None, **kwargs):
        """Check that everything runs after the next update, and was woken up once."""
        self.during(lambda: action(self.stack, run=False, **kwargs), status)
        self.bus.meanwhile = self.leases.run
        if undo is not None:
            undo(self.stack, status=None)
        self.patch_stack(self.stack)
        self.assert_woken_up_once()

    def assert_woken_up_once(self):
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.ids(self.stack, 'disk', 'server') == self.wakes() == self.members

    def test_cancelled_update_is_completed_by_the_next(self):
        self.act_meanwhile(self.cancel, status='UPDATE_FAILED')

    def test_cancelled_update_that_is_rolled_back_starts_everything(self):
        """The stack before the update is one whose lease has started, too."""
        self.act_meanwhile(self.cancel, status='ROLLBACK_COMPLETE', rollback=True)

    def test_cancelled_update_rolls_back_its_other_changes(self):
        self.leases.start(self.lease)
        self.while_waiting(
            lambda: self.cancel(self.stack, rollback=True, run=False),
            until=lambda: self.cloud.nova.changed('wake_up'),
        )
        template = changed(PAIR, 'server', metadata={'a': 'b'})
        self.change(self.stack, template, status='ROLLBACK_COMPLETE')
        self.assert_woken_up_once()
        assert self.record(self.stack, 'server')['metadata'] == {}

    def test_check_wakes_up_nothing_twice(self):
        self.act_meanwhile(self.check)
        assert self.begun('CHECK') == 1

    def test_suspend_wakes_up_nothing_twice(self):
        self.act_meanwhile(self.suspend, undo=self.resume)
        assert self.begun('SUSPEND') == 1

    def test_abandon_keeps_everything(self):
        self.assert_abandon_keeps_everything()

    def test_abandon_while_an_engine_is_slow_keeps_everything(self):
        self.useFixture(SlowEngines())
        self.assert_abandon_keeps_everything()

    def assert_abandon_keeps_everything(self):
        left = []
        self.during(lambda: left.append(self.abandon(self.stack, run=False)), status=None)
        assert not self.exists(self.stack)
        assert left[0]['resources']['server']['resource_id'] == self.members[1]
        assert [each for each in self.changes() if each[0] == 'delete'] == []
        assert self.cloud.neutron.changes == self.networks
        assert self.wakes() == self.members

    def test_snapshot_is_refused_by_heat_and_a_preview_changes_nothing(self):
        def refused():
            self.preview(PAIR, name='other')
            with pytest.raises(exception.ActionInProgress):
                self.snapshot(self.stack, run=False)

        self.during(refused)
        assert self.begun('SNAPSHOT') == 0
        self.assert_woken_up_once()

    def test_second_update_wakes_up_nothing_twice(self):
        """The lease service requests it again when its manager has died."""
        self.during(lambda: self.patch_stack(self.stack, run=False))
        assert self.begun('UPDATE') == 2
        self.assert_woken_up_once()


class TestStarted(PhaseTest):
    def setUp(self):
        super().setUp()
        self.start(self.stack)

    def test_check_suspend_resume_and_delete_are_heats_own(self):
        self.check(self.stack)
        self.suspend(self.stack)
        assert self.cloud.nova.statuses() == ['SUSPENDED']
        self.resume(self.stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        self.delete(self.stack)
        self.assert_nothing_left()

    def test_abandoned_stack_says_nothing_of_a_lease(self):
        left = self.abandon(self.stack)
        assert 'climate_lease' not in left['resources']['server']['resource_data']
        assert self.cloud.nova.statuses() == ['ACTIVE']


class TestNotWokenUp(PhaseTest):
    """The lease has started, and nobody has woken up the stack yet."""

    def setUp(self):
        super().setUp()
        self.leases.start(self.lease)

    def test_check_fails_and_the_update_wakes_up_and_then_replaces_what_is_in_error(self):
        found = self.check(self.stack, status='CHECK_FAILED')
        assert "got 'lease-reserved'" in found.status_reason
        self.patch_stack(self.stack)
        assert self.ids(self.stack, 'disk', 'server') == self.wakes() == self.members
        server = self.record(self.stack, 'server')
        server['status'] = 'ERROR'
        self.check(self.stack, status='CHECK_FAILED')
        server['volumes'] = []
        self.patch_stack(self.stack)
        assert self.ids(self.stack, 'server') != self.members[1:]
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_suspend_touches_nothing_and_delete_leaves_nothing(self):
        self.suspend(self.stack)
        self.assert_untouched()
        self.delete(self.stack)
        self.assert_nothing_left()


class TestAfterTheEnd(PhaseTest):
    def setUp(self):
        super().setUp()
        # The lease service leaves the stack alone.
        self.leases.stacks.status = lambda stack: None
        self.leases.end(self.lease)

    def test_server_that_the_lease_deleted_is_not_created_again(self):
        """The stack was kept at the end, with a standby member that was never woken up."""
        self.cloud.nova.forget(self.members[1])
        changes = self.changes()
        self.patch_stack(self.stack)
        assert self.changes() == changes

    def test_check_fails_and_delete_leaves_nothing(self):
        self.check(self.stack, status='CHECK_FAILED')
        self.delete(self.stack)
        assert not self.cloud.nova.servers
