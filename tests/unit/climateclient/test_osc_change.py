# SPDX-License-Identifier: Apache-2.0
"""``openstack lease set|unset|start|end`` and ``openstack lease reservation ...``."""

import json

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import (
    ENDPOINT,
    LEASE_ID,
    OTHER_ID,
    RESERVATION_ID,
    SERVER_ID,
    VOLUME_ID,
)

LEASES = f'{ENDPOINT}/leases'
LEASE = f'{LEASES}/{LEASE_ID}'
RESERVATION = f'{LEASE}/reservations/{RESERVATION_ID}'
EVENTS = [
    samples.event('start_lease', '2082-11-21T04:00:00.000000'),
    samples.event('begun', '2082-11-21T04:30:00.000000', status='DONE'),
    samples.event('half', '2082-11-21T05:00:00.000000'),
    samples.event('late', '2082-11-21T05:30:00.000000'),
    samples.event('before_end_lease', '2082-11-21T05:50:00.000000'),
]


@pytest.fixture
def lease(http):
    http.get(LEASE, json={'lease': samples.lease(events=EVENTS)})
    http.put(LEASE, json={'lease': samples.lease(name='changed', generation=2)})


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['--name', 'other'], {'name': 'other'}),
        (['--end', '2082-11-21 08:00'], {'end_date': '2082-11-21T07:00:00+00:00'}),
        (['--for', '3h'], {'duration': 10800}),
        (['--end', 'now'], {'end_date': 'now'}),
        (['--for', '3h', '--partial'], {'duration': 10800, 'partial': True}),
        (['--start-policy', 'manual'], {'start_policy': 'manual'}),
        (['--tell-before-start', '1h,10m'], {'before_start': [3600, 600]}),
        (
            ['--webhook', 'https://a.example.org', '--webhook-event', 'lease.event.*'],
            {
                'webhook': {
                    'url': 'https://a.example.org',
                    'secret': 'from the environment',
                    'events': ['lease.event.*'],
                }
            },
        ),
        (['--no-event'], {'events': []}),
        (
            ['--no-event', '--event', 'type=x,time=2082-11-21T05:10Z'],
            {'events': [{'event_type': 'x', 'time': '2082-11-21T05:10:00+00:00'}]},
        ),
        (
            ['--reservation', f'id={RESERVATION_ID},on_end=shelve'],
            {'reservations': [{'id': RESERVATION_ID, 'on_end': 'shelve'}]},
        ),
    ],
)
def test_set_sends_what_its_options_say(run, http, sent, lease, monkeypatch, argv, expected):
    monkeypatch.setenv('CLIMATE_WEBHOOK_SECRET', 'from the environment')
    out = run('lease', 'set', LEASE_ID, *argv)
    assert sent('PUT') == [expected]
    # What is added to the events of the lease is computed from these.
    assert ('If-Match' in http.last_request.headers) == ('--event' in argv)
    assert 'changed' in out


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['--extend', '2d'], {'end_date': '2082-11-23T06:00:00+00:00'}),
        (['--shorten', '30m'], {'end_date': '2082-11-21T05:30:00+00:00'}),
        (
            ['--start', 'now', '--before-end', '10m'],
            {'start_date': 'now', 'before_end_date': '2082-11-21T05:50:00+00:00'},
        ),
        (
            ['--for', '3h', '--before-end', '10m'],
            {'duration': 10800, 'before_end_date': '2082-11-21T06:50:00+00:00'},
        ),
        (
            ['--event', 'type=x,time=2082-11-21T05:10Z'],
            {
                'events': [
                    {'event_type': 'half', 'time': '2082-11-21T05:00:00+00:00'},
                    {'event_type': 'late', 'time': '2082-11-21T05:30:00+00:00'},
                    {'event_type': 'x', 'time': '2082-11-21T05:10:00+00:00'},
                ]
            },
        ),
        (
            ['--on-end', 'nothing'],
            {'reservations': [{'id': RESERVATION_ID, 'on_end': 'nothing'}]},
        ),
    ],
)
def test_change_computed_from_the_lease_sends_its_generation(
    run, http, sent, lease, argv, expected
):
    run('lease', 'set', LEASE_ID, *argv)
    assert sent('PUT') == [expected]
    (put,) = [each for each in http.request_history if each.method == 'PUT']
    assert put.headers['If-Match'] == '"1"'


