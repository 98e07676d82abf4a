# SPDX-License-Identifier: Apache-2.0
"""``openstack lease ...`` through the real shell, the requests seen at the HTTP edge."""

import json

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import (
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
        'lease', 'create', 'lease1', '--start', '2082-11-21 05:00', '--end', '2082-11-21T06:00Z'
    )
    (body,) = sent('POST')
    assert body['name'] == 'lease1'
    assert body['start_date'] == '2082-11-21T04:00:00+00:00'
    assert body['end_date'] == '2082-11-21T06:00:00+00:00'
    assert 'before_end_date' not in body
    assert '2082-11-21 05:00:00+01:00' in out
    assert f'virtual:instance resource={SERVER_ID} pending, on_end=stop' in out
    assert '2082-11-21 05:00:00+01:00 CET start_lease UNDONE' in out


@pytest.mark.parametrize(
    ('argv', 'expected', 'absent'),
    [
        (['--for', '3h'], {'start_date': 'now', 'duration': 10800}, 'preemptible'),
        (
            ['--start', '2082-11-21 05:00', '--for', '1d12h', '--before-end', '30m'],
            {'duration': 36 * 3600, 'before_end_date': '2082-11-22T15:30:00+00:00'},
            'end_date',
        ),
        (
            ['--for', '3h', '--event', 'type=remind,time=2082-11-21 06:30'],
            {'events': [{'event_type': 'remind', 'time': '2082-11-21T05:30:00+00:00'}]},
            'before_end_date',
        ),
        (['--for', '2h', '--hosts', 'min=1', '--preemptible'], {'preemptible': True}, 'kind'),
    ],
    ids=['now', 'before_end', 'event', 'preemptible'],
)
def test_create_sends_what_its_options_say(run, sent, created, argv, expected, absent):
    run('lease', 'create', 'lease1', *argv)
    (body,) = sent('POST')
    assert body.items() >= expected.items()
    assert absent not in body


def server(resource_id, **values):
    return {'resource_type': 'virtual:instance', 'resource_id': resource_id, **values}


def volume(resource_id, **values):
    return {'resource_type': 'virtual:volume', 'resource_id': resource_id, **values}


@pytest.mark.parametrize(
    ('argv', 'reservations'),
    [
        (
            ['--on-end', 'shelve', '--server', 'vm1', '--server', OTHER_ID],
            [server(SERVER_ID, on_end='shelve'), server(OTHER_ID, on_end='shelve')],
        ),
        (
            [
                *('--on-end', 'stop', '--server', SERVER_ID, '--volume', VOLUME_ID),
                *('--volume', 'v2', '--on-end', 'snapshot'),
            ],
            [
                server(SERVER_ID, on_end='stop'),
                volume(VOLUME_ID, on_end='snapshot'),
                volume(OTHER_ID, on_end='snapshot'),
            ],
        ),
        (
            ['--stack', 'web', '--on-end', 'suspend'],
            [{'resource_type': 'virtual:stack', 'resource_id': STACK_ID, 'on_end': 'suspend'}],
        ),
        # The last one wins that a type of resource knows.
        (
            [
                *('--reservation', f'resource_type=virtual:instance,resource_id={SERVER_ID}'),
                *('--reservation', f'resource_type=virtual:volume,resource_id={VOLUME_ID}'),
                *('--on-end', 'delete', '--on-end', 'stop'),
            ],
            [server(SERVER_ID, on_end='stop'), volume(VOLUME_ID, on_end='delete')],
        ),
        (
            [
                *('--on-end', 'nothing', '--reservation'),
                f'resource_type=virtual:instance,resource_id={SERVER_ID},on_end=stop',
                *('--reservation', f'resource_type=virtual:instance,resource_id={OTHER_ID}'),
                '--reservation',
                'resource_type=physical:host,min=1,max=2,resource_properties=["=","$gpu","1,2"]',
                *('--reservation', '{"resource_type": "flavor:instance", "affinity": true}'),
            ],
            [
                server(SERVER_ID, on_end='stop'),
                server(OTHER_ID, on_end='nothing'),
                {
                    'resource_type': 'physical:host',
                    'min': 1,
                    'max': 2,
                    'resource_properties': '["=","$gpu","1,2"]',
                },
                {'resource_type': 'flavor:instance', 'affinity': True},
            ],
        ),
    ],
)
def test_create_with_reservations_sends_their_values(
    run, http, sent, created, resources, argv, reservations
):
    run('lease', 'create', 'lease1', '--for', '3h', *argv)
    (body,) = sent('POST')
    assert body['reservations'] == reservations
    heat = [each.url for each in http.request_history if each.url.startswith(HEAT)]
    assert all('resolve_outputs=False' in each for each in heat)


