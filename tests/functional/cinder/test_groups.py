# SPDX-License-Identifier: Apache-2.0
"""Groups of volumes, and reserved ones: neither do these get into a group, nor do they lose their
source with one.
"""

from cinder.volume import group_types

from tests.functional.cinder.base import HOST, CinderTest
from tests.functional.cinder.users import ADMIN, ALICES, BOB, User
from tests.functional.lease_service import refusal

READER = User('carol', ALICES, 'reader')


class GroupTest(CinderTest):
    def setUp(self):
        super().setUp()
        self.types = [self.get('/types')['volume_types'][0]['id']]
        self.kind = group_types.create(self.ctxt, 'plain')
        self.group = self.make_group()

    def make_group(self):
        body = {'group_type': self.kind.id, 'volume_types': self.types}
        return self.post('/groups', {'group': body})['group']

    def grouped(self):
        """Return an ordinary volume in the group."""
        volume = self.volume_create(volume_type=self.types[0], group_id=self.group['id'])
        return self.assert_status(volume, 'available')

    def delete_group(self, status=202, user=ADMIN, path=None, body=None):
        path = path or f'/groups/{self.group["id"]}/action'
        return self.post(path, body or {'delete': {'delete-volumes': True}}, user, status)

    def assert_needed(self, answer, *volumes):
        message = answer['badRequest']['message']
        for each in volumes:
            assert each['id'] in message, message


class TestGroup(GroupTest):
    def test_delete_of_a_needed_source_is_400(self):
        source, other = self.grouped(), self.grouped()
        volumes = [self.reserve(source_volid=source['id']) for _ in range(2)]
        self.delete_group(404, user=BOB)
        self.delete_group(403, user=READER)
        self.assert_needed(self.delete_group(400), *volumes)
        # Another group can be deleted.
        needed, self.group = self.group, self.make_group()
        free = self.grouped()
        self.delete_group()
        self.assert_gone(free)
        self.group = needed
        self.get(f'/groups/{needed["id"]}')
        for each in (source, other):
            self.assert_status(each, 'available')
        for volume in volumes:
            self.wake_up(volume)
            self.assert_status(volume, 'available')
        self.delete_group()
        self.assert_gone(source)
        assert self.quota_usage() == (2, 2)

    def test_reserved_volume_cannot_join_a_group(self):
        volume = self.reserve(volume_type=self.types[0])
        path = f'/groups/{self.group["id"]}'
        body = {'group': {'add_volumes': volume['id']}}
        answer = self.request('PUT', path, body, status=400)
        assert volume['id'] in answer.json['badRequest']['message']
        self.assert_status(volume, 'lease-reserved')
        assert self.row(volume).group_id is None
        self.wake_up(volume)
        self.request('PUT', path, body, status=202)
        assert self.row(volume).group_id == self.group['id']

    def test_group_beside_reserved_volumes_works(self):
        """All that groups do is as ever; the waiting one is not touched."""
        waiting = self.reserve(volume_type=self.types[0])
        source = self.grouped()
        self.array.calls.clear()
        taken = self.post('/group_snapshots', {'group_snapshot': {'group_id': self.group['id']}})
        assert [name for name, _ in self.array.calls] == ['create_snapshot']
        body = {'group_snapshot_id': taken['group_snapshot']['id']}
        made = self.post('/groups/action', {'create-from-src': body})['group']
        found = self.get(f'/groups/{made["id"]}?list_volume=True')['group']['volumes']
        assert len(found) == 1
        assert waiting['id'] not in found
        assert source['id'] not in found
        self.assert_status(waiting, 'lease-reserved')
        assert self.lease_service.requests[1:] == []


class TestGroupSnapshot(GroupTest):
    def setUp(self):
        super().setUp()
        self.source = self.grouped()
        body = {'group_snapshot': {'group_id': self.group['id']}}
        self.taken = self.post('/group_snapshots', body)['group_snapshot']
        (snapshot,) = self.get('/snapshots')['snapshots']
        self.volume = self.reserve(snapshot_id=snapshot['id'])
        self.path = f'/group_snapshots/{self.taken["id"]}'

    def test_delete_of_a_needed_source_is_400(self):
        self.request('DELETE', self.path, user=BOB, status=404)
        self.request('DELETE', f'/group_snapshots/{self.volume["id"]}', status=404)
        self.request('DELETE', self.path, user=READER, status=403)
        other = self.post('/group_snapshots', {'group_snapshot': {'group_id': self.group['id']}})
        self.request('DELETE', f'/group_snapshots/{other["group_snapshot"]["id"]}', status=202)
        answer = self.request('DELETE', self.path, status=400)
        self.assert_needed(answer.json, self.volume)
        assert self.get(self.path)['group_snapshot']['status'] == 'available'
        self.wake_up(self.volume)
        self.request('DELETE', self.path, status=202)
        assert self.get('/snapshots')['snapshots'] == []

    def test_refused_lease_frees_the_source(self):
        self.delete(self.volume)
        self.lease_service.answer = refusal(409, 'no')
        (snapshot,) = self.get('/snapshots')['snapshots']
        self.reserve(snapshot_id=snapshot['id'], status=400)
        self.request('DELETE', self.path, status=202)


class TestConsistencyGroup(GroupTest):
    """The same by the older words."""

    def make_group(self):
        # Cinder does not do without a driver here.
        driver = self.volumes[HOST].manager.driver
        driver.create_consistencygroup = lambda context, group: {'status': 'available'}
        driver.update_consistencygroup = lambda *args, **kwargs: (None, None, None)
        driver.delete_consistencygroup = lambda *args: (None, _gone(args[-1]))
        driver.create_cgsnapshot = lambda *args: (None, None)
        driver.delete_cgsnapshot = lambda *args: (None, _gone(args[-1]))
        body = {'consistencygroup': {'volume_types': self.types[0], 'name': 'old'}}
        group = self.post('/consistencygroups', body)['consistencygroup']
        return {'id': group['id']}

    def grouped(self):
        volume = self.volume_create(volume_type=self.types[0])
        body = {'consistencygroup': {'add_volumes': volume['id']}}
        path = f'/consistencygroups/{self.group["id"]}/update'
        self.request('PUT', path, body, status=202)
        assert self.row(volume).group_id == self.group['id']
        return volume

    def test_delete_of_a_needed_source_is_400(self):
        source = self.grouped()
        volume = self.reserve(source_volid=source['id'])
        path = f'/consistencygroups/{self.group["id"]}/delete'
        body = {'consistencygroup': {'force': True}}
        self.assert_needed(self.delete_group(400, path=path, body=body), volume)
        self.assert_status(source, 'available')
        self.delete(volume)
        self.delete_group(path=path, body=body)
        self.assert_gone(source)
        assert self.quota_usage(ALICES) == (0, 0)

    def test_delete_of_a_needed_snapshot_is_400(self):
        self.grouped()
        body = {'cgsnapshot': {'consistencygroup_id': self.group['id'], 'name': 's'}}
        taken = self.post('/cgsnapshots', body, ADMIN)['cgsnapshot']
        (snapshot,) = self.get('/snapshots?all_tenants=1', user=ADMIN)['snapshots']
        volume = self.reserve(user=ADMIN, snapshot_id=snapshot['id'])
        path = f'/cgsnapshots/{taken["id"]}'
        answer = self.request('DELETE', path, user=ADMIN, status=400)
        self.assert_needed(answer.json, volume)
        self.delete(volume, user=ADMIN)
        self.request('DELETE', path, user=ADMIN, status=202)


def _gone(members):
    return [{'id': each['id'], 'status': 'deleted'} for each in members]
