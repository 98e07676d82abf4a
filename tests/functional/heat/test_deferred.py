# SPDX-License-Identifier: Apache-2.0
"""Attachments and deployments wait for their reserved server, and do not fail meanwhile."""

import itertools
import types

import fixtures
from heat.objects import software_deployment as deployments

from tests.functional.heat.bus import Killed
from tests.functional.heat.reserved import ReservedTest, SlowEngines
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    ATTACHED,
    DEPLOYED,
    added,
    changed,
    resource,
    server,
    without,
)

NOT_RESERVED = {'scheduler_hints': {'reserved': False}}


class TestAttachment(ReservedTest):
    def attached(self):
        """Ids of the volumes that were attached, in order."""
        return self.cloud.nova.changed('attach')

    def assert_attached_once(self, stack, name='server'):
        assert self.attached() == self.ids(stack, 'disk') == self.record(stack, name)['volumes']

    def test_attachment_is_created_after_the_wake_up(self):
        self.delete(self.reserve_all(ATTACHED))
        assert self.cloud.nova.changed('detach') == []
        self.cloud.nova.changes.clear()
        # Its servers may also have hints of their own.
        stack = self.reserve(ATTACHED)
        self.patch_stack(stack)
        assert 'climate_deferred' in self.data(stack, 'attachment')
        assert self.attached() == []
        assert self.resource(stack, 'attachment').state == ('CREATE', 'COMPLETE')
        self.start(stack)
        disk, server = self.ids(stack, 'disk', 'server')
        changes = [('create', server), ('wake_up', server), ('attach', disk)]
        assert self.cloud.nova.changes == changes
        assert self.cloud.cinder.statuses() == ['in-use']
        assert self.data(stack, 'attachment') == {}
        assert self.ids(stack, 'attachment') == [disk]
        self.patch_stack(stack)
        self.assert_attached_once(stack)
        self.delete(stack)
        assert self.cloud.nova.changed('detach') == [disk]

    def test_attachment_waits_for_a_reserved_volume_of_a_running_server(self):
        stack = self.reserve_all(changed(ATTACHED, 'server', **NOT_RESERVED))
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.attached() == []
        self.start(stack)
        self.assert_attached_once(stack)

    def test_attachment_follows_a_server_that_is_replaced(self):
        for started in (False, True):
            self.lease = self.leases.make(ALICE)
            stack = self.reserve_all(ATTACHED, f's{started}')
            if started:
                self.leases.start(self.lease)
            self.change(stack, changed(ATTACHED, 'server', flavor='m2'))
            if not started:
                assert self.attached() == []
                self.start(stack)
            found = self.record(stack, 'server')
            assert (found['flavor'], found['status']) == ({'id': '2'}, 'ACTIVE')
            assert found['volumes'] == self.ids(stack, 'disk')
            assert len(self.cloud.nova.servers) == 1
            self.delete(stack)

    def test_refused_attachment_is_requested_again(self):
        stack = self.reserve_all(ATTACHED)
        before = self.resource(stack, 'attachment').id
        self.cloud.nova.faults.append(('POST', 'os-volume_attachments', 403))
        self.start(stack, 'UPDATE_FAILED')
        self.patch_stack(stack)
        self.assert_attached_once(stack)
        assert self.resource(stack, 'attachment').id == before

    def stopped_while_attaching(self):
        """Create a stack, and start it with an engine that is killed at the attachment."""
        stack = self.reserve_all(ATTACHED)
        fault = 'GET', '/volumes/', Killed()
        self.while_waiting(lambda: self.cloud.cinder.faults.append(fault), until=self.attached)
        self.start(stack, 'UPDATE_FAILED')
        return stack

    def test_engine_stopped_while_attaching_attaches_nothing_twice(self):
        stack = self.stopped_while_attaching()
        before = self.resource(stack, 'attachment').id
        assert 'climate_deferred' in self.data(stack, 'attachment')
        self.patch_stack(stack)
        self.assert_attached_once(stack)
        assert self.resource(stack, 'attachment').id == before
        assert self.data(stack, 'attachment') == {}

    def test_attachment_that_nova_gave_up_is_requested_again(self):
        stack = self.stopped_while_attaching()
        self.record(stack, 'server')['volumes'] = []
        self.record(stack, 'disk').update(status='available', next=[], attachments=[])
        self.patch_stack(stack)
        assert self.attached() == self.ids(stack, 'disk') * 2

    def lose_attachments(self, number):
        """Let nova lose attachments; the clock is 150 s later at each look."""
        clock = types.SimpleNamespace(time=itertools.count(0, 150).__next__)
        self.useFixture(fixtures.MonkeyPatch('heat_ext.members.lost_attachment.time', clock))
        self.cloud.cinder.lost_attachments = number

    def test_lost_attachment_is_broken_off_and_requested_again(self):
        stack = self.reserve_all(ATTACHED)
        self.lose_attachments(2)
        self.start(stack)
        disk = self.ids(stack, 'disk')
        assert self.attached() == disk * 3
        assert self.cloud.cinder.changed('complete') == self.cloud.nova.changed('detach')
        assert self.record(stack, 'server')['volumes'] == disk
        assert self.cloud.cinder.statuses() == ['in-use']

    def lose_request(self, lost_after):
        """Start a stack whose first request for an attachment is lost."""
        stack = self.reserve_all(ATTACHED)
        self.cloud.nova.lost_requests = [lost_after]
        self.start(stack, 'UPDATE_FAILED')
        return stack

    def assert_attached(self, stack):
        """Check that a volume is in its server, and that nothing of an earlier request is left."""
        (disk,) = self.ids(stack, 'disk')
        assert self.ids(stack, 'attachment') == [disk]
        assert self.data(stack, 'attachment') == {}
        assert self.record(stack, 'server')['volumes'] == [disk]
        assert self.record(stack, 'disk')['status'] == 'in-use'
        assert len(self.record(stack, 'disk')['attachments']) == 1
        self.delete(stack)
        self.assert_nothing_left()

    def test_request_that_nova_lost_is_broken_off_when_it_is_old(self):
        for lost_after in ('record', 'reserve', 'save'):
            with self.subTest(lost_after=lost_after):
                self.lease = self.leases.make(ALICE)
                self.lose_attachments(0)
                stack = self.lose_request(lost_after)
                self.patch_stack(stack)
                assert len(self.cloud.nova.changed('detach')) == 1
                self.assert_attached(stack)
                self.cloud.nova.changes.clear()

    def test_request_that_nova_lost_is_left_alone_before_it_is_old(self):
        stack = self.lose_request('save')
        (disk,) = self.ids(stack, 'disk')
        del self.cloud.cinder.requests[:]
        looks = lambda: self.cloud.cinder.requests.count(('GET', f'/volumes/{disk}'))  # noqa: E731
        # nova-compute attaches it late.
        self.while_waiting(lambda: self.cloud.cinder.attach(disk), until=lambda: looks() > 2)
        self.patch_stack(stack)
        assert self.cloud.nova.changed('detach') == self.cloud.cinder.changed('complete') == []
        self.assert_attached(stack)

    def test_request_whose_answer_is_lost_is_not_repeated(self):
        stack = self.lose_request('attach')
        self.patch_stack(stack)
        self.assert_attached_once(stack)
        self.assert_attached(stack)

    def test_attachment_that_nova_could_not_undo_is_deleted(self):
        stack = self.lose_request('undo')
        assert len(self.record(stack, 'disk')['attachments']) == 1
        self.patch_stack(stack)
        self.assert_attached_once(stack)
        self.assert_attached(stack)

    def test_volume_that_cinder_reserved_for_nobody_is_attached(self):
        self.lose_attachments(0)
        stack = self.lose_request('record')
        self.record(stack, 'disk')['status'] = 'reserved'
        self.patch_stack(stack)
        self.assert_attached(stack)

    def test_age_of_a_lost_attachment_outlasts_an_engine(self):
        """It counts from the request, however often the update is repeated."""
        clock = types.SimpleNamespace(time=lambda: self.now)
        self.useFixture(fixtures.MonkeyPatch('heat_ext.members.lost_attachment.time', clock))
        self.now, self.cloud.cinder.lost_attachments = 0, 1
        stack = self.stopped_while_attaching()
        self.now = 600
        self.patch_stack(stack)
        assert len(self.cloud.nova.changed('detach')) == 1
        self.assert_attached(stack)

    def test_attachment_that_nova_completes_late_is_left_alone(self):
        stack = self.reserve_all(ATTACHED)
        self.lose_attachments(1)
        volume = self.record(stack, 'disk')
        self.while_waiting(lambda: volume.update(status='in-use'), until=self.attached)
        self.start(stack)
        self.assert_attached_once(stack)
        assert self.cloud.nova.changed('detach') == []

    def test_lost_attachment_that_nova_cannot_detach_fails_and_says_what_to_do(self):
        stack = self.reserve_all(ATTACHED)
        self.lose_attachments(1)
        volume, server = self.record(stack, 'disk'), self.record(stack, 'server')

        def roll_back():
            """Do what nova-compute does when the guest keeps the volume."""
            server['volumes'].append(volume['id'])
            volume['status'] = 'available'
            self.cloud.cinder.reserve_for(volume['id'], server['id'])
            volume['status'] = 'in-use'

        self.while_waiting(roll_back, until=lambda: self.cloud.nova.changed('detach'))
        found = self.start(stack, 'UPDATE_FAILED')
        told = f'must detach it from server {self.ids(stack, "server")[0]}'
        assert told in found.status_reason
        # The next update does not take it for attached.
        self.patch_stack(stack)
        assert len(self.cloud.nova.changed('detach')) == 2
        self.assert_attached(stack)

    def test_attachment_added_after_the_start_is_created_at_once(self):
        stack = self.started(without(ATTACHED, 'attachment'))
        self.change(stack, ATTACHED)
        self.assert_attached_once(stack)

    def test_attachment_moved_to_a_reserved_server_waits_again(self):
        template = changed(changed(ATTACHED, 'server', **NOT_RESERVED), 'disk', **NOT_RESERVED)
        template = added(template, other=server())
        stack = self.reserve_all(template)
        disk = self.ids(stack, 'disk')
        assert self.record(stack, 'server')['volumes'] == disk
        self.change(
            stack, changed(template, 'attachment', instance_uuid={'get_resource': 'other'})
        )
        assert self.record(stack, 'server')['volumes'] == []
        assert 'climate_deferred' in self.data(stack, 'attachment')
        self.start(stack)
        assert self.record(stack, 'other')['volumes'] == disk
        assert self.attached() == disk * 2

    def test_attachment_of_a_stack_that_is_abandoned_stays(self):
        stack = self.reserve_all(ATTACHED)
        self.useFixture(SlowEngines())
        self.while_waiting(lambda: self.abandon(stack, run=False), until=self.attached)
        self.start(stack, status=None)
        assert not self.exists(stack)
        assert [each for each in self.changes() if each[0] in ('delete', 'detach')] == []


