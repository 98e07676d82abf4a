# SPDX-License-Identifier: Apache-2.0
"""``openstack lease list|history``: the service filters and sorts."""

import json

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, KEYSTONE, LEASE_ID, SERVER_ID

LEASES = f'{ENDPOINT}/leases'
HISTORY = f'{LEASES}/{LEASE_ID}/history'
PROJECT_ID = 32 * 'a'


@pytest.fixture
def listed(http):
    rows = [
        samples.lease(id='a', name='early', status='ACTIVE', status_reason='It runs.'),
        samples.lease(id='b', name='late', start_date='2082-11-23T04:00:00.000000'),
    ]
    http.get(LEASES, json={'leases': rows})


def asked(http):
    """Return the parameters of the last request."""
    return {name: value for name, (value,) in http.last_request.qs.items()}


def test_list_shows_leases_by_their_start(run, http, listed):
    out = run('lease', 'list')
    assert out.index('early') < out.index('late')
    assert '2082-11-23 05:00:00+01:00' in out
    assert 'Reservations' not in out
    assert asked(http) == {
        'project_id': 'project1',
        'sort': 'start_date:asc',
        'fields': 'id,name,status,start_date,end_date',
    }


def test_list_shows_the_last_time_that_there_is_in_utc(run, http):
    rows = [samples.lease(name='far', end_date='9999-12-31T23:59:59.999999')]
    http.get(LEASES, json={'leases': rows})
    assert '9999-12-31 23:59:59 UTC' in run('lease', 'list')


def test_tables_fit_into_120_columns(run, http):
    http.get(LEASES, json={'leases': [samples.lease(name='night-run', status='ACTIVE')]})
    table = run('lease', 'list').splitlines()
    assert LEASE_ID in table[3]
    assert max(map(len, table)) <= 120
    assert '2082-11-21 05:00:00+01:00 |' in table[3]


def test_list_long_shows_reservations_and_owners(run, http, listed):
    out = run('lease', 'list', '--long', '-f', 'json')
    early = json.loads(out)[0]
    assert early['Start'] == '2082-11-21T04:00:00+00:00'
    assert early['Reservations'][0]['resource_id'] == SERVER_ID
    assert (early['Project'], early['User'], early['Reason']) == ('project1', 'user1', 'It runs.')
    assert 'fields' not in asked(http)


def test_list_with_all_filters(run, http, listed):
    run(
        *('lease', 'list', '--status', 'pending', '--status', 'ERROR', '--name', 'lease1'),
        *('--resource-type', 'virtual:instance', '--resource-id', SERVER_ID, '--deleted'),
        *('--from', '2082-11-21 05:00', '--until', '2082-12-01T00:00Z', '--all-projects'),
        *('--sort', 'end_date:desc,name', '--limit', '2', '--marker', LEASE_ID),
    )
    expected = {
        'status': 'pending,error',
        'name': 'lease1',
        'resource_type': 'virtual:instance',
        'resource_id': SERVER_ID,
        'deleted': 'true',
        'from': '2082-11-21t04:00:00+00:00',
        'until': '2082-12-01t00:00:00+00:00',
        'sort': 'end_date:desc,name:asc',
        'limit': '2',
        'marker': LEASE_ID,
    }
    assert asked(http).items() >= expected.items()
    assert 'project_id' not in asked(http)


@pytest.mark.parametrize('project', [PROJECT_ID, 'theirs'])
def test_list_of_a_project_by_id_or_name(run, http, listed, project):
    http.get(f'{KEYSTONE}/projects/theirs', status_code=404, json={})
    found = {'projects': [{'id': PROJECT_ID, 'name': 'theirs'}]}
    http.get(f'{KEYSTONE}/projects?name=theirs', json=found)
    run('lease', 'list', '--project', project)
    assert asked(http)['project_id'] == PROJECT_ID


def test_list_sorted_by_a_column_of_cliff(run, listed):
    out = run(*('lease', 'list', '-f', 'json', '--sort-column', 'Start', '--sort-descending'))
    assert json.loads(out)[0]['Name'] == 'late'


@pytest.mark.parametrize(
    'argv',
    [
        ('--sort', 'colour'),
        ('--sort', 'name:up'),
        ('--status', 'UPDATING'),
        ('--limit', '0'),
        ('--limit', 'x'),
        ('--from', 'yesterday'),
        ('--project', 'x', '--all-projects'),
    ],
)
def test_wrong_options_of_list_are_refused(fail, listed, argv):
    err = fail('lease', 'list', *argv)
    assert argv[0] in err


