# SPDX-License-Identifier: Apache-2.0
"""``openstack lease ...`` through the real shell, the requests seen at the HTTP edge."""

import datetime
import json

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, NOVA, OTHER_ID, SERVER_ID

LEASES = f'{ENDPOINT}/leases'
LEASE = f'{LEASES}/{LEASE_ID}'


def sent(http, method):
    """The bodies that the lease service got by a method."""
    return [
        request.json()
        for request in http.request_history
        if request.method == method and request.url.startswith(ENDPOINT)
    ]


@pytest.fixture
def created(http):
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})


def test_create_with_local_times(openstack, http, created):
    status, out, _ = openstack(
        'lease', 'create', 'lease1', '--start', '2026-11-21 05:00', '--end', '2026-11-21T06:00Z'
    )

    assert status == 0
    (body,) = sent(http, 'POST')
    assert body['name'] == 'lease1'
    assert body['start_date'] == '2026-11-21T04:00:00+00:00'
    assert body['end_date'] == '2026-11-21T06:00:00+00:00'
    assert 'before_end_date' not in body
    assert '2026-11-21 05:00:00+01:00' in out
    assert f'virtual:instance {SERVER_ID} pending, on_end=stop' in out
    assert '2026-11-21 05:00:00+01:00 start_lease UNDONE' in out


def test_create_for_a_duration(openstack, http, created):
    openstack(
        *('lease', 'create', 'lease1', '--start', '2026-11-21 05:00'),
        *('--for', '1d12h', '--before-end', '30m'),
    )
    (body,) = sent(http, 'POST')
    assert body['end_date'] == '2026-11-22T16:00:00+00:00'
    assert body['before_end_date'] == '2026-11-22T15:30:00+00:00'


def test_create_now_leaves_now_to_the_service(openstack, http, created):
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    openstack('lease', 'create', 'lease1', '--for', '3h')
    (body,) = sent(http, 'POST')
    assert body['start_date'] == 'now'
    assert datetime.datetime.fromisoformat(body['end_date']) >= before + datetime.timedelta(
        hours=3
    )


def test_create_with_servers_by_name_and_by_id(openstack, http, created):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(
        f'{NOVA}/servers/detail?name=vm1', json={'servers': [{'id': SERVER_ID, 'name': 'vm1'}]}
    )
    http.get(f'{NOVA}/servers/{OTHER_ID}', json={'server': {'id': OTHER_ID, 'name': 'vm2'}})

    status, _, err = openstack(
        *('lease', 'create', 'lease1', '--for', '3h', '--on-end', 'shelve'),
        *('--server', 'vm1', '--server', OTHER_ID),
    )

    assert status == 0, err
    (body,) = sent(http, 'POST')
    assert body['reservations'] == [
        {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID, 'on_end': 'shelve'},
        {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'shelve'},
    ]


def test_create_for_a_server_that_is_not_there(openstack, http, created):
    http.get(f'{NOVA}/servers/vm1', status_code=404, json={})
    http.get(f'{NOVA}/servers/detail?name=vm1', json={'servers': []})

    status, _, err = openstack('lease', 'create', 'lease1', '--for', '3h', '--server', 'vm1')

    assert status == 1
    assert 'vm1' in err
    assert sent(http, 'POST') == []


def test_create_with_reservations_and_events(openstack, http, created):
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
    (body,) = sent(http, 'POST')
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
        (['--for', '3'], '--for: "3" is not a duration'),
        (['--end', 'tomorrow'], '--end: "tomorrow" is not a time'),
        (['--start', '2026-03-29 02:30', '--for', '1h'], 'never comes'),
        (['--for', '3h', '--reservation', 'resource_id=x'], 'resource_type is missing'),
        (['--for', '3h', '--reservation', 'x'], '"x" is not <key>=<value>'),
        (['--for', '3h', '--reservation', 'min=1,min=2'], 'min is given twice'),
        (['--for', '3h', '--reservation', '{"a":'], '--reservation: '),
        (['--for', '3h', '--event', 'type=remind'], 'time is missing'),
        (['--for', '3h', '--event', 'type=a,time=now,x=y'], 'unknown key x'),
        (['--for', '3h', '--on-end', 'stop'], '--on-end is for servers'),
        (['--for', '3h', '--before-end', '1y'], '--before-end: '),
        (['--for', '3h', '--wait', '--timeout', '5'], '--timeout: '),
        ([], 'one of the arguments --end/--end-date --for is required'),
        (['--for', '3h', '--end', 'now'], 'not allowed with'),
    ],
)
def test_create_refuses_what_is_wrong_before_any_request(openstack, http, created, argv, words):
    status, _, err = openstack('lease', 'create', 'lease1', *argv)
    assert status != 0
    assert words in ' '.join(err.split())
    assert sent(http, 'POST') == []


