# SPDX-License-Identifier: Apache-2.0
"""``openstack lease ...`` through the real shell, the requests seen at the HTTP edge."""

import json

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import (
    CINDER,
    ENDPOINT,
    HEAT,
    LEASE_ID,
    NOVA,
    OTHER_ID,
    SERVER_ID,
    STACK_ID,
    VOLUME_ID,
)

LEASES = f'{ENDPOINT}/leases'
LEASE = f'{LEASES}/{LEASE_ID}'


@pytest.fixture
def created(http):
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})


def test_create_with_local_times(run, sent, created):
    out = run(
        'lease', 'create', 'lease1', '--start', '2026-11-21 05:00', '--end', '2026-11-21T06:00Z'
    )
    (body,) = sent('POST')
    assert body['name'] == 'lease1'
    assert body['start_date'] == '2026-11-21T04:00:00+00:00'
    assert body['end_date'] == '2026-11-21T06:00:00+00:00'
    assert 'before_end_date' not in body
    assert '2026-11-21 05:00:00+01:00' in out
    assert f'virtual:instance {SERVER_ID} pending, on_end=stop' in out
    assert '2026-11-21 05:00:00+01:00 start_lease UNDONE' in out


def test_create_for_a_duration(openstack, sent, created):
    openstack(
        *('lease', 'create', 'lease1', '--start', '2026-11-21 05:00'),
        *('--for', '1d12h', '--before-end', '30m'),
    )
    (body,) = sent('POST')
    assert body['duration'] == 36 * 3600
    assert 'end_date' not in body
    assert body['before_end_date'] == '2026-11-22T15:30:00+00:00'


def test_create_now_leaves_now_to_the_service(openstack, sent, created):
    openstack('lease', 'create', 'lease1', '--for', '3h')
    (body,) = sent('POST')
    assert (body['start_date'], body['duration']) == ('now', 10800)


def test_create_with_servers_by_name_and_by_id(run, http, sent, created):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(
        f'{NOVA}/servers/detail?name=vm1', json={'servers': [{'id': SERVER_ID, 'name': 'vm1'}]}
    )
    http.get(f'{NOVA}/servers/{OTHER_ID}', json={'server': {'id': OTHER_ID, 'name': 'vm2'}})

    run(
        *('lease', 'create', 'lease1', '--for', '3h', '--on-end', 'shelve'),
        *('--server', 'vm1', '--server', OTHER_ID),
    )
    (body,) = sent('POST')
    assert body['reservations'] == [
        {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID, 'on_end': 'shelve'},
        {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'shelve'},
    ]


def test_create_with_a_server_and_volumes(run, http, sent, created):
    http.get(f'{NOVA}/servers/{SERVER_ID}', json={'server': {'id': SERVER_ID, 'name': 'vm1'}})
    http.get(f'{CINDER}/volumes/{VOLUME_ID}', json={'volume': {'id': VOLUME_ID, 'name': 'v1'}})
    http.get(f'{CINDER}/volumes/v2', status_code=404, json={})
    found = {'volumes': [{'id': OTHER_ID, 'name': 'v2'}]}
    http.get(f'{CINDER}/volumes/detail?name=v2', json=found)

    run(
        *('lease', 'create', 'lease1', '--for', '3h', '--on-end', 'stop'),
        *('--server', SERVER_ID, '--volume', VOLUME_ID, '--volume', 'v2'),
        *('--on-end', 'snapshot'),
    )
    (body,) = sent('POST')
    assert body['reservations'] == [
        {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID, 'on_end': 'stop'},
        {'resource_type': 'virtual:volume', 'resource_id': VOLUME_ID, 'on_end': 'snapshot'},
        {'resource_type': 'virtual:volume', 'resource_id': OTHER_ID, 'on_end': 'snapshot'},
    ]


def test_create_with_a_stack(run, http, sent, created):
    stack = {'id': STACK_ID, 'stack_name': 'web', 'stack_status': 'CREATE_COMPLETE'}
    found = http.get(f'{HEAT}/stacks/web', json={'stack': stack})

    run(*('lease', 'create', 'lease1', '--for', '3h', '--stack', 'web', '--on-end', 'suspend'))
    (body,) = sent('POST')
    assert body['reservations'] == [
        {'resource_type': 'virtual:stack', 'resource_id': STACK_ID, 'on_end': 'suspend'}
    ]
    assert 'resolve_outputs=False' in found.last_request.url


def test_last_known_on_end_wins(run, sent, created):
    run(
        *('lease', 'create', 'lease1', '--for', '3h'),
        *('--reservation', f'resource_type=virtual:instance,resource_id={SERVER_ID}'),
        *('--reservation', f'resource_type=virtual:volume,resource_id={VOLUME_ID}'),
        *('--on-end', 'delete', '--on-end', 'stop'),
    )
    (body,) = sent('POST')
    assert [each['on_end'] for each in body['reservations']] == ['stop', 'delete']


def test_create_for_a_missing_server_is_refused(fail, http, sent, created):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(f'{NOVA}/servers/detail?name=vm1', json={'servers': []})

    err = fail('lease', 'create', 'lease1', '--for', '3h', '--server', 'vm1')
    assert 'vm1' in err
    assert sent('POST') == []