@pytest.mark.parametrize(
    ('argv', 'added'),
    [
        (
            ['--server', OTHER_ID, '--on-end', 'suspend'],
            {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'suspend'},
        ),
        (
            ['--volume', VOLUME_ID, '--on-end', 'detach'],
            {'resource_type': 'virtual:volume', 'resource_id': VOLUME_ID, 'on_end': 'detach'},
        ),
    ],
)
def test_set_adds_a_resource_and_removes_another(run, http, sent, lease, resources, argv, added):
    answer = {'reservation': samples.reservation()}
    http.post(f'{LEASE}/reservations', status_code=201, json=answer)
    http.delete(RESERVATION, status_code=204)
    run('lease', 'set', LEASE_ID, *argv, '--remove-reservation', SERVER_ID)
    assert (sent('PUT'), sent('POST')) == ([], [added])
    assert [each.url for each in http.request_history if each.method == 'DELETE'] == [RESERVATION]


@pytest.mark.parametrize(
    ('command', 'argv', 'words'),
    [
        ('set', [], 'Nothing to change'),
        ('set', ['--remove-reservation', OTHER_ID], f'only {RESERVATION_ID} (virtual:instance'),
        ('set', ['--reservation', 'id=x,on_end=stop'], 'has no reservation "x"'),
        ('set', ['--reservation', 'on_end=stop'], 'or the id of a reservation'),
        ('set', ['--for', '1h', '--end', 'now'], 'not allowed with'),
        ('set', ['--webhook', 'https://a.example.org'], 'needs a secret'),
        ('set', ['--webhook-event', 'x'], 'give --webhook'),
        (
            'set',
            ['--webhook', 'https://a.example.org', '--webhook-secret-file', '/nowhere'],
            '--webhook-secret-file: ',
        ),
        ('set', ['--tell-before-start', '1h,x'], "--tell-before-start: 'x' is not a duration"),
        ('unset', [], 'Nothing to change'),
        ('unset', ['--event', 'begun'], 'only half, late'),
    ],
)
def test_wrong_change_is_refused_before_any_request(
    fail, http, lease, monkeypatch, command, argv, words
):
    monkeypatch.delenv('CLIMATE_WEBHOOK_SECRET', raising=False)
    err = fail('lease', command, LEASE_ID, *argv)
    assert words in ' '.join(err.split())
    assert {each.method for each in http.request_history if ENDPOINT in each.url} <= {'GET'}


def test_on_end_for_a_lease_without_servers(fail, http):
    volume = samples.reservation(resource_type='virtual:volume')
    http.get(LEASE, json={'lease': samples.lease(reservations=[volume])})
    err = fail('lease', 'set', LEASE_ID, '--on-end', 'stop')
    assert '--on-end stop: there is no server to take it.' in err


def test_reservations_are_listed_with_their_resources(run, http):
    reservations = [
        samples.reservation(),
        samples.reservation(id='r2', resource_id=None, hosts=['compute4', 'compute5']),
        samples.reservation(id='r3', resource_id=None, network_name='net1'),
        samples.reservation(id='r4', resource_id=None, status='deleted'),
    ]
    http.get(LEASE, json={'lease': samples.lease(reservations=reservations)})
    rows = json.loads(run('lease', 'reservation', 'list', LEASE_ID, '-f', 'json'))
    assert rows[0] == {
        'ID': RESERVATION_ID,
        'Resource Type': 'virtual:instance',
        'Status': 'pending',
        'Resources': [SERVER_ID],
    }
    assert [row['Resources'] for row in rows[1:]] == [['compute4', 'compute5'], ['net1'], []]
    assert 'compute4, compute5' in run('lease', 'reservation', 'list', LEASE_ID)


def test_on_end_changes_reservations_that_know_it(run, http, sent, lease):
    volume = samples.reservation(
        id=OTHER_ID, resource_type='virtual:volume', resource_id=VOLUME_ID
    )
    reservations = [samples.reservation(), volume]
    http.get(LEASE, json={'lease': samples.lease(reservations=reservations)})
    run('lease', 'set', LEASE_ID, '--on-end', 'snapshot')
    assert sent('PUT') == [{'reservations': [{'id': OTHER_ID, 'on_end': 'snapshot'}]}]


def test_on_end_changes_the_given_reservation(run, sent, lease):
    given = f'id={SERVER_ID},amount=2'
    run(*('lease', 'set', LEASE_ID, '--reservation', given, '--on-end', 'stop'))
    change = {'id': RESERVATION_ID, 'amount': 2, 'on_end': 'stop'}
    assert sent('PUT') == [{'reservations': [change]}]