def test_create_says_what_the_service_says(openstack, http):
    body = samples.error(400, 'The end is in the past.', 'lease.invalid_date', field='end_date')
    http.post(LEASES, status_code=400, json=body)
    status, _, err = openstack('lease', 'create', 'lease1', '--for', '3h')
    assert status == 1
    assert 'The end is in the past.' in err


def test_create_and_wait(openstack, http, created):
    http.get(LEASE, json={'lease': samples.lease(status='ACTIVE')})
    status, out, err = openstack('lease', 'create', 'lease1', '--for', '3h', '--wait')
    assert status == 0
    assert 'ACTIVE' in out
    assert err == 'lease1: ACTIVE\n'


def test_create_and_wait_for_one_that_fails(openstack, http, created):
    failed = samples.lease(status='ERROR', status_reason='Server vm1 is gone.')
    http.get(LEASE, json={'lease': failed})
    status, _, err = openstack('lease', 'create', 'lease1', '--for', '3h', '--wait')
    assert status == 1
    assert f'Lease lease1 ({LEASE_ID}) is ERROR: Server vm1 is gone.' in err


@pytest.fixture
def listed(http):
    rows = [
        samples.lease(id='b', name='late', start_date='2026-11-23T04:00:00.000000'),
        samples.lease(id='a', name='early', status='ACTIVE', status_reason='It runs.'),
        samples.lease(id='c', name='over', status='TERMINATED', reservations=[], events=[]),
    ]
    http.get(LEASES, json={'leases': rows})


def names(out):
    return [each['Name'] for each in json.loads(out)]


def test_list(openstack, listed):
    status, out, _ = openstack('lease', 'list')
    assert status == 0
    assert out.index('early') < out.index('late')
    assert '2026-11-23 05:00:00+01:00' in out
    assert 'Reservations' not in out


def test_list_long(openstack, listed):
    _, out, _ = openstack('lease', 'list', '--long', '-f', 'json')
    early = json.loads(out)[0]
    assert early['Start'] == '2026-11-21T04:00:00+00:00'
    assert early['Reservations'][0]['resource_id'] == SERVER_ID
    assert (early['Project'], early['User'], early['Reason']) == ('project1', 'user1', 'It runs.')


def test_list_by_status(openstack, listed):
    _, out, _ = openstack('lease', 'list', '-f', 'json', '--status', 'pending')
    assert names(out) == ['late']
    _, out, _ = openstack(
        *('lease', 'list', '-f', 'json', '--status', 'ACTIVE', '--status', 'TERMINATED')
    )
    assert sorted(names(out)) == ['early', 'over']


@pytest.mark.parametrize(
    ('sort', 'expected'),
    [
        ('start:desc,name:desc', ['late', 'over', 'early']),
        ('name', ['early', 'late', 'over']),
        ('status:asc', ['early', 'late', 'over']),
        ('id:desc', ['over', 'late', 'early']),
    ],
)
def test_list_sorted(openstack, listed, sort, expected):
    _, out, _ = openstack('lease', 'list', '-f', 'json', '--sort', sort)
    assert names(out) == expected


def test_list_sorted_by_a_column_of_cliff(openstack, listed):
    _, out, _ = openstack(
        *('lease', 'list', '-f', 'json', '--sort-column', 'Start', '--sort-descending')
    )
    assert names(out)[0] == 'late'


@pytest.mark.parametrize('argv', [('--sort', 'colour'), ('--sort', 'name:up'), ('--status', 'x')])
def test_list_refuses(openstack, listed, argv):
    status, _, err = openstack('lease', 'list', *argv)
    assert status != 0
    assert argv[0] in err


def test_show_for_programs(openstack, http):
    http.get(LEASES, json={'leases': [samples.lease()]})
    status, out, _ = openstack('lease', 'show', 'lease1', '-f', 'json')
    assert status == 0
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


