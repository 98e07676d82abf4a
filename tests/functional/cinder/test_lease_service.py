# SPDX-License-Identifier: Apache-2.0
"""What the lease service asks of Cinder, answered by the real one: the fake one must not lie."""

import pathlib
from unittest import mock

import fixtures
import pytest
from cinder import exception, objects, policy

from climate_core import exceptions
from climate_core.cloud import errors, services, volumes
from tests.functional.cinder.lease_service import LeaseServiceTest
from tests.functional.cinder.users import ADMIN, ADMINS, ALICES, CLIMATE, User

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: The lines of Cinder's policy.yaml that the page Security shows.
LINES = ROOT / 'devstack/local/templates/policies/cinder.yaml'
#: The lease service by its own token.
SERVICE = User('climate', ADMINS, 'climate', 'member', 'reader', 'service')


class TestLeaseService(LeaseServiceTest):
    """As the owner of the lease by its trust, and as the service itself."""

    def test_reserved_volume_is_shown_woken_and_deleted(self):
        made = self.reserve(size=3)
        volume = volumes.get(CLIMATE, made['id'])
        assert (volume['status'], volume['size']) == ('lease-reserved', 3)
        assert volumes.read_project(volume) == ALICES
        assert volume['attachments'] == []
        assert list(volumes.list_ids(ADMIN, status='lease-reserved')) == [made['id']]
        volumes.act(CLIMATE, made['id'], 'os-wake_up')
        self.assert_status(made, 'available')
        with pytest.raises(errors.Busy):
            volumes.act(CLIMATE, made['id'], 'os-wake_up')
        volumes.delete(CLIMATE, made['id'])
        with pytest.raises(errors.Gone):
            volumes.get(CLIMATE, made['id'])

    def test_message_of_a_failure_is_shown(self):
        made = self.reserve()
        assert 'reports no reason' in volumes.read_failure_reason(CLIMATE, made['id'])
        self.array.fail['create_volume'] = exception.VolumeBackendAPIException(data='full')
        volumes.act(CLIMATE, made['id'], 'os-wake_up')
        self.assert_status(made, 'lease-reserved')
        assert 'reports no reason' not in volumes.read_failure_reason(CLIMATE, made['id'])

    def test_volumes_of_every_page_are_listed(self):
        made = {self.available()['id'] for _ in range(3)}
        with mock.patch.object(services, 'PAGE', 1):
            assert set(volumes.list_ids(ADMIN)) == made

    def test_only_an_administrator_lists_all_projects(self):
        volumes.check_all_visible(ADMIN)
        with pytest.raises(errors.Forbidden):
            volumes.check_all_visible(CLIMATE)
        made = self.available()
        assert list(volumes.list_ids(ADMIN)) == [made['id']]

    def test_policy_that_hides_volumes_of_other_projects_is_found(self):
        """The policy of the local cloud, and the same without the rules that read volumes."""
        lines = LINES.read_text().splitlines(keepends=True)
        alone = [line for line in lines if not line.startswith('"xena')]
        assert len(lines) > len(alone) + 1
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'policy.yaml')
        self.flags(policy_file=str(path), group='oslo_policy')
        for text, is_hidden in ((''.join(alone), True), (''.join(lines), False)):
            path.write_text(text)
            policy.reset()
            assert volumes.find_hidden(SERVICE) is None
            made = self.available()
            volumes.check_all_visible(SERVICE)
            assert made['id'] in volumes.list_ids(SERVICE)
            assert volumes.find_hidden(SERVICE) == (made['id'] if is_hidden else None)
            self.delete(made)
            self.assert_gone(made)
        with pytest.raises(errors.Forbidden):
            volumes.find_hidden(CLIMATE)

    def test_attachments_that_are_only_reserved_are_listed(self):
        made, other = self.available(), self.available()
        server = '11111111-1111-4111-8111-111111111111'
        for volume in (made, other):
            body = {'attachment': {'volume_uuid': volume['id'], 'instance_uuid': server}}
            self.post('/attachments', body, user=CLIMATE, status=200)
        self.assert_status(made, 'reserved')
        # The volume does not show what is only reserved.
        assert volumes.get(CLIMATE, made['id'])['attachments'] == []
        (mine,) = volumes.list_attachments(CLIMATE, made['id'], all_projects=False)
        assert volumes.list_attachments(ADMIN, made['id'], all_projects=True) == [mine]
        assert (mine['instance'], mine['volume_id']) == (server, made['id'])
        volumes.delete_attachment(CLIMATE, mine['id'])
        self.assert_status(made, 'available')

    def test_snapshot_is_created_found_and_deleted(self):
        made = self.available(name='data')
        find = (volumes.CopyKind.SNAPSHOT, made['id'], 'reservation-1')
        assert volumes.find_copy(CLIMATE, *find, all_projects=False) is None
        assert not volumes.has_snapshots(CLIMATE, made['id'], all_projects=False)
        volumes.create_copy(
            CLIMATE, volumes.CopyKind.SNAPSHOT, made['id'], 'kept', 'reservation-1'
        )
        for user, everywhere in ((CLIMATE, False), (ADMIN, True)):
            found = volumes.find_copy(user, *find, all_projects=everywhere)
            assert found.status == 'available'
            assert volumes.has_snapshots(user, made['id'], all_projects=everywhere)
        with pytest.raises(exceptions.Permanent, match='400'):
            volumes.delete(CLIMATE, made['id'])
        volumes.delete_copy(CLIMATE, volumes.CopyKind.SNAPSHOT, found.id)
        assert volumes.find_copy(CLIMATE, *find, all_projects=False) is None

    def test_backup_is_created_and_found(self):
        made = self.available(name='data')
        find = (volumes.CopyKind.BACKUP, made['id'], 'reservation-1')
        with mock.patch('cinder.scheduler.rpcapi.SchedulerAPI.create_backup'):
            volumes.create_copy(
                CLIMATE, volumes.CopyKind.BACKUP, made['id'], 'kept', 'reservation-1'
            )
            with pytest.raises(exceptions.Permanent, match='400'):
                volumes.create_copy(
                    CLIMATE, volumes.CopyKind.BACKUP, made['id'], 'kept', 'reservation-1'
                )
        self.assert_status(made, 'backing-up')
        for user, everywhere in ((CLIMATE, False), (ADMIN, True)):
            found = volumes.find_copy(user, *find, all_projects=everywhere)
            assert found.status == 'creating'
        row = objects.Backup.get_by_id(self.ctxt, found.id)
        row.update({'status': 'error', 'fail_reason': 'full'})
        row.save()
        assert volumes.find_copy(CLIMATE, *find, all_projects=False).reason == 'full'

    def test_snapshot_whose_message_is_lost_is_reset_and_created_again(self):
        made, kind = self.available(), volumes.CopyKind.SNAPSHOT
        find = (kind, made['id'], 'reservation-1')
        self.bus.lost.add('create_snapshot')
        volumes.create_copy(CLIMATE, kind, made['id'], 'kept', 'reservation-1')
        self.bus.lost.clear()
        lost = volumes.find_copy(CLIMATE, *find, all_projects=False)
        assert lost.status == 'creating'
        with pytest.raises(exceptions.Permanent, match='400'):
            volumes.delete_copy(CLIMATE, kind, lost.id)
        with pytest.raises(errors.Forbidden):
            volumes.reset_copy(CLIMATE, kind, lost.id)
        volumes.reset_copy(ADMIN, kind, lost.id)
        volumes.delete_copy(CLIMATE, kind, lost.id)
        volumes.create_copy(CLIMATE, kind, made['id'], 'kept', 'reservation-1')
        assert volumes.find_copy(CLIMATE, *find, all_projects=False).status == 'available'

    def test_backup_whose_message_is_lost_is_left_and_created_again(self):
        made, kind = self.available(), volumes.CopyKind.BACKUP
        find = (kind, made['id'], 'reservation-1')
        self.bus.lost.add('create_backup')
        volumes.create_copy(CLIMATE, kind, made['id'], 'kept', 'reservation-1')
        (lost, host) = volumes.find_copy(CLIMATE, *find, all_projects=False), 'host2'
        name = 'cinder.backup.api.API._get_available_backup_service_host'
        with mock.patch(name, return_value=host):
            volumes.reset_copy(ADMIN, kind, lost.id)
        assert self.bus.casts[-1] == ('reset_status', 'cinder-backup', host)
        # No cinder-backup has begun it, so none resets it.
        assert volumes.find_copy(CLIMATE, *find, all_projects=False) == lost
        volumes.act(ADMIN, made['id'], 'os-reset_status', {'status': 'available'})
        volumes.disown_copy(CLIMATE, kind, lost.id)
        assert volumes.find_copy(CLIMATE, *find, all_projects=False) is None
        volumes.create_copy(CLIMATE, kind, made['id'], 'kept', 'reservation-1')
        assert volumes.find_copy(CLIMATE, *find, all_projects=False).id != lost.id

    def test_volume_in_use_by_nobody_is_reset_and_deleted(self):
        for status in ('in-use', 'reserved', 'awaiting-transfer'):
            with self.subTest(status):
                made = self.available()
                self.write(made, status=status, attach_status='attached')
                with pytest.raises(exceptions.Permanent, match='400'):
                    volumes.delete(CLIMATE, made['id'])
                free = {'status': 'available', 'attach_status': 'detached'}
                volumes.act(ADMIN, made['id'], 'os-reset_status', free)
                volumes.delete(CLIMATE, made['id'])
                self.assert_gone(made)

    def test_transfers_of_a_volume_are_cancelled(self):
        made, other = self.available(), self.available()
        for volume in (made, other):
            self.post('/os-volume-transfer', {'transfer': {'volume_id': volume['id']}})
        self.assert_status(made, 'awaiting-transfer')
        for user, query in ((CLIMATE, {}), (ADMIN, {'all_tenants': 1})):
            query |= {'volume_id': made['id']}
            found = volumes.CINDER.send(user, 'GET', '/os-volume-transfer', query=query).json()
            assert [each['volume_id'] for each in found['transfers']] == [made['id']]
        volumes.cancel_transfers(CLIMATE, made['id'], all_projects=False)
        self.assert_status(made, 'available')
        self.assert_status(other, 'awaiting-transfer')
        volumes.cancel_transfers(ADMIN, other['id'], all_projects=True)
        self.assert_status(other, 'available')

    def test_failed_delete_is_repeated_after_a_reset(self):
        made = self.available()
        self.write(made, status='error_deleting')
        with pytest.raises(exceptions.Permanent, match='400'):
            volumes.delete(CLIMATE, made['id'])
        volumes.act(ADMIN, made['id'], 'os-reset_status', {'status': 'error'})
        volumes.delete(CLIMATE, made['id'])
        self.assert_gone(made)

    def test_attachment_of_the_older_api_is_undone(self):
        made = self.available()
        self.action(made, 'os-reserve')
        self.assert_status(made, 'attaching')
        assert volumes.list_attachments(CLIMATE, made['id'], all_projects=False) == []
        volumes.act(CLIMATE, made['id'], 'os-unreserve')
        self.assert_status(made, 'available')
