# SPDX-License-Identifier: Apache-2.0
"""A start that fails leaves the server RESERVED, and all that it holds."""

import fixtures
import tenacity
from nova import objects
from nova.compute import task_states
from nova.compute import utils as compute_utils
from oslo_messaging import MessagingTimeout, RemoteError

from nova_ext import wake_marker
from tests.functional.nova.base import KEY
from tests.functional.nova.woken import WakeUpTest


class TestFailedStart(WakeUpTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=self.network())
        self.held = self.allocations(self.server)
        self.port_ids = [port['id'] for port in self.ports(self.server)]

    def assert_still_held(self):
        found = self.assert_status(self.server, 'RESERVED')
        assert found['OS-EXT-SRV-ATTR:host'] == 'host1'
        assert self.guests() == []
        assert self.allocations(self.server) == self.held
        assert [port['id'] for port in self.ports(self.server)] == self.port_ids
        assert self.used() == 1
        return found

    def test_reason_is_in_the_fault_and_the_action_and_it_can_be_deleted(self):
        self.spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        assert 'no more smoke' in self.assert_still_held()['fault']['message']
        assert wake_marker.get(self.instance(self.server)) is None
        assert 'no more smoke' in self.api.get_server(self.server['id'])['fault']['message']
        action = self.api.get_instance_actions(self.server['id'])[0]
        assert (action['action'], action['message']) == ('wake_up', 'Error')
        path = f'/servers/{self.server["id"]}/os-instance-actions/{action["request_id"]}'
        events = self.api.api_get(path).body['instanceAction']['events']
        assert {each['event']: each['result'] for each in events}['compute_wake_up'] == 'Error'
        self.delete(self.server)
        assert self.allocations(self.server) == {}
        assert self.ports(self.server) == []
        assert self.used() == 0

    def test_wake_up_works_after_others_failed(self):
        self.flags(stash_keys=['A' * 43 + '='], group='climate')
        answer = self.wake_up(self.server, status=503)
        assert '[climate] stash_keys of nova-api' in str(answer.body)
        self.assert_still_held()
        assert self.spawned.calls == []
        self.flags(stash_keys=[KEY], group='climate')

        def broken(*args, **kwargs):
            raise RuntimeError('neutron is away')

        network_api = self.compute.manager.network_api
        network_api.setup_instance_network_on_host = broken
        self.wake_up(self.server)
        self.assert_still_held()
        del network_api.setup_instance_network_on_host
        self.spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        self.wake_up(self.server)
        self.assert_still_held()
        self.spawned.fail_with = None
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.spawned.last['password'] == self.server['adminPass']
        assert self.allocations(self.server) == self.held
        assert self.used() == 1

    def lose_reply(self, phase):
        """Let nova-conductor give no answer before or after the guest runs."""
        notify = compute_utils.notify_about_instance_create

        def lose(*args, **kwargs):
            if kwargs['phase'] == phase:
                raise MessagingTimeout
            return notify(*args, **kwargs)

        name = 'nova.compute.utils.notify_about_instance_create'
        return fixtures.MonkeyPatch(name, lose)

    def test_lost_reply_before_the_guest_runs_leaves_the_server_reserved(self):
        with self.lose_reply('start'):
            self.wake_up(self.server)
        self.assert_still_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_two_lost_replies_leave_the_server_reserved(self):
        refresh, lost = objects.Instance.refresh, []

        def lose(instance, *args, **kwargs):
            if not lost:
                lost.append(instance.uuid)
                raise MessagingTimeout
            return refresh(instance, *args, **kwargs)

        with (
            self.lose_reply('start'),
            fixtures.MonkeyPatch('nova.objects.Instance.refresh', lose),
        ):
            self.wake_up(self.server)
        assert lost == [self.server['id']]
        self.assert_still_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_failure_that_cannot_be_recorded_does_not_undo_a_later_wake_up(self):
        recorded = []
        finish = objects.InstanceActionEvent.event_finish_with_failure

        def record(_cls, context, server_id, event, *args, **kwargs):
            if event != 'compute_wake_up':
                return finish(context, server_id, event, *args, **kwargs)
            recorded.append(self.show(self.server)['status'])
            raise RemoteError('DBDataError', 'Data too long')

        self.spawned.fail_with = RuntimeError('no more smoke')
        name = 'nova.objects.InstanceActionEvent.event_finish_with_failure'
        with fixtures.MonkeyPatch(name, record):
            self.wake_up(self.server)
        assert recorded == ['RESERVED']
        self.assert_still_held()
        self.spawned.fail_with = None
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_record_of_a_failure_is_short(self):
        self.spawned.fail_with = RuntimeError('no more smoke' * 10_000)
        self.wake_up(self.server)
        self.assert_still_held()
        context = self.ctxt
        found = objects.InstanceActionList.get_by_instance_uuid(context, self.server['id'])
        (event,) = (
            each
            for action in found
            for each in objects.InstanceActionEventList.get_by_action(context, action.id)
            if each.event == 'compute_wake_up'
        )
        assert len(event.traceback) == 10_000

    def test_conductor_without_its_database_leaves_the_server_reserved(self):
        """MariaDB was killed: nova-conductor answers each call with an error, at once."""
        refresh, refused = objects.Instance.refresh, []

        def refuse(instance, *args, **kwargs):
            if len(refused) < 12:
                refused.append(instance.uuid)
                raise RemoteError('DBConnectionError', 'Connection refused')
            return refresh(instance, *args, **kwargs)

        with (
            self.lose_reply('start'),
            fixtures.MonkeyPatch('nova_ext.compute.recovery._PAUSE', tenacity.wait_none()),
            fixtures.MonkeyPatch('nova.objects.Instance.refresh', refuse),
        ):
            self.wake_up(self.server)
        assert len(refused) == 12
        self.assert_still_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_server_that_is_in_error_after_a_lost_reply_is_looked_at_once(self):
        refresh, looks = objects.Instance.refresh, []

        def look(instance, *args, **kwargs):
            self.write(self.server, vm_state='error')
            looks.append(instance.uuid)
            return refresh(instance, *args, **kwargs)

        with (
            self.lose_reply('start'),
            fixtures.MonkeyPatch('nova_ext.compute.recovery._TIMEOUTS', 0.01),
            fixtures.MonkeyPatch('nova.objects.Instance.refresh', look),
        ):
            self.wake_up(self.server)
        assert looks == [self.server['id']]
        assert self.show(self.server)['status'] == 'ERROR'

    def test_lost_reply_after_the_server_is_active_is_ignored(self):
        with self.lose_reply('end'):
            self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.guests() == [self.server['id']]
        assert self.allocations(self.server) == self.held

    def test_action_that_cannot_be_noted_leaves_the_allocation(self):
        """Nova notes when its build begins and ends; MariaDB was killed just then."""
        for method, status in (
            ('event_start', 'RESERVED'),
            ('event_finish_with_failure', 'ACTIVE'),
        ):
            with self.subTest(method):
                real = getattr(objects.InstanceActionEvent, method)

                def note(_cls, context, server_id, event, *args, _real=real, **kwargs):
                    if event == 'compute__do_build_and_run_instance':
                        raise RemoteError('DBConnectionError', 'Connection refused')
                    return _real(context, server_id, event, *args, **kwargs)

                name = f'nova.objects.InstanceActionEvent.{method}'
                with fixtures.MonkeyPatch(name, note):
                    self.wake_up(self.server)
                assert self.show(self.server)['status'] == status
                assert self.allocations(self.server) == self.held

    def test_lost_reply_about_the_guest_removes_it(self):
        save = objects.Instance.save

        def lose(instance, *args, **kwargs):
            if kwargs.get('expected_task_state') == task_states.SPAWNING:
                assert self.guests() == [instance.uuid]
                raise MessagingTimeout
            return save(instance, *args, **kwargs)

        with fixtures.MonkeyPatch('nova.objects.Instance.save', lose):
            self.wake_up(self.server)
        self.assert_still_held()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_delete_during_the_start_leaves_nothing(self):
        def delete(context, instance, *args, **kwargs):
            # What nova-api writes; its message waits until the build is over.
            deleted = objects.Instance.get_by_uuid(context, instance.uuid)
            deleted.task_state = task_states.DELETING
            deleted.save()
            raise RuntimeError('interrupted')

        self.compute.manager.driver.spawn = delete
        self.wake_up(self.server)
        assert self.show(self.server)['OS-EXT-STS:task_state'] == 'deleting'
        assert self.ports(self.server) == []
        instance = self.instance(self.server)
        bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(self.ctxt, instance.uuid)
        self.compute.manager.terminate_instance(self.ctxt, instance, bdms)
        self._wait_until_deleted(self.server)
        assert self.allocations(self.server) == {}

    def test_failed_starts_are_counted_for_the_weigher(self):
        stats = self.compute.manager.rt.stats['host1']
        assert stats['failed_builds'] == 0
        self.spawned.fail_with = RuntimeError('no more smoke')
        self.wake_up(self.server)
        assert stats['failed_builds'] == 1
        self.reserve()
        assert stats['failed_builds'] == 1
        self.boot()
        self.spawned.fail_with = None
        self.boot()
        assert stats['failed_builds'] == 0
