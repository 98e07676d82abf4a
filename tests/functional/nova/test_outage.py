# SPDX-License-Identifier: Apache-2.0
"""A wake_up that fails in nova-api: the reason is answered, and the server is as it was."""

import fixtures
import oslo_messaging
from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions as ks_exceptions
from neutronclient.common import exceptions as neutron_exceptions
from nova import exception, objects
from nova.compute import task_states, vm_states

from nova_ext import states, wake_marker
from nova_ext.api import wake_up
from tests.functional.nova.base import NovaTest

NETWORK = 'nova.network.neutron.API.get_requested_resource_for_instance'
VOLUMES = 'nova_ext.volumes.hold'
BUS = 'nova.compute.rpcapi.ComputeAPI.build_and_run_instance'
HOST = 'nova_ext.api.start._host_is_up'


class TestOutage(NovaTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=self.network())

    def check(self, where, error, status, during=None):
        """Let wake_up fail somewhere; give the message of the answer.

        :param during: called before it fails
        """

        def fail(*args, **kwargs):
            if during:
                during()
            raise error

        with fixtures.MonkeyPatch(where, fail):
            answer = self.wake_up(self.server, status=status)
        (fault,) = answer.body.values()
        return fault['message']

    def assert_as_it_was(self):
        self.assert_status(self.server, 'RESERVED')
        assert wake_marker.get(self.instance(self.server)) is None

    def write(self, **values):
        instance = self.instance(self.server)
        for name, value in values.items():
            setattr(instance, name, value)
        instance.save()

    def test_failure_is_answered_and_the_server_is_as_it_was(self):
        """What nova knows of the server is 409, an outage 503."""
        for where, error, status in [
            (VOLUMES, exception.VolumeNotFound(volume_id='vol-1'), 409),
            (VOLUMES, exception.InvalidInput(reason='volume is in use'), 409),
            (NETWORK, exception.PortNotFound(port_id='port-1'), 409),
            (HOST, exception.NoValidHost(reason='all full'), 409),
            (VOLUMES, exception.CinderConnectionFailed(reason='refused'), 503),
            (VOLUMES, cinder_exceptions.ClientException(500, 'broken'), 503),
            (NETWORK, neutron_exceptions.ConnectionFailed(reason='refused'), 503),
            (HOST, exception.PlacementAPIConnectFailure(), 503),
            (HOST, ks_exceptions.ConnectFailure('refused'), 503),
            (HOST, oslo_messaging.MessagingTimeout('no scheduler'), 503),
            (BUS, oslo_messaging.MessageDeliveryFailure('RabbitMQ is away'), 503),
        ]:
            with self.subTest(error=repr(error)):
                shown = self.check(where, error, status)
                if status == 409:
                    assert str(error) in shown
                else:
                    # What other services answer has their URLs.
                    assert shown == wake_up._AWAY
                self.assert_as_it_was()
        actions = objects.InstanceActionList.get_by_instance_uuid(self.ctxt, self.server['id'])
        assert {each.action for each in actions} == {'wake_up', 'create'}
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_message_that_arrived_despite_the_error_is_not_undone(self):
        """What nova-compute has begun by then is not undone."""
        error = oslo_messaging.MessageDeliveryFailure('no confirmation')
        self.check(BUS, error, 503, lambda: self.write(task_state=task_states.NETWORKING))
        instance = self.instance(self.server)
        assert instance.task_state == task_states.NETWORKING
        assert wake_marker.get(instance)

    def test_server_deleted_meanwhile_stays_deleting(self):
        error = exception.VolumeNotFound(volume_id='vol-1')
        self.check(VOLUMES, error, 409, lambda: self.write(task_state=task_states.DELETING))
        assert self.instance(self.server).task_state == task_states.DELETING

    def test_slower_of_two_requests_is_409(self):
        """Between the read and the write of the server."""
        for state in [{'task_state': task_states.SCHEDULING}, {'vm_state': vm_states.ACTIVE}]:
            with self.subTest(**state):
                with fixtures.MonkeyPatch(
                    'nova_ext.wake_marker.put', lambda *args, state=state: self.write(**state)
                ):
                    self.wake_up(self.server, status=409)
                self.write(vm_state=states.RESERVED, task_state=None)