def test_show_what_went_wrong(openstack, http):
    bad = samples.reservation(
        status='error', status_reason='Gone.', missing_resources=True, on_end=None
    )
    http.get(LEASE, json={'lease': samples.lease(reservations=[bad])})
    _, out, _ = openstack('lease', 'show', LEASE_ID)
    assert f'virtual:instance {SERVER_ID} error, missing_resources, Gone.' in out


def test_show_an_ambiguous_name(openstack, http):
    http.get(LEASES, json={'leases': [samples.lease(), samples.lease(id=OTHER_ID)]})
    status, _, err = openstack('lease', 'show', 'lease1')
    assert status == 1
    assert LEASE_ID in err
    assert OTHER_ID in err


def test_show_and_wait(openstack, http):
    http.get(LEASE, json={'lease': samples.lease(status='TERMINATED', status_reason='Over.')})
    status, _, err = openstack('lease', 'show', LEASE_ID, '--wait')
    assert status == 1
    assert 'is TERMINATED: Over.' in err


@pytest.mark.parametrize(
    ('argv', 'expected'),
    [
        (['--name', 'other'], {'name': 'other'}),
        (['--end', '2026-11-21 08:00'], {'end_date': '2026-11-21T07:00:00+00:00'}),
        (['--extend', '2d'], {'end_date': '2026-11-23T06:00:00+00:00', 'generation': 1}),
        (['--shorten', '30m'], {'end_date': '2026-11-21T05:30:00+00:00', 'generation': 1}),
        (
            ['--start', 'now', '--before-end', '10m'],
            {
                'start_date': 'now',
                'before_end_date': '2026-11-21T05:50:00+00:00',
                'generation': 1,
            },
        ),
        (['--end', 'now'], {'end_date': 'now'}),
    ],
)
def test_set(openstack, http, argv, expected):
    http.get(LEASE, json={'lease': samples.lease()})
    http.put(LEASE, json={'lease': samples.lease(name='changed')})
    status, out, _ = openstack('lease', 'set', LEASE_ID, *argv)
    assert status == 0
    assert sent(http, 'PUT') == [expected]
    assert 'changed' in out


def test_set_adds_a_server(openstack, http):
    http.get(LEASE, json={'lease': samples.lease()})
    http.get(f'{NOVA}/servers/{OTHER_ID}', json={'server': {'id': OTHER_ID, 'name': 'vm2'}})
    http.post(
        f'{LEASE}/reservations', status_code=201, json={'reservation': samples.reservation()}
    )

    status, _, _ = openstack('lease', 'set', LEASE_ID, '--server', OTHER_ID, '--on-end', 'suspend')

    assert status == 0
    assert sent(http, 'PUT') == []
    assert sent(http, 'POST') == [
        {'resource_type': 'virtual:instance', 'resource_id': OTHER_ID, 'on_end': 'suspend'}
    ]


def test_set_nothing(openstack, http):
    http.get(LEASE, json={'lease': samples.lease()})
    status, _, err = openstack('lease', 'set', LEASE_ID)
    assert status == 1
    assert 'Nothing to change' in err


def test_delete_several_goes_on_after_a_failure(openstack, http):
    rows = [samples.lease(), samples.lease(id=OTHER_ID, name='lease2')]
    http.get(LEASES, json={'leases': rows})
    http.delete(LEASE, status_code=204)
    http.delete(f'{LEASES}/{OTHER_ID}', status_code=204)

    status, _, err = openstack('lease', 'delete', 'lease1', 'none', 'lease2', 'lease1')

    assert status == 1
    assert 'No lease has the name or id "none".' in err
    assert '1 of 3 leases could not be deleted.' in err
    deleted = [r.url for r in http.request_history if r.method == 'DELETE']
    assert deleted == [LEASE, f'{LEASES}/{OTHER_ID}']


def test_delete_and_wait(openstack, http):
    http.get(LEASE, [{'json': {'lease': samples.lease()}}, {'status_code': 404}])
    http.delete(LEASE, status_code=204)
    status, out, err = openstack('lease', 'delete', LEASE_ID, '--wait')
    assert (status, out, err) == (0, '', '')


def test_delete_and_wait_for_one_that_cannot_end(openstack, http):
    stuck = samples.lease(status='ERROR', status_reason='Nova says no.')
    http.get(LEASE, json={'lease': stuck})
    http.delete(LEASE, status_code=204)
    status, _, err = openstack('lease', 'delete', LEASE_ID, '--wait')
    assert status == 1
    assert 'is ERROR: Nova says no.' in err