def test_create_with_reservations_and_events(openstack, sent, created):
    openstack(
        *('lease', 'create', 'lease1', '--for', '3h', '--on-end', 'nothing'),
        *('--reservation', f'resource_type=virtual:instance,resource_id={SERVER_ID},on_end=stop'),
        *('--reservation', f'resource_type=virtual:instance,resource_id={OTHER_ID}'),
        *(
            '--reservation',
            'resource_type=physical:host,min=1,max=2,resource_properties=["=","$gpu","1,2"]',
        ),
        *('--reservation', '{"resource_type": "flavor:instance", "affinity": true}'),
        *('--event', 'type=remind,time=2026-11-21 06:30'),
    )
    (body,) = sent('POST')
    assert body['reservations'] == [
        {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID, 'on_end': 'stop'},
        {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'nothing'},
        {
            'resource_type': 'physical:host',
            'min': 1,
            'max': 2,
            'resource_properties': '["=","$gpu","1,2"]',
        },
        {'resource_type': 'flavor:instance', 'affinity': True},
    ]
    assert body['events'] == [{'event_type': 'remind', 'time': '2026-11-21T05:30:00+00:00'}]


@pytest.mark.parametrize(
    ('argv', 'words'),
    [
        (['--for', 'h'], "--for: 'h' is not a duration"),
        (['--end', 'tomorrow'], "--end: 'tomorrow' is not a date"),
        (
            ['--start', '2026-03-29 02:30', '--for', '1h'],
            'clocks here show 2026-03-29 02:30:00 never',
        ),
        (['--for', '3h', '--reservation', 'resource_id=x'], 'resource_type is missing'),
        (['--for', '3h', '--reservation', 'x'], '"x" is not <key>=<value>'),
        (['--for', '3h', '--reservation', 'min=1,min=2'], 'min is given twice'),
        (['--for', '3h', '--reservation', '{"a":'], '--reservation: '),
        (['--for', '3h', '--event', 'type=remind'], 'time is missing'),
        (['--for', '3h', '--event', 'type=a,time=now,x=y'], 'unknown key x'),
        (['--for', '3h', '--on-end', 'stop'], '--on-end stop: there is no server to take it'),
        (
            ['--for', '3h', '--server', SERVER_ID, '--on-end', 'backup'],
            '--on-end backup: there is no volume to take it',
        ),
        (
            ['--for', '3h', '--reservation', 'resource_type=x', '--on-end', 'delete'],
            'there is no server, volume or stack to take it',
        ),
        (['--for', '3h', '--before-end', '1y'], '--before-end: '),
        (['--for', '3h', '--wait', '--timeout', 'h'], '--timeout: '),
        ([], 'one of the arguments --end/--end-date --for is required'),
        (['--for', '3h', '--end', 'now'], 'not allowed with'),
    ],
)
def test_create_refuses_wrong_values_before_any_request(fail, sent, created, argv, words):
    err = fail('lease', 'create', 'lease1', *argv)
    assert words in ' '.join(err.split())
    assert sent('POST') == []


def test_create_shows_the_refusal_of_the_service(fail, http):
    body = samples.error(400, 'The end is in the past.', 'lease.invalid_date', field='end_date')
    http.post(LEASES, status_code=400, json=body)
    err = fail('lease', 'create', 'lease1', '--for', '3h')
    assert 'The end is in the past.' in err


def test_create_and_wait(openstack, http, created):
    http.get(LEASE, json={'lease': samples.lease(status='ACTIVE')})
    status, out, err = openstack('lease', 'create', 'lease1', '--for', '3h', '--wait')
    assert status == 0
    assert 'ACTIVE' in out
    assert err == 'lease1: ACTIVE\n'


def test_create_and_wait_for_one_that_fails(fail, http, created):
    failed = samples.lease(status='ERROR', status_reason='Server vm1 is gone.')
    http.get(LEASE, json={'lease': failed})
    err = fail('lease', 'create', 'lease1', '--for', '3h', '--wait')
    assert f'Lease lease1 ({LEASE_ID}) is ERROR: Server vm1 is gone.' in err


def test_show_for_programs(run, http):
    http.get(LEASES, json={'leases': [samples.lease()]})
    out = run('lease', 'show', 'lease1', '-f', 'json')
    shown = json.loads(out)
    assert shown['start_date'] == '2026-11-21T04:00:00+00:00'
    assert shown['before_end_date'] == '2026-11-21T05:50:00+00:00'
    assert shown['updated_at'] is None
    assert shown['reservations'][0]['on_end'] == 'stop'
    assert shown['reservations'][0]['created_at'] == '2026-11-21T02:59:32+00:00'
    assert [event['event_type'] for event in shown['events']] == [
        'start_lease',
        'before_end_lease',
        'end_lease',
    ]


