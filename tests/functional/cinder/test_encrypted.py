# SPDX-License-Identifier: Apache-2.0
"""Reserved volumes of an encrypted type."""

import fixtures
from castellan.common import exception as key_exception
from cinder.db import api as db
from cinder.volume import volume_types

from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ALICES
from tests.functional.lease_service import refusal


class EncryptedTest(CinderTest):
    def setUp(self):
        super().setUp()
        kind = volume_types.create(self.ctxt, 'secret')
        encryption = {'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256}
        db.volume_type_encryption_create(
            self.ctxt, kind.id, {**encryption, 'control_location': 'front-end'}
        )


class TestKeys(EncryptedTest):
    """The key is made with the row, and goes with it. Keys are counted here."""

    def _configure(self):
        super()._configure()
        self.keys = _Keys()
        self.useFixture(fixtures.MonkeyPatch('castellan.key_manager.API', lambda conf: self.keys))

    def test_wake_up_keeps_the_key_and_delete_deletes_it(self):
        volume = self.reserve(volume_type='secret')
        key = self.row(volume).encryption_key_id
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert self.row(volume).encryption_key_id == key
        assert self.keys.ids == {key}
        found = self.get(f'/volumes/{volume["id"]}/encryption')
        assert found['encryption_key_id'] == key
        self.delete(volume)
        self.array.calls.clear()
        volume = self.reserve(volume_type='secret')
        assert self.keys.ids == {self.row(volume).encryption_key_id}
        self.delete(volume)
        self.assert_gone(volume)
        assert self.keys.ids == set()
        assert self.array.calls == []

    def test_refused_lease_deletes_the_key(self):
        self.lease_service.answer = refusal(409, 'no')
        self.reserve(volume_type='secret', status=400)
        assert self.keys.made == 1
        assert self.keys.ids == set()
        quota = self.get(f'/os-quota-sets/{ALICES}?usage=True')['quota_set']
        assert quota['volumes_secret']['in_use'] == 0
        # The refusal is answered, too, when the key cannot be deleted.
        self.lease_service.answer = refusal(409, 'The lease is full')
        self.keys.broken = True
        answer = self.reserve(volume_type='secret', status=400)
        assert answer['badRequest']['message'] == 'The lease is full'
        assert self.get('/volumes')['volumes'] == []
        assert self.quota_usage() == (0, 0)

    def test_delete_is_refused_when_the_key_cannot_be_deleted(self):
        """As for any volume: it is error_deleting until the keys are back."""
        volume = self.reserve(volume_type='secret')
        self.keys.broken = True
        self.delete(volume, status=400)
        self.assert_status(volume, 'error_deleting')
        assert self.keys.ids == {self.row(volume).encryption_key_id}


class TestFixedKey(EncryptedTest):
    """Cinder's own key manager, as castellan loads it: one key for all, which nobody deletes."""

    KEY = '00000000-0000-0000-0000-000000000000'

    def _configure(self):
        super()._configure()
        backend = 'cinder.keymgr.conf_key_mgr.ConfKeyManager'
        self.flags(backend=backend, fixed_key='0' * 64, group='key_manager')

    def test_fixed_key_is_kept_until_the_delete_which_leaves_nothing(self):
        volume = self.reserve(volume_type='secret')
        assert self.row(volume).encryption_key_id == self.KEY
        assert self.assert_status(volume, 'lease-reserved')['encrypted'] is True
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        found = self.get(f'/volumes/{volume["id"]}/encryption')
        assert (found['encryption_key_id'], found['cipher']) == (self.KEY, 'aes-xts-plain64')
        self.delete(volume)
        self.assert_gone(volume)
        assert self.quota_usage() == (0, 0)
        self.array.calls.clear()
        self.delete(self.reserve(volume_type='secret'))
        self.lease_service.answer = refusal(409, 'no')
        self.reserve(volume_type='secret', status=400)
        assert self.get('/volumes')['volumes'] == []
        assert self.array.calls == []
        assert self.quota_usage() == (0, 0)

    def test_clone_of_an_encrypted_volume_is_encrypted(self):
        """The key is copied with the reservation. Cinder changes it on a disk, which we lack."""
        rekey = 'cinder.volume.flows.manager.create_volume.CreateVolumeFromSpecTask._rekey_volume'
        self.useFixture(fixtures.MonkeyPatch(rekey, lambda *args: {}))
        source = self.volume_create(volume_type='secret')
        volume = self.reserve(source_volid=source['id'])
        assert self.row(volume).encryption_key_id == self.KEY
        self.wake_up(volume)
        self.assert_status(volume, 'available')


class _Keys:
    """A key manager, as castellan's interface has it."""

    def __init__(self):
        self.ids, self.made, self.broken = set(), 0, False

    def create_key(self, context, algorithm, length, **kwargs):
        self.made += 1
        key = f'{self.made:08d}-0000-0000-0000-000000000000'
        self.ids.add(key)
        return key

    def delete(self, context, managed_object_id, **kwargs):
        if self.broken:
            raise key_exception.KeyManagerError(reason='away')
        if managed_object_id not in self.ids:
            raise key_exception.ManagedObjectNotFoundError(uuid=managed_object_id)
        self.ids.remove(managed_object_id)
