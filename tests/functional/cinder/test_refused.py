# SPDX-License-Identifier: Apache-2.0
"""What cannot be done with a volume that does not exist yet: refused, and nothing is touched."""

from cinder_ext import reservation_marker
from tests.functional.cinder.base import IMAGE, POOL, CinderTest
from tests.functional.cinder.users import ADMIN, CLIMATE
from tests.functional.cinder.woken import make_backup, mark_left

SERVER = '11111111-2222-3333-4444-555555555555'
CONNECTOR = {'connector': {'host': 'h', 'initiator': 'iqn.x', 'ip': '192.0.2.1'}}

#: Every action on volumes of cinder 29 that needs the volume, with a body for it.
ACTIONS = {
    'os-attach': {'instance_uuid': SERVER, 'mountpoint': '/dev/vdb', 'mode': 'rw'},
    'os-detach': {},
    'os-force_detach': CONNECTOR,
    'os-reserve': None,
    'os-begin_detaching': None,
    'os-initialize_connection': CONNECTOR,
    'os-terminate_connection': CONNECTOR,
    'os-volume_upload_image': {'image_name': 'image', 'force': True},
    'os-extend': {'new_size': 5},
    'os-extend_volume_completion': {},
    'os-update_readonly_flag': {'readonly': True},
    'os-retype': {'new_type': 'tests', 'migration_policy': 'on-demand'},
    'os-migrate_volume': {'host': 'other@fake#pool', 'force_host_copy': True},
    'os-reimage': {'image_id': IMAGE, 'reimage_reserved': True},
    'os-unmanage': None,
    'revert': {'snapshot_id': SERVER},
}
#: Calls beside it that need the volume.
OTHERS = {
    '/snapshots': lambda volume_id: {'snapshot': {'volume_id': volume_id, 'force': True}},
    '/attachments': lambda volume_id: {
        'attachment': {'volume_uuid': volume_id, 'instance_uuid': SERVER}
    },
    '/backups': lambda volume_id: {'backup': {'volume_id': volume_id, 'force': True}},
    '/os-volume-transfer': lambda volume_id: {'transfer': {'volume_id': volume_id}},
    '/volume-transfers': lambda volume_id: {'transfer': {'volume_id': volume_id}},
    '/volumes': lambda volume_id: {'volume': {'source_volid': volume_id}},
    '/manageable_snapshots': lambda volume_id: {
        'snapshot': {'volume_id': volume_id, 'ref': {'source-name': 's'}}
    },
}