def test_show_names_errors_of_reservations(run, http):
    bad = samples.reservation(
        status='error', status_reason='Gone.', missing_resources=True, on_end=None
    )
    http.get(LEASE, json={'lease': samples.lease(reservations=[bad])})
    out = run('lease', 'show', LEASE_ID)
    assert f'virtual:instance {SERVER_ID} error, missing_resources, Gone.' in out


def test_show_an_ambiguous_name(fail, http):
    http.get(LEASES, json={'leases': [samples.lease(), samples.lease(id=OTHER_ID)]})
    err = fail('lease', 'show', 'lease1')
    assert LEASE_ID in err
    assert OTHER_ID in err


def test_show_and_wait(fail, http):
    http.get(LEASE, json={'lease': samples.lease(status='TERMINATED', status_reason='Over.')})
    err = fail('lease', 'show', LEASE_ID, '--wait')
    assert 'is TERMINATED: Over.' in err


def test_delete_several_goes_on_after_a_failure(fail, http):
    http.get(LEASES, json={'leases': []})
    http.get(f'{LEASES}?name=lease1', json={'leases': [samples.lease()]})
    http.get(f'{LEASES}?name=lease2', json={'leases': [samples.lease(id=OTHER_ID, name='lease2')]})
    http.delete(LEASE, status_code=204)
    http.delete(f'{LEASES}/{OTHER_ID}', status_code=204)

    err = fail('lease', 'delete', 'lease1', 'none', 'lease2', 'lease1')
    assert 'No lease has the name or id "none".' in err
    assert '1 of 3 leases could not be deleted.' in err
    deleted = [r.url for r in http.request_history if r.method == 'DELETE']
    assert deleted == [LEASE, f'{LEASES}/{OTHER_ID}']


def test_delete_and_wait(openstack, http):
    http.get(LEASE, [{'json': {'lease': samples.lease()}}, {'status_code': 404}])
    http.delete(LEASE, status_code=204)
    status, out, err = openstack('lease', 'delete', LEASE_ID, '--wait')
    assert (status, out, err) == (0, '', '')


def test_delete_and_wait_for_one_that_cannot_end(fail, http):
    stuck = samples.lease(status='ERROR', status_reason='Nova says no.')
    http.get(LEASE, json={'lease': stuck})
    http.delete(LEASE, status_code=204)
    err = fail('lease', 'delete', LEASE_ID, '--wait')
    assert 'is ERROR: Nova says no.' in err


@pytest.fixture
def checked(http):
    refusal = samples.error(409, 'Server vm1 is reserved.', 'reservation.resource_reserved')
    answer = {
        'granted': False,
        'refusals': [refusal | {'field': 'reservations[0]'}],
        'available_from': '2026-11-22T06:00:00.000000',
        'start_date': '2026-11-21T04:00:00.000000',
        'end_date': '2026-11-21T06:00:00.000000',
    }
    http.post(f'{LEASES}?dry_run=true', json={'dry_run': answer})
    return answer


def test_dry_run_shows_refusals(openstack, sent, checked):
    status, out, err = openstack('lease', 'create', 'lease1', '--for', '2h', '--dry-run')
    assert (status, err) == (1, '')
    assert 'reservations[0]: Server vm1 is reserved. (reservation.resource_reserved)' in out
    assert '2026-11-22 07:00:00+01:00' in out
    (body,) = sent('POST')
    assert body['name'] == 'lease1'


def test_dry_run_shows_granted(run, checked):
    checked |= {'granted': True, 'refusals': [], 'available_from': None}
    out = run('lease', 'create', 'lease1', '--for', '2h', '--dry-run', '-f', 'json')
    shown = json.loads(out)
    assert (shown['granted'], shown['refusals'], shown['available_from']) == (True, [], None)
    assert shown['end_date'] == '2026-11-21T06:00:00+00:00'


def test_dry_run_does_not_wait(fail, checked):
    err = fail('lease', 'create', 'lease1', '--for', '2h', '--dry-run', '--wait')
    assert 'leave out --wait' in err


def test_create_with_all_terms(run, http, sent, created, monkeypatch):
    monkeypatch.setenv('CLIMATE_WEBHOOK_SECRET', 'from the environment')
    run(
        *('lease', 'create', 'lease1', '--for', '2h', '--start-policy', 'manual'),
        *('--tell-before-start', '1h,10m', '--tell-before-start', '30s'),
        *('--webhook', 'https://a.example.org', '--webhook-event', 'lease.event.*'),
        *('--idempotency-key', 'order 66'),
    )
    (body,) = sent('POST')
    assert body['start_policy'] == 'manual'
    assert body['before_start'] == [3600, 600, 30]
    assert body['webhook'] == {
        'url': 'https://a.example.org',
        'secret': 'from the environment',
        'events': ['lease.event.*'],
    }
    assert http.last_request.headers['Idempotency-Key'] == 'order 66'


def test_webhook_secret_is_an_argument(openstack, sent, created):
    openstack(
        *('lease', 'create', 'lease1', '--for', '2h'),
        *('--webhook', 'https://a.example.org', '--webhook-secret', 'seen by others'),
    )
    (body,) = sent('POST')
    assert body['webhook'] == {'url': 'https://a.example.org', 'secret': 'seen by others'}
