# SPDX-License-Identifier: Apache-2.0
"""Actions of a reserved stack before, while and after it is woken."""

import json
from types import SimpleNamespace

import fixtures
import pytest
from heat.common import exception
from heat.engine.resources.openstack.nova import server as nova_server
from oslo_config import cfg

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import PAIR, changed, parse, stack_level
from tests.functional.heat.users import ALICE


class PhaseTest(ReservedTest):
    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all()
        self.before = self.changes()
        self.networks = self.cloud.neutron.changes[:]

    def assert_untouched(self):
        assert self.changes() == self.before
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.cloud.cinder.statuses() == ['lease-reserved']


class TestAsleep(PhaseTest):
    def test_check(self):
        self.check(self.stack)
        self.assert_stack(self.stack, 'CHECK_COMPLETE')
        self.assert_untouched()

    def test_suspend_and_resume(self):
        self.suspend(self.stack)
        self.assert_stack(self.stack, 'SUSPEND_COMPLETE')
        self.assert_untouched()
        self.resume(self.stack)
        self.assert_stack(self.stack, 'RESUME_COMPLETE')
        self.assert_untouched()
        self.start(self.stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_delete(self):
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
        assert self.held() == set()

    def test_delete_with_the_policy_to_keep_a_snapshot(self):
        template = parse(PAIR)
        for name in ('disk', 'server'):
            template['resources'][name]['deletion_policy'] = 'Snapshot'
        cfg.CONF.set_override('backups_enabled', True, group='volumes')
        stack = self.create(template, name='other', environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        self.delete(stack)
        assert not self.exists(stack)

    def test_snapshot(self):
        self.snapshot(self.stack)
        self.assert_stack(self.stack, 'SNAPSHOT_COMPLETE')
        self.assert_untouched()
        self.start(self.stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_a_snapshot_of_what_slept_restores_nothing(self):
        before = self.ids(self.stack, 'disk', 'server')
        made = self.snapshot(self.stack)
        self._do('stack_restore', self.stack, made['id'])
        self.assert_stack(self.stack, 'RESTORE_COMPLETE')
        assert self.ids(self.stack, 'disk', 'server') == before
        self.assert_untouched()

    def test_abandon_and_adopt(self):
        left = self.abandon(self.stack)
        assert not self.exists(self.stack)
        self.assert_untouched()
        data = left['resources']['server']['resource_data']
        assert data['climate_lease'] == self.lease
        # The lease service wakes them, and the stack that has adopted them finds that out.
        stack = self.adopt(left)
        self.leases.start(self.lease)
        for volume in self.cloud.cinder.volumes.values():
            volume['status'] = 'available'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.outputs(stack)['status'] == 'available'

    def test_another_lease_that_is_written_into_what_is_adopted_wakes_nothing(self):
        other = self.leases.make(ALICE, start_date=self.leases.later(minutes=1))
        left = self.abandon(self.stack)
        for each in left['resources'].values():
            each['resource_data'] = {'climate_lease': other}
        left['environment']['parameter_defaults'] = {'climate_lease_id': other}
        stack = self.adopt(left)
        self.leases.start(other)
        self.patch_stack(stack)
        assert self.wakes() == []
        self.assert_untouched()

    def adopt(self, left):
        cfg.CONF.set_override('enable_stack_adopt', True)
        text = json.dumps({key: left[key] for key in left if key != 'files'})
        stack = self.create(
            left['template'], name='adopted', environment=left['environment'],
            args={'adopt_stack_data': text},
        )  # fmt: skip
        self.assert_stack(stack, 'ADOPT_COMPLETE')
        return stack

    def test_attributes(self):
        template = parse(PAIR)
        for name in nova_server.Server.attributes_schema:
            if name not in ('console_urls', 'show', 'os_collect_config', 'tags', 'addresses'):
                template['outputs'][name] = {'value': {'get_attr': ['server', name]}}
        stack = self.create(template, name='other', environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        (port,) = self.cloud.nova.addresses(self.ids(stack, 'server')[0])
        assert self.outputs(stack)['networks'] == {'private': [port]}
        assert self.outputs(stack)['first_address'] == port


class TestWhileItIsWoken(PhaseTest):
    def during(self, do):
        self.while_waiting(do, until=lambda: self.cloud.nova.changed('wake_up'))

    def test_delete(self):
        self.during(lambda: self.delete(self.stack, run=False))
        self.leases.start(self.lease)
        self.patch_stack(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
        assert self.held() == set()

    def test_delete_while_a_volume_is_made(self):
        disk, server = self.ids(self.stack, 'disk', 'server')
        self.cloud.nova.servers[server]['volumes'] = []
        volume = self.cloud.cinder.volumes[disk]
        volume.update(status='creating', next=['creating'] * 12 + ['available'])
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.cinder.volumes

    def test_cancel(self):
        """What was begun comes to its end, and the next update does the rest."""
        self.act_meanwhile(self.cancel, status='UPDATE_FAILED')

    def test_cancel_and_roll_back(self):
        """What was before is a stack whose lease has started, too."""
        before = self.ids(self.stack, 'disk', 'server')

        def cancel(stack, run):
            self.cancel(stack, rollback=True, run=run)

        self.act_meanwhile(cancel, status='ROLLBACK_COMPLETE')
        assert self.ids(self.stack, 'disk', 'server') == before

    def test_cancel_and_roll_back_what_else_was_changed(self):
        before = self.ids(self.stack, 'disk', 'server')
        self.during(lambda: self.cancel(self.stack, rollback=True, run=False))
        self.leases.start(self.lease)
        template = changed(PAIR, 'server', metadata={'a': 'b'})
        self.update(self.stack, template, environment=stack_level(self.lease))
        self.assert_stack(self.stack, 'ROLLBACK_COMPLETE')
        assert self.ids(self.stack, 'disk', 'server') == before
        (server,) = self.cloud.nova.servers.values()
        assert (server['status'], server['metadata']) == ('ACTIVE', {})
        assert len(self.wakes()) == 2

    def test_abandon(self):
        self.abandon_meanwhile()

    def test_abandon_while_an_engine_is_slow(self):
        """Heat waits for its workers, but not for ever."""
        nobody = SimpleNamespace(sleep=lambda seconds: None)
        self.useFixture(fixtures.MonkeyPatch('heat.engine.worker.time', nobody))
        self.abandon_meanwhile()

    def abandon_meanwhile(self):
        left = []
        disk, server = self.ids(self.stack, 'disk', 'server')
        self.during(lambda: left.append(self.abandon(self.stack, run=False)))
        self.leases.start(self.lease)
        self.patch_stack(self.stack)
        assert not self.exists(self.stack)
        assert left[0]['resources']['server']['resource_id'] == server
        assert [each for each in self.changes() if each[0] == 'delete'] == []
        assert self.cloud.neutron.changes == self.networks
        # They wake up, whoever looks.
        assert self.wakes() == [disk, server]

    def test_check(self):
        self.act_meanwhile(self.check)
        assert self.begun('CHECK') == 1

    def test_suspend(self):
        self.act_meanwhile(self.suspend, undo=self.resume)
        assert self.begun('SUSPEND') == 1

    def test_snapshot(self):
        """Heat makes none of what is at work."""

        def refused():
            with pytest.raises(exception.ActionInProgress):
                self.snapshot(self.stack, run=False)

        self.during(refused)
        self.start(self.stack)
        assert self.begun('SNAPSHOT') == 0
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert len(self.wakes()) == 2

    def act_meanwhile(self, action, undo=None, status=None):
        """Whatever is done meanwhile, all is awake after the next update, woken once."""
        self.during(lambda: action(self.stack, run=False))
        self.leases.start(self.lease)
        self.patch_stack(self.stack)
        if status is not None:
            self.assert_stack(self.stack, status)
        self.bus.meanwhile = self.leases.run
        if undo is not None:
            undo(self.stack)
        self.patch_stack(self.stack)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert len(self.wakes()) == 2

    def test_preview(self):
        self.during(lambda: self.preview(PAIR, name='other'))
        self.start(self.stack)
        assert len(self.wakes()) == 2

    def test_second_update(self):
        """What the lease service does when its manager has died."""
        self.during(lambda: self.patch_stack(self.stack, run=False))
        self.start(self.stack)
        assert self.begun('UPDATE') == 2
        assert len(self.wakes()) == 2

    def begun(self, action):
        """How often heat has begun to do something with the stack."""
        told = [status for name, status, _ in self.events(self.stack) if name == 'stack1']
        return told.count(f'{action}_IN_PROGRESS')


class TestAwake(PhaseTest):
    def setUp(self):
        super().setUp()
        self.start(self.stack)

    def test_check(self):
        self.check(self.stack)
        self.assert_stack(self.stack, 'CHECK_COMPLETE')

    def test_suspend_and_resume(self):
        self.suspend(self.stack)
        self.assert_stack(self.stack, 'SUSPEND_COMPLETE')
        assert self.cloud.nova.statuses() == ['SUSPENDED']
        self.resume(self.stack)
        self.assert_stack(self.stack, 'RESUME_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_delete(self):
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes

    def test_abandon(self):
        left = self.abandon(self.stack)
        assert 'climate_lease' not in left['resources']['server']['resource_data']
        assert self.cloud.nova.statuses() == ['ACTIVE']


class TestNotWoken(PhaseTest):
    """The lease has started, and nobody has woken the stack yet."""

    def setUp(self):
        super().setUp()
        self.leases.start(self.lease)

    def test_check_says_so_and_the_update_wakes(self):
        before = self.ids(self.stack, 'disk', 'server')
        self.check(self.stack)
        found = self.assert_stack(self.stack, 'CHECK_FAILED')
        assert "got 'lease-reserved'" in found.status_reason
        self.patch_stack(self.stack)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.ids(self.stack, 'disk', 'server') == before
        assert self.wakes() == before

    def test_a_server_that_does_not_run_is_replaced_as_ever(self):
        self.patch_stack(self.stack)
        (before,) = self.ids(self.stack, 'server')
        self.cloud.nova.servers[before]['status'] = 'ERROR'
        self.check(self.stack)
        self.assert_stack(self.stack, 'CHECK_FAILED')
        self.cloud.nova.servers[before]['volumes'] = []
        self.patch_stack(self.stack)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.ids(self.stack, 'server') != [before]
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_suspend(self):
        self.suspend(self.stack)
        self.assert_stack(self.stack, 'SUSPEND_COMPLETE')
        self.assert_untouched()

    def test_delete(self):
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert self.held() == set()


class TestAfterTheEnd(PhaseTest):
    def setUp(self):
        super().setUp()
        # The lease service leaves the stack alone.
        self.leases.stacks.status = lambda stack: None

    def test_what_the_lease_has_taken_away_is_not_made_again(self):
        """Kept by its action at the end, with a spare that was never woken."""
        (server,) = self.ids(self.stack, 'server')
        self.leases.end(self.lease)
        self.cloud.nova.forget(server)
        changes = self.changes()
        self.patch_stack(self.stack)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.changes() == changes

    def test_check_says_what_sleeps_for_ever(self):
        self.leases.end(self.lease)
        self.check(self.stack)
        self.assert_stack(self.stack, 'CHECK_FAILED')

    def test_delete(self):
        self.leases.end(self.lease)
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.nova.servers
