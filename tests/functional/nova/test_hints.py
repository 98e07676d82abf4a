# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /servers: reserved, or 400 with the field named and nothing left behind.

How hints are read is tested in tests/unit/climateclient/test_hints.py, and the lease that they
name in test_extension_leases.py.
"""

import json

from nova import objects

from tests.functional.lease_service import refusal
from tests.functional.nova.base import NovaTest, iso

LEASE = '11111111-2222-3333-4444-555555555555'


def params(**values):
    return json.dumps({'name': 'l', **values})


class TestAccepted(NovaTest):
    def reserved(self, hints, **kwargs):
        server = self.boot(hints, **kwargs)
        self.assert_status(server, 'RESERVED')
        return server

    def test_reserved_alone_takes_the_defaults_of_nova_conf(self):
        self.flags(reservation_length_days=0, reservation_length_hours=3, group='climate')
        server = self.reserved({'reserved': True})
        lease = self.lease_service.lease
        assert iso(minutes=-1) < lease['start_date'] <= iso(seconds=1)
        assert iso(hours=3, minutes=-1) < lease['end_date'] <= iso(hours=3, seconds=1)
        assert lease['reservations'] == [
            {'resource_type': 'virtual:instance', 'resource_id': server['id']}
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
        self.reserved({'lease_params': {**values, 'on_end': 'shelve'}})
        lease = self.lease_service.lease
        assert {key: lease[key] for key in values} == values
        assert lease['reservations'][0]['on_end'] == 'shelve'

    def test_other_hints_and_the_older_key_of_the_body_stay(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'affinity'})
        hints = {'group': group['id'], 'lease_params': params()}
        server = self.reserved(hints, place='OS-SCH-HNT:scheduler_hints')
        spec = objects.RequestSpec.get_by_instance_uuid(self.ctxt, server['id'])
        assert spec.scheduler_hints['group'] == [group['id']]

    def test_lease_id_and_repeated_id_join_a_lease(self):
        given = {'lease_params': params(id=LEASE, start=iso(hours=1), end=iso(hours=2))}
        first, second = self.reserved(given), self.reserved(given)
        third = self.reserved({'lease_id': LEASE, 'lease_params': {'on_end': 'stop'}})
        items = [
            {'resource_type': 'virtual:instance', 'resource_id': each['id']}
            for each in (first, second, third)
        ]
        assert self.lease_service.lease['reservations'] == [
            *items[:2],
            items[2] | {'on_end': 'stop'},
        ]

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
    def refused(self, hints, *words, status=400, **server):
        """Check that the answer has these words, and that there is nothing."""
        (fault,) = self.post(hints, status=status, **server).body.values()
        for word in words:
            assert word in fault['message'], fault
        assert self.api.get_servers() == []
        assert len(objects.BuildRequestList.get_all(self.ctxt)) == 0
        self.assertRequestMatchesUsage(
            {'VCPU': 0, 'MEMORY_MB': 0, 'DISK_GB': 0}, self._get_provider_uuid_by_host('host1')
        )

    def test_wrong_hint_is_named_before_any_request(self):
        for hints, *words in [
            ({'reserved': None}, 'reserved'),
            ({'lease_params': params(colour='red')}, 'lease_params.colour'),
            ({'lease_params': params(on_end='explode')}, 'lease_params.on_end', 'shelve'),
        ]:
            with self.subTest(hints=str(hints)):
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
            self.refused(hints, 'lease service', status=503)

    def test_nova_validates_the_rest(self):
        self.refused({'reserved': 'True', 'group': 'not a uuid'})
        self.refused('reserved')
        self.refused({'reserved': 'True'}, flavorRef='no-such-flavor')
        assert self.lease_service.requests == []
