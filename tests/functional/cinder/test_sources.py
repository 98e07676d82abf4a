# SPDX-License-Identifier: Apache-2.0
"""What a reserved volume will be made from stays until its lease has started."""

import uuid

import fixtures
import pytest
from cinder import exception, objects
from cinder.volume import volume_types

from cinder_ext import reservation_marker, sources
from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ADMIN, ALICE, ALICES
from tests.functional.cinder.woken import mark_left


class SourceTest(CinderTest):
    def refused(self, path, volume, *others, user=ALICE):
        """DELETE in vain; the answer names who needs it."""
        answer = self.request('DELETE', path, user=user, status=400)
        message = answer.json['badRequest']['message']
        for each in (volume, *others):
            assert each['id'] in message, message
        return message

    def assert_marked(self, volume, state):
        assert reservation_marker.get_state(self.ctxt, self.row(volume)) == state


class TestVolume(SourceTest):
    def setUp(self):
        super().setUp()
        self.source = self.volume_create()
        self.path = f'/volumes/{self.source["id"]}'
        self.volume = self.reserve(source_volid=self.source['id'])

    def test_source_is_kept_until_the_lease_starts(self):
        self.assert_status(self.volume, 'lease-reserved')
        self.refused(self.path, self.volume)
        self.refused(f'{self.path}?cascade=True', self.volume)
        self.refused(f'{self.path}?force=True', self.volume, user=ADMIN)
        for action in ('os-force_delete', 'os-unmanage'):
            answer = self.action(self.source, action, user=ADMIN, status=400)
            assert self.volume['id'] in answer['badRequest']['message']
        # A creation that broke off will be tried again.
        self.array.fail['create_cloned_volume'] = RuntimeError('no disk')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'lease-reserved')
        self.refused(self.path, self.volume)
        self.assert_status(self.source, 'available')
        self.array.fail.clear()
        self.array.calls.clear()
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')
        assert self.array.called('create_cloned_volume') == [
            ('create_cloned_volume', self.volume['id'])
        ]
        self.delete(self.source)
        self.assert_gone(self.source)

    def test_source_is_kept_by_every_reserved_volume_in_any_status(self):
        other = self.reserve(source_volid=self.source['id'])
        self.refused(self.path, self.volume, other)
        self.delete(self.volume)
        message = self.refused(self.path, other)
        assert self.volume['id'] not in message
        self.write(other, status='error')
        self.refused(self.path, other)
        reservation_marker.set_waking(self.ctxt, self.row(other))
        self.refused(self.path, other)
        self.write(other, status='lease-reserved')
        reservation_marker.set_held(self.ctxt, self.row(other))
        # One of another project keeps it, too; an ordinary one or one without a marker does not.
        clone = self.volume_create(source_volid=self.source['id'])
        self.assert_status(clone, 'available')
        theirs = self.reserve(user=ADMIN, source_volid=self.source['id'])
        self.refused(self.path, theirs)
        self.delete(theirs, user=ADMIN)
        reservation_marker.clear(self.ctxt, self.row(other))
        self.delete(self.source)
        self.assert_gone(self.source)

    def test_complete_volume_with_a_marker_frees_the_source(self):
        """The volume is complete, and cinder-volume died before it took the mark away."""
        with mark_left():
            self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')
        self.assert_marked(self.volume, reservation_marker.WAKING)
        self.delete(self.source)
        self.assert_gone(self.source)

    def test_extend_beyond_the_reserved_volume_is_400(self):
        larger = self.reserve(source_volid=self.source['id'], size=3)
        for size, others in ((2, []), (4, [larger])):
            answer = self.action(self.source, 'os-extend', status=400, new_size=size)
            message = answer['badRequest']['message']
            assert 'must not grow' in message
            assert self.volume['id'] in message
            assert (larger['id'] in message) == bool(others)
        self.write(self.source, status='in-use', attach_status='attached')
        answer = self.action(self.source, 'os-extend', status=400, new_size=2)
        assert self.volume['id'] in answer['badRequest']['message']
        self.write(self.source, status='available', attach_status='detached')
        beside = self.volume_create()
        self.delete(self.volume)
        for volume, size in ((self.source, 3), (beside, 9)):
            self.action(volume, 'os-extend', new_size=size)
            assert self.show(volume)['size'] == size

    def test_migration_of_a_source_is_400(self):
        move = {'host': 'other@fake#pool'}
        retype = {'new_type': 'tests', 'migration_policy': 'on-demand'}
        for action, body in (('os-migrate_volume', move), ('os-retype', retype)):
            answer = self.action(self.source, action, ADMIN, 400, **body)
            assert self.volume['id'] in answer['badRequest']['message']
        self.assert_status(self.source, 'available')
        self.delete(self.volume)
        for action, body in (('os-migrate_volume', move), ('os-retype', retype)):
            answer = self.action(self.source, action, ADMIN, None, **body)
            assert self.volume['id'] not in str(answer)

    def test_retype_without_migration_is_accepted(self):
        other = volume_types.create(self.ctxt, 'other')
        self.action(self.source, 'os-retype', new_type=other.id, migration_policy='never')
        assert ('retype', 'cinder-scheduler', None) in self.bus.casts


