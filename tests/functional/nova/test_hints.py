# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /servers: understood, or 400 with the field named and nothing left behind."""

import json

from nova import objects

from tests.functional.lease_service import refusal
from tests.functional.nova.base import NovaTest, iso

LEASE = '11111111-2222-3333-4444-555555555555'


def params(**values):
    return json.dumps({'name': 'l', **values})


class TestUnderstood(NovaTest):
    def reserved(self, hints, **kwargs):
        server = self.boot(hints, **kwargs)
        self.assert_status(server, 'RESERVED')
        return server

    def test_reserved_alone_takes_the_defaults(self):
        self.flags(reservation_length_days=0, reservation_length_hours=3, group='climate')
        server = self.reserved({'reserved': True})
        lease = self.lease_service.lease
        start, end = lease['start_date'], lease['end_date']
        assert lease['name'].startswith('lease_')
        assert iso(minutes=-1) < start <= iso(seconds=1)
        assert iso(hours=3, minutes=-1) < end <= iso(hours=3, seconds=1)
        assert lease['reservations'] == [
            {'resource_type': 'virtual:instance', 'resource_id': server['id']}
        ]

    def test_the_other_name_of_the_hints_in_the_body(self):
        self.reserved({'lease_params': params()}, place='OS-SCH-HNT:scheduler_hints')

    def test_everything_goes_to_the_lease(self):
        start, end, event = iso(hours=1), iso(hours=3), iso(hours=2)
        given = params(
            start_date=start,
            end_date=end,
            before_end_date=event,
            on_end='stop',
            events=[{'event_type': 'halfway', 'time': event}],
        )
        self.reserved({'lease_params': given})
        lease = self.lease_service.lease
        assert (lease['start_date'], lease['end_date']) == (start, end)
        assert lease['before_end_date'] == event
        assert lease['events'] == [{'event_type': 'halfway', 'time': event}]
        assert lease['reservations'][0]['on_end'] == 'stop'

    def test_other_hints_stay(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'affinity'})
        server = self.reserved({'group': group['id'], 'reserved': 'yes'})
        spec = objects.RequestSpec.get_by_instance_uuid(self.ctxt, server['id'])
        assert spec.scheduler_hints['group'] == [group['id']]

    def test_join_a_lease(self):
        self.reserve()
        lease = self.lease_service.lease
        second = self.reserved({'lease_id': lease['id'], 'lease_params': {'on_end': 'stop'}})
        assert lease['reservations'][1] == {
            'resource_type': 'virtual:instance',
            'resource_id': second['id'],
            'on_end': 'stop',
        }

    def test_the_id_of_a_new_lease(self):
        self.reserved({'lease_params': params(id=LEASE)})
        assert list(self.lease_service.leases) == [LEASE]

    def test_the_same_lease_twice(self):
        given = {'lease_params': params(id=LEASE, start=iso(hours=1), end=iso(hours=2))}
        for _ in range(2):
            self.reserved(given)
        assert len(self.lease_service.lease['reservations']) == 2

    def test_join_a_lease_in_error(self):
        self.lease_service.leases[LEASE] = {
            'id': LEASE,
            'name': 'l',
            'status': 'ERROR',
            'reservations': [],
        }
        self.reserved({'lease_id': LEASE})
        assert len(self.lease_service.lease['reservations']) == 1

    def test_reserved_false_is_an_ordinary_boot(self):
        server = self.boot({'reserved': 'False'})
        self.assert_status(server, 'ACTIVE')
        assert self.lease_service.requests == []

    def test_members_see_the_lease_in_their_hints(self):
        self.api.microversion = '2.100'
        server = self.reserve()
        hints = self.api.get_server(server['id'])['scheduler_hints']
        assert json.loads(hints['lease_params'][0])['name'] == 'lease1'


class TestRefused(NovaTest):
    def refused(self, hints, *words):
        """Check that the answer is 400 with these words, and that there is nothing."""
        answer = self.post(hints, status=400)
        message = answer.body['badRequest']['message']
        for word in words:
            assert word in message, message
        assert self.api.get_servers() == []
        assert self.lease_service.leases == {}
        assert len(objects.BuildRequestList.get_all(self.ctxt)) == 0
        self.assertRequestMatchesUsage(
            {'VCPU': 0, 'MEMORY_MB': 0, 'DISK_GB': 0}, self._get_provider_uuid_by_host('host1')
        )

    def test_wrong_hints_are_refused(self):
        """Every mistake is tested in tests/unit/climateclient/test_hints.py."""
        for hints, *words in [
            ({'reserved': 'perhaps'}, 'reserved: '),
            ({'lease_params': params(start='tomorrow')}, 'lease_params.start: ', 'ISO 8601'),
            ({'lease_params': params(on_end='backup')}, 'lease_params.on_end: ', 'shelve'),
        ]:
            with self.subTest(hints=hints):
                self.refused(hints, *words)
        assert self.lease_service.requests == []

    def test_a_lease_that_is_not_there(self):
        self.refused({'lease_id': LEASE}, 'lease_id', 'There is no such lease')

    def test_a_lease_that_is_over(self):
        self.lease_service.answer = None
        self.lease_service.leases[LEASE] = {'id': LEASE, 'name': 'l', 'status': 'TERMINATED'}
        answer = self.post({'lease_id': LEASE}, status=400)
        assert 'TERMINATED' in answer.body['badRequest']['message']

    def test_the_id_of_another_lease(self):
        start, end = iso(hours=1), iso(hours=2)
        self.lease_service.leases[LEASE] = {
            'id': LEASE,
            'name': 'l',
            # As the lease service writes it.
            'start_date': f'{start[:19]}.000000',
            'end_date': f'{end[:19]}.000000',
            'status': 'PENDING',
        }
        for other in [{'name': 'other'}, {'start': iso(minutes=90)}, {'end': iso(hours=3)}]:
            given = {'id': LEASE, 'start': start, 'end': end, **other}
            answer = self.post({'lease_params': params(**given)}, status=400)
            message = answer.body['badRequest']['message']
            assert 'lease_params.id: ' in message
            assert 'lease_id' in message
        self.lease_service.leases[LEASE]['status'] = 'TERMINATED'
        self.post({'lease_params': params(id=LEASE, start=start, end=end)}, status=400)
        assert self.api.get_servers() == []

    def test_no_lease_service_to_ask_about_an_id(self):
        self.lease_service.answer = refusal(500, 'broken')
        self.post({'lease_params': params(id=LEASE)}, status=503)

    def test_no_lease_service_to_ask(self):
        self.lease_service.answer = refusal(500, 'broken')
        answer = self.post({'lease_id': LEASE}, status=503)
        assert 'lease service' in answer.body['serviceUnavailable']['message']
        assert self.api.get_servers() == []

    def test_nova_still_validates_the_rest(self):
        self.post({'reserved': 'True', 'group': 'not a uuid'}, status=400)
        self.post('reserved', status=400)
        self.post({'reserved': 'True'}, flavorRef='no-such-flavor', status=400)
        assert self.lease_service.requests == []