def test_webhook_secret_is_read_from_a_file(openstack, sent, lease, tmp_path):
    file = tmp_path / 'secret'
    file.write_text('only this line\nnot this\n')
    openstack(
        *('lease', 'set', LEASE_ID, '--webhook', 'https://a.example.org'),
        *('--webhook-secret-file', str(file)),
    )
    (body,) = sent('PUT')
    assert body['webhook']['secret'] == 'only this line'


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['--webhook'], {'webhook': None}),
        (['--tell-before-start'], {'before_start': []}),
        (
            ['--event', 'half'],
            {'events': [{'event_type': 'late', 'time': '2082-11-21T05:30:00+00:00'}]},
        ),
    ],
)
def test_unset_sends_what_is_taken_away(run, sent, lease, argv, expected):
    out = run('lease', 'unset', LEASE_ID, *argv)
    assert sent('PUT') == [expected]
    assert 'changed' in out


@pytest.mark.parametrize(
    ('patterns', 'told'), [(['*'], 'all'), (['lease.create', 'lease.*'], 'lease.create, lease.*')]
)
def test_start_shows_the_terms(run, http, patterns, told):
    waiting = samples.lease(
        start_policy='manual',
        before_start=[60, 3600],
        webhook={'url': 'https://a.example.org', 'events': patterns},
    )
    http.get(LEASE, json={'lease': waiting})
    http.post(f'{LEASE}/start', status_code=202, json={'lease': waiting})
    out = run('lease', 'start', LEASE_ID)
    assert '1m, 1h' in out
    assert f'https://a.example.org (notifications: {told})' in out
    out = run('lease', 'start', LEASE_ID, '-f', 'json')
    shown = json.loads(out)
    assert (shown['start_policy'], shown['before_start']) == ('manual', [60, 3600])
    assert shown['webhook'] == {'url': 'https://a.example.org', 'events': patterns}


def test_start_shows_the_refusal_of_the_service(fail, http):
    http.get(LEASE, json={'lease': samples.lease()})
    body = samples.error(409, 'It starts at noon.', 'lease.invalid_state', field='start_date')
    http.post(f'{LEASE}/start', status_code=409, json=body)
    err = fail('lease', 'start', LEASE_ID)
    assert 'start_date: It starts at noon.' in err


def test_end_several_goes_on_after_a_failure(fail, http):
    other = f'{LEASES}/{OTHER_ID}'
    http.get(LEASE, json={'lease': samples.lease()})
    http.get(other, json={'lease': samples.lease(id=OTHER_ID)})
    body = samples.error(409, 'It is over.', 'lease.invalid_state')
    http.post(f'{LEASE}/end', status_code=409, json=body)
    http.post(f'{other}/end', status_code=202, json={'lease': samples.lease(id=OTHER_ID)})
    err = fail('lease', 'end', LEASE_ID, OTHER_ID)
    assert f'{LEASE_ID}: It is over.' in err
    assert '1 of 2 leases could not be ended.' in err


def test_reservation_add_sends_the_resource_and_its_end(run, http, sent, lease):
    http.post(
        f'{LEASE}/reservations', status_code=201, json={'reservation': samples.reservation()}
    )
    out = run(
        *('lease', 'reservation', 'add', LEASE_ID),
        *('--reservation', f'resource_type=virtual:instance,resource_id={OTHER_ID}'),
        *('--on-end', 'stop'),
    )
    assert sent('POST') == [
        {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'stop'}
    ]
    assert SERVER_ID in out


@pytest.mark.parametrize('which', [RESERVATION_ID, SERVER_ID, 'vm1'])
def test_reservation_set_changes_that_reservation(run, http, sent, lease, resources, which):
    http.put(RESERVATION, json={'reservation': samples.reservation(on_end='shelve')})
    out = run(
        *('lease', 'reservation', 'set', LEASE_ID, which, '-f', 'json'),
        *('--on-end', 'shelve', '--property', 'amount=2,name=x'),
    )
    assert sent('PUT') == [{'on_end': 'shelve', 'amount': 2, 'name': 'x'}]
    shown = json.loads(out)
    assert (shown['id'], shown['on_end']) == (RESERVATION_ID, 'shelve')
    assert shown['created_at'] == '2082-11-21T02:59:32+00:00'


