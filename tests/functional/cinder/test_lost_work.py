# SPDX-License-Identifier: Apache-2.0
"""The end of a volume whose work was lost: Cinder changed its status, and the message is gone."""

import datetime
from types import SimpleNamespace
from unittest import mock

import pytest
from cinder import objects
from cinder.volume import volume_types
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.cloud import volumes
from climate_core.plugins import volume_end, volume_recovery
from climate_core.plugins.step_context import END, EndContext, Progress
from tests.functional.cinder.base import IMAGE
from tests.functional.cinder.lease_service import LeaseServiceTest
from tests.functional.cinder.users import ADMIN, ALICES, CLIMATE
from tests.support import leases

BACKUP_HOST = 'cinder.backup.api.API._get_available_backup_service_host'
#: The message that is lost -> the limit.
KEEPS_DATA = {
    'extend_volume': 'lost_extend_minutes',
    'retype': 'lost_copy_minutes',
    'copy_volume_to_image': 'lost_copy_minutes',
    'create_backup': 'lost_copy_minutes',
}
WRITES_DATA = dict.fromkeys(
    ('reimage', 'restore_backup', 'revert_to_snapshot'), 'lost_copy_minutes'
)


class TestLostWork(LeaseServiceTest):
    def setUp(self):
        super().setUp()
        self.now = datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)
        self.progress = None
        self.options = SimpleNamespace(
            **{each.dest: each.default for each in volume_recovery.RECOVERY_OPTIONS}
        )

    def begin(self, message):
        """Ask for what is lost; return the volume."""
        made, self.progress = self.available(size=2), None
        self.bus.lost.add(message)
        with mock.patch(BACKUP_HOST, return_value='host2'):
            getattr(self, message)(made)
        self.bus.lost.clear()
        return made

    def extend_volume(self, made):
        self.action(made, 'os-extend', new_size=5)

    def retype(self, made):
        volume_types.create(self.ctxt, 'other')
        self.action(made, 'os-retype', new_type='other', migration_policy='on-demand')

    def copy_volume_to_image(self, made):
        self.action(made, 'os-volume_upload_image', image_name='i1')

    def create_backup(self, made):
        self.post('/backups', {'backup': {'volume_id': made['id'], 'name': 'b1'}})

    def reimage(self, made):
        self.action(made, 'os-reimage', image_id=IMAGE)

    def restore_backup(self, made):
        backup = objects.Backup(
            self.ctxt,
            volume_id=made['id'],
            status='available',
            size=2,
            user_id='alice',
            project_id=ALICES,
            host='host2',
            service='x',
        )
        backup.create()
        self.post(f'/backups/{backup.id}/restore', {'restore': {'volume_id': made['id']}})

    def revert_to_snapshot(self, made):
        snapshot = self.snapshot(made)
        self.action(made, 'revert', snapshot_id=snapshot['id'])

    def look(self, made, on_end, minutes=0):
        """Look at the end of the volume, so many minutes later than the last time."""
        self.now += datetime.timedelta(minutes=minutes)
        one = leases.reservation(made['id'], 'active', on_end=on_end)
        context = EndContext(
            CLIMATE,
            mock.Mock(service=lambda: ADMIN),
            leases.lease(one),
            one,
            Progress.load(self.progress, END, self.now),
            self.now,
            self.options,
            prefix='kept_',
        )
        wait = volume_end.take_end_step(context, volumes.get(CLIMATE, made['id']))
        self.progress = wait and wait.progress
        return wait

    def assert_reset(self, made, on_end, limit):
        """Let the limit pass; the last change that Cinder made is the loss."""
        status = self.show(made)['status']
        minutes = getattr(self.options, limit)
        assert self.look(made, on_end).reason is None
        assert f'{status} without a change' in self.look(made, on_end, minutes / 2).reason
        assert self.look(made, on_end, minutes / 2 - 1).repair is None
        self.assert_status(made, status)
        wait = self.look(made, on_end, 1)
        assert (wait.repair, 'status was reset' in wait.reason) == ('reset_status', True)

    def test_volume_whose_data_is_whole_is_reset_and_deleted(self):
        for message, limit in KEEPS_DATA.items():
            with self.subTest(message):
                made = self.begin(message)
                self.assert_reset(made, 'delete', limit)
                self.assert_status(made, 'available')
                self.look(made, 'delete')
                self.assert_gone(made)

    def test_volume_whose_data_is_whole_is_kept_with_a_snapshot(self):
        for message, limit in KEEPS_DATA.items():
            with self.subTest(message):
                made = self.begin(message)
                self.assert_reset(made, 'snapshot', limit)
                self.look(made, 'snapshot')
                assert self.look(made, 'snapshot') is None
                assert volumes.has_snapshots(CLIMATE, made['id'], all_projects=False)

    def test_volume_whose_data_is_uncertain_is_in_error(self):
        for message, limit in WRITES_DATA.items():
            with self.subTest(message):
                made = self.begin(message)
                self.assert_reset(made, 'detach', limit)
                self.assert_status(made, 'error')
                assert self.look(made, 'detach') is None

    def test_volume_that_a_server_has_is_in_use_again(self):
        made = self.available(size=2)
        server = uuidutils.generate_uuid()
        body = {'attachment': {'volume_uuid': made['id'], 'instance_uuid': server}}
        self.post('/attachments', body, user=CLIMATE, status=200)
        self.write(made, status='uploading')
        self.assert_reset(made, 'delete', 'lost_copy_minutes')
        self.assert_status(made, 'in-use')

    def test_migration_of_a_lost_retype_does_not_keep_the_volume_from_its_deletion(self):
        made = self.begin('retype')
        self.write(made, migration_status='migrating')
        self.assert_reset(made, 'delete', 'lost_copy_minutes')
        self.look(made, 'delete')
        self.assert_gone(made)

    def test_unmanaging_that_was_lost_is_asked_for_again_and_keeps_the_data(self):
        made, self.progress = self.available(size=2), None
        self.bus.lost.add('delete_volume')
        self.action(made, 'os-unmanage', user=ADMIN)
        self.bus.lost.clear()
        minutes = self.options.lost_delete_minutes
        assert self.look(made, 'delete').reason is None
        assert 'unmanaging without a change' in self.look(made, 'delete', minutes / 2).reason
        assert self.look(made, 'delete', minutes / 2).repair == 'unmanage'
        self.assert_gone(made)
        assert made['id'] in self.array.volumes

    def test_failed_backup_that_no_cinder_backup_can_delete_is_told(self):
        made = self.available(size=2)
        backup = objects.Backup(
            self.ctxt,
            volume_id=made['id'],
            status='error',
            fail_reason='Service not found for creating backup.',
            size=2,
            user_id='alice',
            project_id=ALICES,
            service='x',
            metadata={volumes.RESERVATION_KEY: leases.reservation(made['id']).id},
        )
        backup.create()
        told = (
            'Service not found for creating backup. The failed backup '
            f'{backup.id} could not be deleted: Cinder answered 404: .*cinder-backup'
        )
        for _ in range(2):
            with pytest.raises(exceptions.Transient, match=told):
                self.look(made, 'backup')
        with (
            mock.patch(BACKUP_HOST, return_value='host2'),
            pytest.raises(exceptions.Transient, match=r'for creating backup\.?$'),
        ):
            self.look(made, 'backup')
        assert objects.Backup.get_by_id(self.ctxt, backup.id).status == 'deleting'
