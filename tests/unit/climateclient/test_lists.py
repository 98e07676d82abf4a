# SPDX-License-Identifier: Apache-2.0
"""Lists come in pages, which nobody sees."""

import datetime

import pytest

from climateclient import serialization
from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID

LEASES = f'{ENDPOINT}/leases'
NOON = datetime.datetime(2082, 11, 21, 12, tzinfo=datetime.UTC)


def page(*ids, more=None):
    """Return a page of leases, with a link if there is more."""
    body = {'leases': [samples.lease(id=each) for each in ids]}
    if more:
        link = {'rel': 'next', 'href': f'https://other.example.org/prefix/v1/leases?{more}'}
        body['leases_links'] = [link]
    return body


@pytest.fixture
def three_pages(http):
    http.get(LEASES, json=page('a', 'b', more='marker=b&status=ACTIVE%2CERROR'))
    http.get(f'{LEASES}?marker=b', json=page('c', 'd', more='marker=d&status=ACTIVE%2CERROR'))
    http.get(f'{LEASES}?marker=d', json=page('e'))
    return http


def test_pages_are_read_from_the_known_endpoint(client, three_pages):
    found = [lease.id for lease in client.leases.list(status=['ACTIVE', 'ERROR'])]

    assert found == ['a', 'b', 'c', 'd', 'e']
    asked = three_pages.request_history
    assert {each.url.split('?')[0] for each in asked} == {LEASES}
    assert [each.qs['status'] for each in asked] == [['active,error']] * 3


def test_page_is_requested_when_needed(client, three_pages):
    found = client.leases.list()
    assert three_pages.call_count == 0
    next(found)
    next(found)
    assert three_pages.call_count == 1
    next(found)
    assert three_pages.call_count == 2


@pytest.mark.parametrize(('limit', 'calls'), [(1, 1), (2, 1), (3, 2), (5, 3), (9, 3)])
def test_limit_holds_over_all_pages(client, three_pages, limit, calls):
    found = [*client.leases.list(limit=limit)]
    assert len(found) == min(limit, 5)
    assert three_pages.call_count == calls
    assert three_pages.request_history[0].qs['limit'] == [str(limit)]


def test_lease_with_few_fields(client, http):
    http.get(LEASES, json={'leases': [{'id': LEASE_ID, 'status': 'ACTIVE'}]})
    (lease,) = client.leases.list(fields=['status'])
    assert (lease.id, lease.status, lease.start_date) == (LEASE_ID, 'ACTIVE', None)
    assert (lease.reservations, lease.events) == ((), ())


def test_empty_page_is_the_last(client, http):
    http.get(LEASES, json=page(more='marker=x'))
    assert [*client.leases.list()] == []
    assert http.call_count == 1


def test_history_is_read_over_its_pages(client, http):
    entry = {
        'id': 7,
        'time': '2082-11-21T04:00:01.000000',
        'action': 'event.start_lease',
        'result': 'retry',
        'reason': 'Nova does not answer.',
        'user_id': None,
        'request_id': 'req-1',
        'changes': {'status': ['PENDING', 'STARTING']},
    }
    link = {'rel': 'next', 'href': '/v1/x?marker=7'}
    http.get(f'{LEASES}/{LEASE_ID}/history', json={'history': [entry], 'history_links': [link]})
    last = {'id': 8, 'action': 'lease.delete'}
    http.get(f'{LEASES}/{LEASE_ID}/history?marker=7', json={'history': [last]})

    first, second = client.leases.history(LEASE_ID, sort='time:desc')
    assert http.request_history[0].qs == {'sort': ['time:desc']}

    assert (first.id, first.action, first.reason) == (
        '7',
        'event.start_lease',
        'Nova does not answer.',
    )
    assert first.time == datetime.datetime(2082, 11, 21, 4, 0, 1, tzinfo=datetime.UTC)
    assert first.changes == {'status': ['PENDING', 'STARTING']}
    assert (second.time, second.changes) == (None, {})


def test_to_json_of_durations_and_nested_values():
    value = {'a': [datetime.timedelta(seconds=0.5)], 'b': (NOON,), 'c': None}
    assert serialization.to_json(value) == {
        'a': [1],
        'b': ['2082-11-21T12:00:00+00:00'],
        'c': None,
    }


def test_to_path_quotes_an_id():
    assert serialization.to_path('leases', '../x?y') == '/leases/..%2Fx%3Fy'
