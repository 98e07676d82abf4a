# SPDX-License-Identifier: Apache-2.0
"""Hints that nova-api and cinder-api take alike, mixed into a test case of each.

How hints are read is tested in tests/unit/climateclient/test_hints.py, and the lease that they
name in test_extension_leases.py.
"""

import json

from tests.functional.lease_service import iso, refusal

LEASE = '11111111-2222-3333-4444-555555555555'


def params(**values):
    """Return the hint lease_params, as the command line sends it."""
    return json.dumps({'name': 'l', **values})


class Accepted:
    """A subclass has ``reserved(hints)``, which gives the resource.

    :cvar TYPE: type of the resource
    :cvar ON_END: a value that only this service knows
    """

    def test_values_or_the_defaults_of_the_service_reach_the_lease(self):
        self.flags(reservation_length_days=0, reservation_length_hours=3, group='climate')
        resource = self.reserved({'reserved': True})
        lease = self.lease_service.lease
        assert iso(minutes=-1) < lease['start_date'] <= iso(seconds=1)
        assert iso(hours=3, minutes=-1) < lease['end_date'] <= iso(hours=3, seconds=1)
        assert lease['reservations'] == [self._item(resource)]
        self.lease_service.leases.clear()
        start, end, event = iso(hours=1), iso(hours=3), iso(hours=2)
        values = {
            'name': 'l',
            'start_date': start,
            'end_date': end,
            'before_end_date': event,
            'events': [{'event_type': 'halfway', 'time': event}],
        }
        self.reserved({'lease_params': {**values, 'on_end': self.ON_END}})
        lease = self.lease_service.lease
        assert {key: lease[key] for key in values} == values
        assert lease['reservations'][0]['on_end'] == self.ON_END

    def test_lease_id_and_repeated_id_join_a_lease(self):
        given = {'lease_params': params(id=LEASE, start=iso(hours=1), end=iso(hours=2))}
        items = [self._item(self.reserved(given)) for _ in range(2)]
        third = self.reserved({'lease_id': LEASE, 'lease_params': {'on_end': self.ON_END}})
        items.append(self._item(third, on_end=self.ON_END))
        assert self.lease_service.lease['reservations'] == items

    def _item(self, resource, **values):
        return {'resource_type': self.TYPE, 'resource_id': resource['id'], **values}


class Refused:
    """A subclass has ``refused(hints, *words, status=400)``, which looks for what is left.

    :cvar OTHER_END: a value of ``on_end`` of the other service
    :cvar ON_END: a value that only this service knows
    """

    def test_wrong_hint_or_lease_is_named_and_a_lease_service_that_is_down_is_503(self):
        for hints, *words in [
            ({'reserved': None}, 'reserved'),
            ({'lease_params': params(colour='red')}, 'lease_params.colour'),
            ({'lease_params': params(on_end=self.OTHER_END)}, 'lease_params.on_end', self.ON_END),
        ]:
            with self.subTest(hints=str(hints)):
                self.refused(hints, 'Invalid scheduler hint', *words)
        assert self.lease_service.requests == []
        self.refused({'lease_id': LEASE}, 'lease_id', 'There is no such lease')
        lease = {'id': LEASE, 'name': 'other', 'status': 'PENDING'}
        lease |= {'start_date': iso(hours=1), 'end_date': iso(hours=2)}
        self.lease_service.leases[LEASE] = lease
        self.refused({'lease_params': params(id=LEASE)}, 'lease_params.id', 'lease_id')
        self.lease_service.answer = refusal(500, 'broken')
        for hints in ({'lease_id': LEASE}, {'lease_params': params(id=LEASE)}):
            self.refused(hints, 'lease service', status=503)
