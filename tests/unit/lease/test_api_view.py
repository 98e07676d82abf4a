# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json

from climate_core.api import validation
from climate_core.api.schemas import leases as schema
from climate_core.lease import views
from tests.unit.api import samples


def test_times_have_the_formats_of_todays_clients() -> None:
    one = views.lease_view(samples.lease())
    assert one['start_date'] == '2098-01-02T03:04:05.678901'
    assert one['created_at'] == '2098-01-02 03:04:05'
    assert one['updated_at'] is None
    assert one['events'][0]['time'] == '2098-01-02T03:04:05.678901'
    assert one['reservations'][0]['updated_at'] == '2098-01-02 03:04:05'


def test_the_trust_is_never_shown() -> None:
    assert 'trust' not in json.dumps(views.lease_view(samples.lease()))


def test_the_secret_of_a_webhook_is_never_shown() -> None:
    kept = {
        'url': 'https://example.org/hook?key=1',
        'secret': 'correct horse battery',
        'events': ['*'],
    }
    lease = dataclasses.replace(samples.lease(), webhook=kept, before_start=(60,))
    one = views.lease_view(lease)
    assert one['webhook'] == {'url': 'https://example.org', 'events': ['*']}
    own = views.lease_view(lease, viewer_id=lease.user_id)
    assert own['webhook']['url'] == 'https://example.org/hook?key=1'
    assert one['before_start'] == [60]
    validation.check({'lease': one}, schema.ONE)


def test_internal_events_and_claims_are_not_shown() -> None:
    events = views.lease_view(samples.lease())['events']
    assert [each['event_type'] for each in events] == ['start_lease']
    assert not {'generation', 'attempts', 'next_at'} & events[0].keys()


def test_params_stand_beside_the_rest_and_replace_nothing() -> None:
    one = views.reservation_view(samples.reservation(colour='red', status='mine'))
    assert one['colour'] == 'red'
    assert one['status'] == 'pending'


def test_what_is_shown_is_what_the_schema_says() -> None:
    validation.check({'lease': views.lease_view(samples.lease(colour='red'))}, schema.ONE)
    validation.check({'leases': [views.lease_view(samples.lease())] * 2}, schema.MANY)
