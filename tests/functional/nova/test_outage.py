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
from tests.functional.nova.base import NovaTest

NETWORK = 'nova.network.neutron.API.get_requested_resource_for_instance'
VOLUMES = 'nova_ext.volumes.hold'
BUS = 'nova.compute.rpcapi.ComputeAPI.build_and_run_instance'
HOST = 'nova_ext.api.start._host_is_up'


class TestOutage(NovaTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve(networks=[{'uuid': self.neutron.network_1['id']}])

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

    def test_what_nova_knows_is_409_with_its_words(self):
        for where, error in [
            (VOLUMES, exception.VolumeNotFound(volume_id='vol-1')),
            (VOLUMES, exception.InvalidInput(reason='volume is in use')),
            (NETWORK, exception.PortNotFound(port_id='port-1')),
            (HOST, exception.NoValidHost(reason='all full')),
        ]:
            with self.subTest(error=repr(error)):
                assert self.check(where, error, 409) == error.format_message()
                self.assert_as_it_was()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_an_outage_is_503(self):
        for where, error in [
            (VOLUMES, exception.CinderConnectionFailed(reason='refused')),
            (VOLUMES, cinder_exceptions.ClientException(500, 'broken')),
            (NETWORK, neutron_exceptions.ConnectionFailed(reason='refused')),
            (HOST, exception.PlacementAPIConnectFailure()),
            (HOST, ks_exceptions.ConnectFailure('refused')),
            (HOST, oslo_messaging.MessagingTimeout('no scheduler')),
        ]:
            with self.subTest(error=repr(error)):
                assert self.check(where, error, 503) == str(error)
                self.assert_as_it_was()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_no_message_bus(self):
        error = oslo_messaging.MessageDeliveryFailure('RabbitMQ is away')
        assert 'RabbitMQ is away' in self.check(BUS, error, 503)
        self.assert_as_it_was()
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')

    def test_a_message_that_arrived_nevertheless(self):
        """What nova-compute has begun by then is not undone."""
        error = oslo_messaging.MessageDeliveryFailure('no confirmation')
        self.check(BUS, error, 503, lambda: self.write(task_state=task_states.NETWORKING))
        instance = self.instance(self.server)
        assert instance.task_state == task_states.NETWORKING
        assert wake_marker.get(instance)

    def test_deleted_meanwhile(self):
        error = exception.VolumeNotFound(volume_id='vol-1')
        self.check(VOLUMES, error, 409, lambda: self.write(task_state=task_states.DELETING))
        assert self.instance(self.server).task_state == task_states.DELETING

    def test_another_request_is_faster(self):
        """Between the read and the write of the server."""
        for state in [{'task_state': task_states.SCHEDULING}, {'vm_state': vm_states.ACTIVE}]:
            with self.subTest(**state):
                with fixtures.MonkeyPatch(
                    'nova_ext.wake_marker.put', lambda *args, state=state: self.write(**state)
                ):
                    self.wake_up(self.server, status=409)
                self.write(vm_state=states.RESERVED, task_state=None)

    def test_the_action_is_recorded(self):
        self.check(VOLUMES, exception.VolumeNotFound(volume_id='vol-1'), 409)
        actions = objects.InstanceActionList.get_by_instance_uuid(self.ctxt, self.server['id'])
        assert [each.action for each in actions] == ['wake_up', 'create']
