# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /volumes: understood, or 400 with the field named and nothing left behind."""

import json

from tests.functional.cinder.base import CinderTest, iso
from tests.functional.cinder.users import ADMIN
from tests.functional.lease_service import refusal

LEASE = '11111111-2222-3333-4444-555555555555'


def params(**values):
    return json.dumps({'name': 'l', **values})


class TestUnderstood(CinderTest):
    def reserved(self, hints, **body):
        volume = self.volume_create(hints, **body)
        self.assert_status(volume, 'lease-reserved')
        assert volume['id'] not in self.array.volumes
        return volume

    def test_reserved_alone_takes_the_defaults(self):
        self.flags(reservation_length_days=0, reservation_length_hours=3, group='climate')
        volume = self.reserved({'reserved': True})
        lease = self.lease_service.lease
        start, end = lease['start_date'], lease['end_date']
        assert lease['name'].startswith('lease_')
        assert iso(minutes=-1) < start <= iso(seconds=1)
        assert iso(hours=3, minutes=-1) < end <= iso(hours=3, seconds=1)
        assert lease['reservations'] == [
            {'resource_type': 'virtual:volume', 'resource_id': volume['id']}
        ]

    def test_as_the_command_line_sends_it(self):
        """openstack volume create --hint: every value is a string."""
        self.reserved({'reserved': 'True', 'lease_params': params(end='2099-1-2 3:04')})
        assert self.lease_service.lease['end_date'] == '2099-01-02T03:04:00+00:00'

    def test_everything_goes_to_the_lease(self):
        start, end, event = iso(hours=1), iso(hours=3), iso(hours=2)
        given = params(
            start_date=start,
            end_date=end,
            before_end_date=event,
            on_end='backup',
            events=[{'event_type': 'halfway', 'time': event}],
        )
        self.reserved({'lease_params': given})
        lease = self.lease_service.lease
        assert (lease['start_date'], lease['end_date']) == (start, end)
        assert lease['before_end_date'] == event
        assert lease['events'] == [{'event_type': 'halfway', 'time': event}]
        assert lease['reservations'][0]['on_end'] == 'backup'

    def test_other_hints_stay(self):
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

    def test_join_a_lease(self):
        self.reserve()
        lease = self.lease_service.lease
        second = self.reserved({'lease_id': lease['id'], 'lease_params': {'on_end': 'detach'}})
        assert lease['reservations'][1] == {
            'resource_type': 'virtual:volume',
            'resource_id': second['id'],
            'on_end': 'detach',
        }

    def test_the_same_lease_twice(self):
        given = {'lease_params': params(id=LEASE, start=iso(hours=1), end=iso(hours=2))}
        for _ in range(2):
            self.reserved(given)
        assert list(self.lease_service.leases) == [LEASE]
        assert len(self.lease_service.lease['reservations']) == 2

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

    def test_wrong_hints_are_refused(self):
        """Every mistake is tested in tests/unit/climateclient/test_hints.py."""
        for hints, *words in [
            ({'reserved': 'perhaps'}, 'reserved: '),
            ({'lease_params': params(start='tomorrow')}, 'lease_params.start: ', 'ISO 8601'),
            ({'lease_params': params(on_end='shelve')}, 'lease_params.on_end: ', 'snapshot'),
        ]:
            with self.subTest(hints=hints):
                self.refused(hints, 'Invalid scheduler hint', *words)
        assert self.lease_service.requests == []

    def test_a_lease_that_is_not_there(self):
        self.refused({'lease_id': LEASE}, 'lease_id', 'There is no such lease')

    def test_a_lease_that_is_over(self):
        self.lease_service.leases[LEASE] = {'id': LEASE, 'name': 'l', 'status': 'TERMINATED'}
        self.refused({'lease_id': LEASE}, 'lease_id', 'TERMINATED')

    def test_the_id_of_another_lease(self):
        self.lease_service.leases[LEASE] = {
            'id': LEASE,
            'name': 'other',
            'start_date': iso(hours=1),
            'end_date': iso(hours=2),
            'status': 'PENDING',
        }
        self.refused({'lease_params': params(id=LEASE)}, 'lease_params.id', 'lease_id')

    def test_no_lease_service_to_ask(self):
        self.lease_service.answer = refusal(500, 'broken')
        for hints in ({'lease_id': LEASE}, {'lease_params': params(id=LEASE)}):
            self.refused(hints, 'lease service', '500', status=503, kind='serviceUnavailable')

    def test_no_group(self):
        """A group is snapshotted and deleted with all its volumes, and nobody looks at them."""
        for field in ('group_id', 'consistencygroup_id'):
            answer = self.grouped(field)
            assert 'reserved: ' in answer['badRequest']['message']
            assert field in answer['badRequest']['message']
        assert self.lease_service.requests == []

    def grouped(self, field):
        kind = self.post('/group_types', {'group_type': {'name': field}}, user=ADMIN, status=202)[
            'group_type'
        ]
        types = [self.get('/types')['volume_types'][0]['id']]
        group = self.post('/groups', {'group': {'group_type': kind['id'], 'volume_types': types}})[
            'group'
        ]
        return self.volume_create(
            {'reserved': 'True'}, status=400, volume_type=types[0], **{field: group['id']}
        )

    def test_cinder_still_validates_the_rest(self):
        self.volume_create({'reserved': 'True'}, status=400, size=0)
        self.volume_create({'reserved': 'True'}, status=404, volume_type='no-such-type')
        self.volume_create({'reserved': 'True', 'same_host': 'no uuid'}, status=400)
        self.volume_create('reserved', status=400)
        assert self.lease_service.requests == []

    def test_without_the_action_nothing_is_reserved(self):
        """What could not be woken must not be promised."""
        self.flags(osapi_volume_extension=['cinder.api.contrib.standard_extensions'])
        self.refused(
            {'reserved': 'True'}, 'osapi_volume_extension', status=503, kind='serviceUnavailable'
        )
        self.assert_status(self.volume_create(), 'available')
