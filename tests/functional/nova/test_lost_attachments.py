# SPDX-License-Identifier: Apache-2.0
"""Nova detaches a volume whose attachment was lost, so that it can be attached again."""

import contextlib

import fixtures
from nova import utils
from nova.tests.functional.libvirt import base as libvirt_base
from oslo_utils import uuidutils

from tests.functional.nova.base import NovaTest

RESERVE = 'nova.compute.utils.check_attach_and_reserve_volume'
CAST = 'nova.compute.rpcapi.ComputeAPI.attach_volume'
CONNECT = 'nova.virt.libvirt.driver.LibvirtDriver.attach_volume'
DISCONNECT = 'nova.virt.libvirt.volume.volume.LibvirtFakeVolumeDriver.disconnect_volume'
SHOW = 'nova.volume.cinder.API.attachment_get'
SAVE = 'nova.virt.block_device.DriverVolumeBlockDevice.save'
#: What nova calls to undo a failed request; a process that is killed undoes nothing.
UNDO = ('nova.objects.BlockDeviceMapping.destroy', 'nova.volume.cinder.API.attachment_delete')


def die(*args, **kwargs):
    raise RuntimeError('killed')


def reserve(context, volume_api, volume, instance, *args, **kwargs):
    """Reserve a volume in cinder, and stop before nova saves that."""
    volume_api.attachment_create(context, volume['id'], instance.uuid)
    die()


class TestLostAttachment(NovaTest, libvirt_base.ServersTestBase):
    ADMIN_API = True
    COMPUTES = ()

    def setUp(self):
        super().setUp()
        self.start_compute('compute1')
        self.server = self.boot()
        self.path = f'/servers/{self.server["id"]}/os-volume_attachments'
        self.disconnected = []
        self.useFixture(fixtures.MonkeyPatch(DISCONNECT, self.note))
        self.useFixture(fixtures.MonkeyPatch(SHOW, self.show_attachment))

    def _setup_compute_service(self):
        libvirt_base.ServersTestBase._setup_compute_service(self)

    def note(self, driver, connection, *args, **kwargs):
        self.disconnected.append(connection['data']['volume_id'])

    def show_attachment(self, context, attachment_id):
        """Show no connection before nova-compute has asked for it; nova's fixture always does."""
        _, attachment, _ = self.cinder._find_attachment(attachment_id)
        shown = self.cinder.fake_attachment_get(context, attachment_id)
        return shown if attachment['connector'] else {**shown, 'connection_info': {}}

    def attach(self, volume, *statuses):
        """Ask nova to attach a volume; give the message of an error."""
        body = {'volumeAttachment': {'volumeId': volume}}
        answer = self.api.api_post(self.path, body, check_response_status=statuses).body
        return next(iter(answer.values())).get('message')

    def lose(self, where, function):
        """Ask for an attachment that is lost at this call; give the volume's id."""
        volume = uuidutils.generate_uuid()
        with contextlib.ExitStack() as patches:
            for name in UNDO:
                patches.enter_context(fixtures.MonkeyPatch(name, lambda *args: None))
            patches.enter_context(fixtures.MonkeyPatch(where, function))
            # What nova-compute loses is lost after the answer.
            self.attach(volume, 200, 500)
        return volume

    def listed(self, microversion):
        """Return the ids of the volumes that nova lists."""
        with utils.temporary_mutation(self.api, microversion=microversion):
            found = self.api.api_get(self.path).body['volumeAttachments']
        return [each['volumeId'] for each in found]

    def complete(self, volume):
        """Let cinder show a volume in-use, as heat_ext does."""
        if not self.cinder.volume_to_attachment[volume]:
            self.cinder.fake_attachment_create(self.ctxt, volume, self.server['id'])

    def check(self, where, function, listed, connected):
        """Lose an attachment; nova refuses another request, detaches the volume, and attaches it.

        :param listed: whether nova lists the volume since 2.89
        :param connected: whether a volume driver had begun to connect it
        """
        volume = self.lose(where, function)
        assert 'already attached' in self.attach(volume, 400)
        assert self.listed('2.1') == [volume]
        assert self.listed('2.96') == ([volume] if listed else [])
        self.complete(volume)
        self.api.api_delete(f'{self.path}/{volume}', check_response_status=[202])
        assert self.listed('2.1') == []
        assert self.disconnected == ([volume] if connected else [])
        assert self.cinder.volume_to_attachment[volume] == {}
        self.attach(volume, 200)
        assert self.listed('2.96') == [volume]
        (attachment,) = self.cinder.volume_to_attachment[volume].values()
        assert attachment['connector']

    def test_volume_that_was_not_reserved_is_detached(self):
        self.check(RESERVE, die, listed=False, connected=False)

    def test_volume_whose_reservation_was_not_saved_is_detached(self):
        self.check(RESERVE, reserve, listed=False, connected=False)

    def test_volume_that_no_nova_compute_connected_is_detached(self):
        self.check(CAST, lambda *args: None, listed=True, connected=False)

    def test_volume_that_nova_compute_began_to_connect_is_detached(self):
        self.check(CONNECT, die, listed=True, connected=True)

    def test_volume_whose_connection_was_not_saved_is_detached(self):
        self.check(SAVE, die, listed=True, connected=True)

    def test_volume_whose_attachment_was_deleted_is_detached(self):
        volume = self.lose(CAST, lambda *args: None)
        self.cinder.delete_vol_attachment(volume)
        self.api.api_delete(f'{self.path}/{volume}', check_response_status=[202])
        assert self.listed('2.1') == []
