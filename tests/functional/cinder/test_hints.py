# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /volumes: reserved, or 400 with the field named and nothing left behind.

How hints are read is tested in tests/unit/climateclient/test_hints.py, and the lease that they
name in test_extension_leases.py.
"""

import json

from tests.functional.cinder.base import CinderTest, iso
from tests.functional.cinder.users import ADMIN
from tests.functional.lease_service import refusal

LEASE = '11111111-2222-3333-4444-555555555555'


def params(**values):
    return json.dumps({'name': 'l', **values})


class TestAccepted(CinderTest):
    def reserved(self, hints, **body):
        volume = self.volume_create(hints, **body)
        self.assert_status(volume, 'lease-reserved')
        assert volume['id'] not in self.array.volumes
        return volume

    def test_reserved_alone_takes_the_defaults_of_cinder_conf(self):
        self.flags(reservation_length_days=0, reservation_length_hours=3, group='climate')
        volume = self.reserved({'reserved': True})
        lease = self.lease_service.lease
        assert iso(minutes=-1) < lease['start_date'] <= iso(seconds=1)
        assert iso(hours=3, minutes=-1) < lease['end_date'] <= iso(hours=3, seconds=1)
        assert lease['reservations'] == [
            {'resource_type': 'virtual:volume', 'resource_id': volume['id']}
        ]

    def test_all_values_reach_the_lease(self):
        start, end, event = iso(hours=1), iso(hours=3), iso(hours=2)
        values = {
            'name': 'l',
            'start_date': start,
            'end_date': end,
            'before_end_date': event,
            'events': [{'event_type': 'halfway', 'time': event}],
        }
        self.reserved({'lease_params': {**values, 'on_end': 'backup'}})
        lease = self.lease_service.lease
        assert {key: lease[key] for key in values} == values
        assert lease['reservations'][0]['on_end'] == 'backup'

    def test_each_value_of_on_end_is_accepted(self):
        for on_end in ('delete', 'backup', 'snapshot', 'detach', 'nothing'):
            volume = self.reserved({'lease_params': params(on_end=on_end, id=LEASE)})
            assert self.lease_service.lease['reservations'][0]['on_end'] == on_end
            self.delete(volume)
            self.lease_service.leases.clear()

    def test_other_hints_reach_the_scheduler(self):
        seen = []
        real = self.scheduler.manager.driver.schedule_create_volume

        def look(context, request_spec, filter_properties):
            seen.append(filter_properties.get('scheduler_hints'))
            return real(context, request_spec, filter_properties)

        self.scheduler.manager.driver.schedule_create_volume = look
        beside = self.volume_create()
        self.reserved({'reserved': 'yes', 'same_host': beside['id']})
        assert seen[1]['same_host'] == beside['id']
        assert seen[1]['reserved'] == 'True'

    def test_lease_id_and_repeated_id_join_a_lease(self):
        given = {'lease_params': params(id=LEASE, start=iso(hours=1), end=iso(hours=2))}
        first, second = self.reserved(given), self.reserved(given)
        third = self.reserved({'lease_id': LEASE, 'lease_params': {'on_end': 'detach'}})
        items = [
            {'resource_type': 'virtual:volume', 'resource_id': each['id']}
            for each in (first, second, third)
        ]
        assert self.lease_service.lease['reservations'] == [
            *items[:2],
            items[2] | {'on_end': 'detach'},
        ]

    def test_reserved_false_is_an_ordinary_volume(self):
        for value in ('False', False, 'no', 0):
            volume = self.volume_create({'reserved': value})
            self.assert_status(volume, 'available')
            assert volume['id'] in self.array.volumes
        assert self.lease_service.requests == []


class TestRefused(CinderTest):
    def refused(self, hints, *words, status=400, kind='badRequest', **body):
        """Check the answer, and that there is nothing."""
        message = self.volume_create(hints, status=status, **body)[kind]['message']
        for word in words:
            assert word in message, message
        assert self.get('/volumes?all_tenants=1')['volumes'] == []
        assert self.quota_usage() == (0, 0)
        assert self.array.calls == []
        return message

    def test_wrong_hint_is_named_before_any_request(self):
        for hints, *words in [
            ({'reserved': None}, 'reserved'),
            ({'lease_params': params(colour='red')}, 'lease_params.colour'),
            ({'lease_params': params(on_end='shelve')}, 'lease_params.on_end', 'snapshot'),
        ]:
            with self.subTest(hints=str(hints)[:80]):
                self.refused(hints, 'Invalid scheduler hint', *words)
        assert self.lease_service.requests == []

    def test_lease_that_cannot_be_used_is_named(self):
        self.refused({'lease_id': LEASE}, 'lease_id', 'There is no such lease')
        lease = {'id': LEASE, 'name': 'other', 'status': 'PENDING'}
        lease |= {'start_date': iso(hours=1), 'end_date': iso(hours=2)}
        self.lease_service.leases[LEASE] = lease
        self.refused({'lease_params': params(id=LEASE)}, 'lease_params.id', 'lease_id')

    def test_lease_service_that_is_down_is_503(self):
        self.lease_service.answer = refusal(500, 'broken')
        for hints in ({'lease_id': LEASE}, {'lease_params': params(id=LEASE)}):
            self.refused(hints, 'lease service', '500', status=503, kind='serviceUnavailable')

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
        self.refused(
            {'reserved': 'True'}, 'osapi_volume_extension', status=503, kind='serviceUnavailable'
        )
        self.assert_status(self.volume_create(), 'available')