def test_create_for_a_missing_server_is_refused(fail, http, sent, created):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(f'{NOVA}/servers/detail?name=vm1', json={'servers': []})
    err = fail('lease', 'create', 'lease1', '--for', '3h', '--server', 'vm1')
    assert 'vm1' in err
    assert sent('POST') == []


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
        (
            ['--for', '3h', '--reservation', '{"a":1,'],
            'at character 8, before "". Example: --reservation \'{"resource_type',
        ),
        (['--for', '3h', '--reservation', '{"a":' * 100_000], 'the JSON is too deep'),
        (
            ['--for', '3h', '--hosts', 'min=1', '--on-end', 'stop'],
            'Host: delete or migrate, because the servers must leave',
        ),
        (['--for', '3h', '--event', 'type=remind'], 'time is missing'),
        (['--for', '3h', '--event', 'type=a,time=now,x=y'], 'unknown key x'),
        (['--for', '3h', '--on-end', 'stop'], '--on-end stop: there is no server to take it'),
        (
            ['--for', '3h', '--server', SERVER_ID, '--on-end', 'backup'],
            '--on-end backup: there is no volume to take it',
        ),
        (
            ['--for', '3h', '--reservation', 'resource_type=x', '--on-end', 'delete'],
            'there is no server, volume, stack, floating IP, host or capacity to take it',
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


def test_show_as_json_has_iso_dates(run, http):
    http.get(LEASES, json={'leases': [samples.lease()]})
    out = run('lease', 'show', 'lease1', '-f', 'json')
    shown = json.loads(out)
    assert shown['start_date'] == '2082-11-21T04:00:00+00:00'
    assert shown['before_end_date'] == '2082-11-21T05:50:00+00:00'
    assert shown['updated_at'] is None
    assert shown['reservations'][0]['on_end'] == 'stop'
    assert shown['reservations'][0]['created_at'] == '2082-11-21T02:59:32+00:00'
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
    assert f'virtual:instance resource={SERVER_ID} error, missing_resources, Gone.' in out


def test_show_names_the_reservation_of_hosts_that_servers_name(run, http):
    hosts = samples.reservation(resource_type='physical:host', hosts=['cn1'])
    http.get(LEASE, json={'lease': samples.lease(reservations=[hosts])})
    out = run('lease', 'show', LEASE_ID)
    assert f'physical:host reservation={hosts["id"]} ' in out
    assert hosts['resource_id'] not in out


def test_times_of_reservations_are_local_and_named(run, http):
    early = samples.reservation(end_date='2082-11-21T04:00:00.000000', grace_date='soon')
    http.get(LEASE, json={'lease': samples.lease(reservations=[early])})
    out = run('lease', 'show', LEASE_ID)
    assert 'end_date=2082-11-21 05:00:00+01:00 CET' in out
    assert 'grace_date=soon' in out
    (shown,) = json.loads(run('lease', 'show', LEASE_ID, '-f', 'json'))['reservations']
    assert shown['end_date'] == '2082-11-21T04:00:00.000000'


def test_watch_follows_a_lease_and_shows_it_then(openstack, http, monkeypatch):
    monkeypatch.setattr('time.sleep', lambda _: None)
    looks = [{'lease': samples.lease(status=each)} for each in ('PENDING', 'STARTING', 'ACTIVE')]
    http.get(LEASE, [{'json': look} for look in [looks[0], *looks]])
    status, out, err = openstack('lease', 'show', LEASE_ID, '--watch', '-f', 'json')
    assert (status, json.loads(out)['status']) == (0, 'ACTIVE')
    lines = [line.split(': ')[1].split(',')[0] for line in err.splitlines()]
    assert lines == ['PENDING', 'STARTING', 'ACTIVE']


def test_watch_is_no_wait(fail):
    assert '--watch and --wait' in fail('lease', 'show', LEASE_ID, '--watch', '--wait')


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


def look(status, reason=None):
    # Its end is past: no line counts down to it.
    lease = samples.lease(
        status=status, status_reason=reason, end_date='2026-10-01T06:00:00.000000'
    )
    return {'json': {'lease': lease}}


@pytest.mark.parametrize(
    ('argv', 'looks', 'status', 'words'),
    [
        (['create', 'lease1', '--for', '3h'], [look('ACTIVE')], 0, 'lease1: ACTIVE\n'),
        (
            ['create', 'lease1', '--for', '3h'],
            [look('ERROR', 'Server vm1 is gone.')],
            1,
            f'Lease lease1 ({LEASE_ID}) is ERROR: Server vm1 is gone.',
        ),
        (['show', LEASE_ID], [look('TERMINATED', 'Over.')], 1, 'is TERMINATED: Over.'),
        (['start', LEASE_ID], [look('PENDING'), look('ACTIVE')], 0, 'lease1: ACTIVE\n'),
        (['end', LEASE_ID], [look('PENDING'), look('TERMINATED')], 0, 'lease1: TERMINATED\n'),
        (['delete', LEASE_ID], [look('PENDING'), {'status_code': 404}], 0, ''),
        (['delete', LEASE_ID], [look('ERROR', 'Nova says no.')], 1, 'is ERROR: Nova says no.'),
    ],
)
def test_wait_ends_with_what_became_of_the_lease(
    openstack, http, created, argv, looks, status, words
):
    http.get(LEASE, looks)
    http.delete(LEASE, status_code=204)
    for action in ('start', 'end'):
        answer = {'lease': samples.lease(start_policy='manual')}
        http.post(f'{LEASE}/{action}', status_code=202, json=answer)
    done, out, err = openstack('lease', *argv, '--wait')
    assert done == status
    assert err == words if status == 0 else words in err
    assert ('ACTIVE' in out) == ('ACTIVE' in words)


def test_kind_of_a_new_lease(run, fail, sent, created):
    create = ('lease', 'create', 'lease1', '--for', '2h')
    run(*create, '--kind', 'retry', '--max-retries', '3', '--priority', '0')
    (body,) = sent('POST')
    assert (body['kind'], body['max_retries'], body['priority']) == ('retry', 3, 0)
    for option in ('--max-retries', '--priority'):
        assert f'{option}: only a lease of --kind retry' in fail(*create, option, '3')
    run(*create, '--kind', 'best_effort', '--best-effort-timeout', '60')
    assert sent('POST')[1]['best_effort_timeout'] == 60
    err = fail(*create, '--best-effort-timeout', '60')
    assert '--best-effort-timeout: hosts are only drained' in err


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
    run(
        *('lease', 'create', 'lease1', '--for', '2h'),
        *('--webhook', 'https://a.example.org', '--webhook-secret', 'seen by others'),
    )
    secret = {'url': 'https://a.example.org', 'secret': 'seen by others'}
    assert sent('POST')[1]['webhook'] == secret