class TestDeployment(ReservedTest):
    def deployments(self):
        return deployments.SoftwareDeployment.get_all(ALICE.context())

    def assert_deployed(self, stack):
        """Check that there is one deployment; gives it."""
        (found,) = self.deployments()
        assert [found.server_id] == self.ids(stack, 'server')
        return found

    def answer(self):
        """Signal the deployment, as the agent in the server does when it has found it."""
        (found,) = self.deployments()
        self.engine.signal_software_deployment(
            ALICE.context(), found.id, {'said': 'hi', 'deploy_status_code': 0}, None
        )

    def test_deployment_is_created_after_the_wake_up(self):
        stack = self.reserve_all(DEPLOYED)
        assert self.deployments() == []
        assert self.outputs(stack) == {'said': None}
        self.while_waiting(self.answer, until=self.deployments)
        self.start(stack)
        assert self.assert_deployed(stack).action == 'CREATE'
        assert self.outputs(stack) == {'said': 'hi'}
        assert 'climate_deferred' not in self.data(stack, 'deployment')

    def test_deferred_deployment_takes_no_part_in_other_actions(self):
        stack = self.reserve_all(DEPLOYED)
        self.suspend(stack)
        self.resume(stack)
        self.delete(stack)
        assert self.deployments() == []

    def test_deployment_that_was_created_is_told_of_its_end(self):
        stack = self.reserve_all(DEPLOYED)
        self.while_waiting(self.stop, until=self.deployments)
        self.start(stack, 'UPDATE_FAILED')
        assert 'climate_deferred' in self.data(stack, 'deployment')
        self.while_waiting(self.answer, until=lambda: self.deployments()[0].action == 'DELETE')
        self.delete(stack)

    def stop(self):
        raise Killed

    def test_deferred_deployment_takes_its_new_configuration(self):
        stack = self.reserve_all(DEPLOYED)
        self.change(stack, changed(DEPLOYED, 'deployment', input_values={'a': 'b'}))
        assert self.deployments() == []
        self.while_waiting(self.answer, until=self.deployments)
        self.start(stack)
        found = self.assert_deployed(stack).config.config['inputs']
        inputs = {each['name']: each.get('value') for each in found}
        assert (inputs['a'], inputs['deploy_action']) == ('b', 'CREATE')

    def test_other_types_of_deployments_are_created_after_the_wake_up(self):
        silent = {'config': {'get_resource': 'config'}, 'signal_transport': 'NO_SIGNAL'}
        servers = {'one': {'get_resource': 'server'}}
        group = resource('OS::Heat::SoftwareDeploymentGroup', servers=servers, **silent)
        structured = resource(
            'OS::Heat::StructuredDeployment', server={'get_resource': 'server'}, **silent
        )
        config = resource('OS::Heat::StructuredConfig', config={'a': 1})
        template = without(DEPLOYED)
        for other in ({'deployment': group}, {'deployment': structured, 'config': config}):
            stack = self.reserve_all(added(template, **other))
            assert self.deployments() == []
            self.start(stack)
            self.assert_deployed(stack)
            self.delete(stack)
            self.lease = self.leases.make(ALICE)