@pytest.fixture
def remembered(http):
    entries = [
        {
            'id': '7',
            'time': '2082-11-21T04:00:01.000000',
            'action': 'event.start_lease',
            'result': 'retry',
            'reason': 'Nova does not answer.',
            'user_id': 'user1',
            'request_id': 'req-1',
            'changes': {
                'status': ['PENDING', 'STARTING'],
                'before_start': [[], [60]],
                'name': ['2082-11-21 04:00:00', 'lease1'],
                'end_date': ['2082-11-21T04:00:00.000000', '2082-12-01 04:30:00'],
                'before_end_date': [None, '2026-07-01T04:00:00.000000'],
                'webhook': [None, 'https://hook.example.org'],
                'reservations': {'r1': {'status': ['pending', 'active'], 'resource': 'server x'}},
            },
        }
    ]
    http.get(HISTORY, json={'history': entries})


def test_history_as_a_table_has_readable_changes(run, remembered):
    out = run('lease', 'history', LEASE_ID)
    assert '2082-11-21 05:00:01+01:00' in out
    for text in (
        'Nova does not answer.',
        'status: PENDING -> STARTING',
        'before_start: [] -> [60]',
        'webhook: none -> https://hook.example.org',
        'reservations r1 status: pending -> active',
        'reservations r1 resource: server x',
        # A name is no time, whatever it looks like.
        'name: 2082-11-21 04:00:00 -> lease1',
        'end_date: 2082-11-21 05:00:00+01:00 CET -> 2082-12-01 05:30:00+01:00 CET',
        'before_end_date: none -> 2026-07-01 06:00:00+02:00 CEST',
    ):
        assert text in out
    assert 'req-1' not in out


def test_history_as_a_table_leaves_out_what_a_reservation_does_not_ask_for(run, http):
    params = {'network_name': 'net1', 'network_tags': None, 'resources': [], 'segment_id': ''}
    changes = {'reservations': {'r1': {'params': [None, params]}}}
    entry = {
        'id': '7',
        'time': '2082-11-21 04:00:01',
        'action': 'lease.create',
        'user_id': 'user1',
        'request_id': 'req-1',
        'result': 'done',
        'reason': None,
        'changes': changes,
    }
    http.get(HISTORY, json={'history': [entry]})
    asked_for = '{"network_name": "net1"}'
    assert f'reservations r1 params: none -> {asked_for} ' in run('lease', 'history', LEASE_ID)
    (listed,) = json.loads(run('lease', 'history', LEASE_ID, '-f', 'json'))
    assert listed['Changes'] == changes


def test_history_as_json_has_lists_of_changes(run, http, remembered):
    out = run(
        *('lease', 'history', LEASE_ID, '--long', '-f', 'json', '--limit', '3', '--marker', '6')
    )
    (entry,) = json.loads(out)
    assert (entry['ID'], entry['User'], entry['Request']) == ('7', 'user1', 'req-1')
    assert entry['Changes']['status'] == ['PENDING', 'STARTING']
    assert entry['Changes']['end_date'] == ['2082-11-21T04:00:00.000000', '2082-12-01 04:30:00']
    assert asked(http) == {'limit': '3', 'marker': '6'}


def test_history_of_a_deleted_lease_by_name(run, http, remembered):
    http.get(f'{LEASES}?name=lease1', json={'leases': []})
    http.get(f'{LEASES}?name=lease1&deleted=true', json={'leases': [samples.lease()]})
    out = run('lease', 'history', 'lease1')
    assert 'retry' in out


def test_history_of_an_id_asks_once(openstack, http, remembered):
    openstack('lease', 'history', LEASE_ID)
    assert [each.url for each in http.request_history if ENDPOINT in each.url] == [HISTORY]


@pytest.mark.parametrize('form', ['table', 'value', 'csv', 'json', 'yaml', 'shell'])
def test_control_characters_of_a_stored_name_are_escaped(run, http, form):
    """Releases before stored them; a terminal would obey them."""
    control = ''.join(map(chr, (*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0))))
    lease = samples.lease(name=f'a{control}b', status_reason=control)
    http.get(LEASES, json={'leases': [lease]})
    http.get(f'{LEASES}/{samples.LEASE_ID}', json={'lease': lease})
    listed = run('lease', 'list', '--long', '-f', form) if form != 'shell' else ''
    shown = run('lease', 'show', samples.LEASE_ID, '-f', form) if form != 'csv' else ''
    out = listed + shown
    assert [each for each in out if each in control] == []
    assert '9b' in out.lower()