class TestSnapshot(SourceTest):
    def setUp(self):
        super().setUp()
        self.source = self.volume_create()
        self.taken = self.snapshot(self.source)
        self.path = f'/snapshots/{self.taken["id"]}'
        self.volume = self.reserve(snapshot_id=self.taken['id'])

    def test_source_is_kept_until_the_lease_starts(self):
        self.refused(self.path, self.volume)
        self.refused(f'/volumes/{self.source["id"]}?cascade=True', self.volume)
        for action in ('os-force_delete', 'os-unmanage'):
            answer = self.post(f'{self.path}/action', {action: {}}, ADMIN, 400)
            assert self.volume['id'] in answer['badRequest']['message']
        assert self.get(self.path)['snapshot']['status'] == 'available'
        self.assert_status(self.source, 'available')
        other = self.snapshot(self.source)
        self.request('DELETE', f'/snapshots/{other["id"]}', status=202)
        self.get(f'/snapshots/{other["id"]}', status=404)
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')
        self.request('DELETE', self.path, status=202)
        self.get(self.path, status=404)

    def test_complete_volume_with_a_marker_frees_the_source(self):
        with mark_left():
            self.wake_up(self.volume)
        self.assert_marked(self.volume, reservation_marker.WAKING)
        self.request('DELETE', self.path, status=202)
        self.get(self.path, status=404)


class TestBackup(SourceTest):
    def setUp(self):
        super().setUp()
        self.backup = self.make()
        self.path = f'/backups/{self.backup.id}'
        self.volume = self.reserve(backup_id=self.backup.id)
        self.deleted = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.backup.rpcapi.BackupAPI.delete_backup',
                lambda api, context, backup: self.deleted.append(backup.id),
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.backup.api.API._get_available_backup_service_host',
                lambda api, host, zone: host,
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.backup.api.API._check_support_to_force_delete',
                lambda api, context, host: True,
            )
        )

    def make(self):
        """Return a backup in the database; cinder-backup does not run here."""
        backup = objects.Backup(
            context=self.ctxt,
            user_id='alice',
            project_id=ALICES,
            volume_id=str(uuid.uuid4()),
            status='available',
            size=1,
            host='backup-host',
            service='cinder.backup.drivers.nfs.NFSBackupDriver',
        )
        backup.create()
        return backup

    def test_source_is_kept_until_the_reserved_volume_is_deleted(self):
        assert reservation_marker.get_creation_args(self.ctxt, self.row(self.volume)) == {
            'backup_id': self.backup.id
        }
        self.refused(self.path, self.volume)
        answer = self.post(f'{self.path}/action', {'os-force_delete': {}}, ADMIN, 400)
        assert self.volume['id'] in answer['badRequest']['message']
        assert self.deleted == []
        other = self.make()
        self.request('DELETE', f'/backups/{other.id}', status=202)
        self.delete(self.volume)
        self.request('DELETE', self.path, status=202)
        assert self.deleted == [other.id, self.backup.id]

    def test_complete_volume_with_a_marker_frees_the_source(self):
        with mark_left():
            self.wake_up(self.volume)
        self.assert_marked(self.volume, reservation_marker.WAKING)
        self.request('DELETE', self.path, status=202)
        assert self.deleted == [self.backup.id]

    def test_backup_is_found_beside_long_arguments(self):
        """The id lies in the first piece of the mark, whatever else there will be one day."""
        row = self.row(self.volume)
        reservation_marker.create(
            self.ctxt, row, 'held', 'lease', {'backup_id': self.backup.id, 'image_id': 'x' * 600}
        )
        assert reservation_marker.get_creation_args(self.ctxt, row)['image_id'] == 'x' * 600
        with pytest.raises(exception.InvalidBackup, match=self.volume['id']):
            sources.check_backup(self.ctxt, self.backup)