class TestHeld(CinderTest):
    def setUp(self):
        super().setUp()
        self.volume = self.reserve(size=2)
        self.array.calls.clear()

    def assert_untouched(self, status='lease-reserved'):
        self.assert_status(self.volume, status)
        assert self.array.calls == []
        assert reservation_marker.get_state(self.ctxt, self.row(self.volume)) == 'held'

    def refused(self, action, body, user=ADMIN):
        """POST an action that cannot be; gives the message."""
        path = f'/volumes/{self.volume["id"]}/action'
        answer = self.request('POST', path, {action: body}, user=user)
        assert answer.status_int in (400, 409), (action, answer)
        return next(iter(answer.json.values()))['message']

    def test_action_that_needs_the_volume_is_refused(self):
        for action, body in ACTIONS.items():
            with self.subTest(action=action):
                message = self.refused(action, body)
                assert 'There is no such action' not in message
                assert 'Invalid input for field' not in message
                self.assert_untouched()
        for action in ('os-attach', 'os-initialize_connection', 'os-terminate_connection'):
            assert 'is reserved' in self.refused(action, ACTIONS[action], user=CLIMATE)
        self.assert_untouched()
        # Cinder answers these for any volume, and they change nothing here.
        for action in ('os-unreserve', 'os-roll_detaching'):
            self.post(f'/volumes/{self.volume["id"]}/action', {action: None}, ADMIN, 202)
        self.assert_untouched()

    def test_call_that_needs_the_volume_is_refused(self):
        for path, body in OTHERS.items():
            with self.subTest(path=path):
                answer = self.request('POST', path, body(self.volume['id']), user=ADMIN)
                assert answer.status_int in (400, 409), (path, answer)
                self.assert_untouched()
        answer = self.snapshot(self.volume, status=400)
        assert 'lease-reserved' in answer['badRequest']['message']
        assert self.get('/snapshots')['snapshots'] == []
        body = {'volume': {'host': POOL, 'ref': {'source-name': f'volume-{self.volume["id"]}'}}}
        self.post('/manageable_volumes', body, ADMIN, 400)
        self.assert_untouched()
        assert self.quota_usage() == (1, 2)

    def test_end_of_a_missing_migration_changes_nothing(self):
        other = self.volume_create()
        self.array.calls.clear()
        body = {'new_volume': other['id'], 'error': False}
        self.action(self.volume, 'os-migrate_volume_completion', ADMIN, 200, **body)
        body = {'new_volume': self.volume['id'], 'error': False}
        self.action(other, 'os-migrate_volume_completion', ADMIN, 200, **body)
        self.assert_untouched()
        self.assert_status(other, 'available')

    def test_restore_of_a_backup_into_it_is_400(self):
        backup = make_backup(self)
        self.array.calls.clear()
        body = {'restore': {'volume_id': self.volume['id']}}
        answer = self.post(f'/backups/{backup.id}/restore', body, status=400)
        assert 'must be available' in answer['badRequest']['message']
        self.assert_untouched()

    def test_attachment_of_a_reserved_volume_is_refused(self):
        for path, body in (
            ('/attachments', {'connector': CONNECTOR['connector']}),
            ('/attachments', {'mode': 'ro'}),
        ):
            body = {'attachment': {'volume_uuid': self.volume['id'], **body}}
            answer = self.request('POST', path, body, user=CLIMATE)
            assert answer.status_int in (400, 409), answer
        assert self.get('/attachments?all_tenants=1', user=ADMIN)['attachments'] == []
        self.assert_untouched()

    def test_attachment_is_refused_in_any_status_of_the_row(self):
        """Not the status says that nothing is there."""
        for status in ('creating', 'error_deleting', 'error_restoring', 'available'):
            self.write(self.volume, status=status)
            for action in ('os-attach', 'os-initialize_connection', 'os-terminate_connection'):
                with self.subTest(status=status, action=action):
                    assert 'is reserved' in self.refused(action, ACTIONS[action])
                    self.assert_untouched(status)
        self.write(self.volume, status='lease-reserved')
        path = f'/volumes/{self.volume["id"]}/action'
        self.post(path, {'os-reset_status': {'status': 'error'}}, ADMIN)
        for action in ('os-attach', 'os-initialize_connection', 'os-reimage', 'os-unmanage'):
            assert 'is reserved' in self.refused(action, ACTIONS[action])
        self.assert_untouched('error')

    def test_ordinary_volume_in_error_is_left_to_cinder(self):
        other = self.volume_create()
        self.write(other, status='error')
        # As in cinder: a driver may try.
        self.action(other, 'os-initialize_connection', user=ADMIN, status=200, **CONNECTOR)
        assert ('initialize_connection', other['id']) in self.array.calls


class TestResetStatus(CinderTest):
    def setUp(self):
        super().setUp()
        self.volume = self.reserve()

    def reset(self, values, user=ADMIN, status=202):
        return self.post(
            f'/volumes/{self.volume["id"]}/action', {'os-reset_status': values}, user, status
        )

    def test_reset_to_any_other_status_is_400(self):
        for values in (
            {'status': 'available'},
            {'status': 'AVAILABLE'},
            {'status': 'in-use'},
            {'status': 'creating'},
            {'status': 'reserved'},
            {'attach_status': 'attached'},
            {'status': 'error', 'attach_status': 'attached'},
            {'migration_status': 'migrating'},
        ):
            with self.subTest(**values):
                answer = self.reset(values, status=400)
                assert 'is reserved' in answer['badRequest']['message']
        for values in ({'status': 'no-such-status'}, 'available', {'status': 5}):
            self.reset(values, status=400)
        self.reset({'status': 'available'}, user=CLIMATE, status=403)
        self.post(f'/volumes/{POOL}/action', {'os-reset_status': {'status': 'error'}}, ADMIN, 404)
        found = self.assert_status(self.volume, 'lease-reserved')
        assert found['migration_status'] is None

    def test_reset_of_a_complete_volume_with_a_marker_is_accepted(self):
        """The volume is complete: cinder-volume died before it took the mark away."""
        with mark_left():
            self.wake_up(self.volume)
        for status in ('error', 'available'):
            self.reset({'status': status})
            self.assert_status(self.volume, status)
        self.action(self.volume, 'os-initialize_connection', ADMIN, 200, **CONNECTOR)
        self.array.calls.clear()
        self.delete(self.volume)
        assert ('delete_volume', self.volume['id']) in self.array.calls
        assert self.quota_usage() == (0, 0)

    def test_reset_to_error_can_be_woken_and_then_reset_as_any_volume(self):
        self.reset({'status': 'error'})
        self.assert_status(self.volume, 'error')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')
        assert self.volume['id'] in self.array.volumes
        for status in ('error', 'available'):
            self.reset({'status': status})
            self.assert_status(self.volume, status)
