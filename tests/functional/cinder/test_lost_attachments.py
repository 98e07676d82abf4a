# SPDX-License-Identifier: Apache-2.0
"""What heat_ext asks of cinder about a lost attachment, with the rights of the volume's owner."""

import datetime
from types import SimpleNamespace

from oslo_utils import uuidutils

from heat_ext.service import attachments
from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ALICE

LONG_AGO = datetime.datetime(2020, 1, 1)


class TestLostAttachments(CinderTest):
    def setUp(self):
        super().setUp()
        self.server_id = uuidutils.generate_uuid()
        # The HTTP client of python-cinderclient gives the answer and its body.
        http = SimpleNamespace(
            get=lambda path, **kwargs: self.send('GET', path, **kwargs),
            post=lambda path, **kwargs: self.send('POST', path, **kwargs),
            delete=lambda path, **kwargs: self.send('DELETE', path, **kwargs),
        )
        self.resource = SimpleNamespace(client=lambda name: SimpleNamespace(client=http))

    def send(self, method, path, body=None, *, microversion):
        response = self.request(method, path, body, user=ALICE, version=microversion)
        assert response.status_int < 400, response
        return response, response.json if response.body else None

    def reserve_for(self, volume, server_id):
        wanted = {'volume_uuid': volume['id'], 'instance_uuid': server_id}
        answer = self.post('/attachments', {'attachment': wanted}, status=200)
        return answer['attachment']['id']

    def list_ids(self, volume):
        return attachments.list_ids(self.resource, self.server_id, volume['id'])

    def check_detachable(self, volume):
        """Complete what attaches a volume; cinder lets nova detach it then."""
        attachments.complete(self.resource, self.server_id, volume['id'])
        assert len(self.list_ids(volume)) == 1
        self.assert_status(volume, 'in-use')
        self.action(volume, 'os-begin_detaching')
        self.assert_status(volume, 'detaching')

    def test_volume_that_nova_recorded_and_did_not_reserve_is_detachable(self):
        self.check_detachable(self.volume_create())

    def test_volume_that_nova_reserved_is_detachable(self):
        volume = self.volume_create()
        self.reserve_for(volume, self.server_id)
        self.assert_status(volume, 'reserved')
        self.check_detachable(volume)

    def test_volume_that_cinder_reserved_for_nobody_is_detachable(self):
        volume = self.volume_create()
        self.write(volume, status='reserved', updated_at=LONG_AGO)
        self.check_detachable(volume)

    def test_attachment_that_nova_did_not_undo_is_deleted(self):
        volume = self.volume_create()
        left_over = self.reserve_for(volume, self.server_id)
        # Nova makes another one, and the volume would stay reserved after that is detached.
        attached = self.reserve_for(volume, self.server_id)
        attachments.delete(self.resource, left_over)
        assert self.list_ids(volume) == [attached]
        attachments.delete(self.resource, attached)
        self.assert_status(volume, 'available')

    def test_attachments_of_another_server_are_not_listed(self):
        volume = self.volume_create()
        self.reserve_for(volume, uuidutils.generate_uuid())
        assert self.list_ids(volume) == []