@pytest.mark.parametrize(
    ('text', 'sent_values'),
    [
        ('segment_id=101', {'segment_id': 101}),
        ('resource_id=101', {'resource_id': '101'}),
        ('required_floatingips=203.0.113.20', {'required_floatingips': ['203.0.113.20']}),
        (
            'amount=2,required_floatingips=203.0.113.20,203.0.113.21',
            {'amount': 2, 'required_floatingips': ['203.0.113.20', '203.0.113.21']},
        ),
        ('network_tags=red,blue', {'network_tags': ['red', 'blue']}),
        ('affinity=false', {'affinity': False}),
        ('affinity=True', {'affinity': True}),
        ('affinity=None', {'affinity': 'None'}),
    ],
)
def test_property_has_the_type_that_the_api_takes(run, http, sent, lease, text, sent_values):
    http.put(RESERVATION, json={'reservation': samples.reservation()})
    run('lease', 'reservation', 'set', LEASE_ID, RESERVATION_ID, '--property', text)
    assert sent('PUT') == [sent_values]


def test_reservation_set_refuses_an_unknown_on_end(fail, sent, lease):
    err = fail(*('lease', 'reservation', 'set', LEASE_ID, SERVER_ID, '--on-end', 'backup'))
    assert '--on-end backup: there is no volume to take it.' in err
    assert sent('PUT') == []


@pytest.mark.parametrize('which', [SERVER_ID, 'vm1'])
@pytest.mark.parametrize('of', [LEASE_ID, 'lease1'])
def test_reservation_remove_deletes_by_id_or_name(openstack, http, lease, resources, of, which):
    http.get(f'{LEASES}?name=lease1', json={'leases': [samples.lease()]})
    http.delete(RESERVATION, status_code=204)
    status, out, err = openstack('lease', 'reservation', 'remove', of, which)
    assert (status, out, err) == (0, '', '')
    assert http.last_request.method == 'DELETE'


@pytest.fixture
def twins(http, lease, resources):
    """Two servers of the project have the name vm1; SERVER_ID is the one of the lease."""
    found = [{'id': each, 'name': 'vm1'} for each in (samples.OTHER_ID, SERVER_ID)]
    http.get(f'{samples.NOVA}/servers/detail?name=vm1', json={'servers': found})


def test_name_finds_the_only_one_in_the_lease_of_two_servers(run, http, sent, twins):
    http.put(RESERVATION, json={'reservation': samples.reservation()})
    run('lease', 'reservation', 'set', LEASE_ID, 'vm1', '--on-end', 'shelve')
    assert sent('PUT') == [{'on_end': 'shelve'}]
    http.delete(RESERVATION, status_code=204)
    run('lease', 'reservation', 'remove', LEASE_ID, 'vm1')
    assert http.last_request.method == 'DELETE'


def test_name_of_two_servers_of_a_lease_is_refused(fail, http, sent, twins):
    both = [samples.reservation(), samples.reservation(id=OTHER_ID, resource_id=samples.OTHER_ID)]
    http.get(LEASE, json={'lease': samples.lease(reservations=both)})
    err = fail('lease', 'reservation', 'set', LEASE_ID, 'vm1', '--on-end', 'shelve')
    assert 'has several reservations of "vm1". Give the id of one' in err
    assert f'{RESERVATION_ID} (virtual:instance), {OTHER_ID} (virtual:instance)' in err
    assert sent('PUT') == []


def test_name_of_two_resources_is_refused(fail, http, sent, lease, resources, monkeypatch):
    volume = samples.reservation(
        id=OTHER_ID, resource_type='virtual:volume', resource_id=samples.OTHER_ID
    )
    both = [samples.reservation(), volume]
    http.get(LEASE, json={'lease': samples.lease(reservations=both)})
    http.get(f'{samples.CINDER}/volumes/vm1', status_code=404, json={})
    found = [{'id': samples.OTHER_ID, 'name': 'vm1'}]
    http.get(f'{samples.CINDER}/volumes/detail?name=vm1', json={'volumes': found})
    err = fail('lease', 'reservation', 'remove', LEASE_ID, 'vm1')
    assert 'has several reservations of "vm1"' in err
    assert f'{RESERVATION_ID} (virtual:instance), {OTHER_ID} (virtual:volume)' in err
    assert http.last_request.method == 'GET'


@pytest.mark.parametrize(
    ('argv', 'words'),
    [
        (['add', LEASE_ID], 'Nothing to add'),
        (['set', LEASE_ID, SERVER_ID], 'Nothing to change'),
        (['remove', LEASE_ID, OTHER_ID], f'has no reservation "{OTHER_ID}"'),
        (['remove', LEASE_ID, 'x'], 'has no reservation "x"'),
    ],
)
def test_wrong_options_of_a_reservation_are_refused(fail, http, lease, argv, words):
    http.get(f'{samples.NOVA}/servers/x', status_code=404, json={})
    http.get(f'{samples.NOVA}/servers/detail?name=x', json={'servers': []})
    err = fail('lease', 'reservation', *argv)
    assert words in err
