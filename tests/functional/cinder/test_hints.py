# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /volumes: reserved, or 400 with the field named and nothing left behind."""

from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ADMIN
from tests.functional.hints import LEASE, Accepted, Refused, params


class TestAccepted(Accepted, CinderTest):
    TYPE, ON_END = 'virtual:volume', 'backup'

    def reserved(self, hints, **body):
        volume = self.volume_create(hints, **body)
        self.assert_status(volume, 'lease-reserved')
        assert volume['id'] not in self.array.volumes
        return volume

    def test_each_value_of_on_end_is_accepted(self):
        for on_end in ('delete', 'backup', 'snapshot', 'detach', 'nothing'):
            volume = self.reserved({'lease_params': params(on_end=on_end, id=LEASE)})
            assert self.lease_service.lease['reservations'][0]['on_end'] == on_end
            self.delete(volume)
            self.lease_service.leases.clear()

    def test_reserved_false_is_an_ordinary_volume_and_other_hints_reach_the_scheduler(self):
        seen = []
        real = self.scheduler.manager.driver.schedule_create_volume

        def look(context, request_spec, filter_properties):
            seen.append(filter_properties.get('scheduler_hints'))
            return real(context, request_spec, filter_properties)

        self.scheduler.manager.driver.schedule_create_volume = look
        for value in ('False', False, 'no', 0):
            volume = self.volume_create({'reserved': value})
            self.assert_status(volume, 'available')
            assert volume['id'] in self.array.volumes
        assert self.lease_service.requests == []
        seen.clear()
        beside = self.volume_create()
        self.reserved({'reserved': 'yes', 'same_host': beside['id']})
        assert seen[1]['same_host'] == beside['id']
        assert seen[1]['reserved'] == 'True'


class TestRefused(Refused, CinderTest):
    ON_END, OTHER_END = 'backup', 'shelve'

    def refused(self, hints, *words, status=400, **body):
        """Check the answer, and that there is nothing."""
        (fault,) = self.volume_create(hints, status=status, **body).values()
        message = fault['message']
        for word in words:
            assert word in message, message
        assert self.get('/volumes?all_tenants=1')['volumes'] == []
        assert self.quota_usage() == (0, 0)
        assert self.array.calls == []
        return message

    def test_volume_in_a_group_is_refused(self):
        """Cinder snapshots and deletes a group without looking at its volumes."""
        types = [self.get('/types')['volume_types'][0]['id']]
        for field in ('group_id', 'consistencygroup_id'):
            kind = self.post('/group_types', {'group_type': {'name': field}}, user=ADMIN)
            group = {'group_type': kind['group_type']['id'], 'volume_types': types}
            ident = self.post('/groups', {'group': group})['group']['id']
            self.refused(
                {'reserved': 'True'}, 'reserved: ', field, volume_type=types[0], **{field: ident}
            )
        assert self.lease_service.requests == []

    def test_cinder_validates_the_rest(self):
        self.volume_create({'reserved': 'True'}, status=400, size=0)
        self.volume_create({'reserved': 'True'}, status=404, volume_type='no-such-type')
        self.volume_create({'reserved': 'True', 'same_host': 'no uuid'}, status=400)
        self.volume_create('reserved', status=400)
        assert self.lease_service.requests == []

    def test_cinder_conf_without_the_action_is_503(self):
        """A volume that cannot be woken is not reserved."""
        self.flags(osapi_volume_extension=['cinder.api.contrib.standard_extensions'])
        self.refused({'reserved': 'True'}, 'osapi_volume_extension', status=503)
        self.assert_status(self.volume_create(), 'available')
