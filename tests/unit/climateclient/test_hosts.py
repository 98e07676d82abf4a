# SPDX-License-Identifier: Apache-2.0
"""``client.hosts`` and ``openstack lease host ...``: what is sent and shown."""

import json

import pytest

from climateclient import exceptions
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, RESERVATION_ID, lease

URL = f'{ENDPOINT}/os-hosts'
SHARED = {'id': 'shared', 'hypervisor_hostname': 'shared', 'service_name': 'shared'}
PROMISED = {
    'id': RESERVATION_ID,
    'lease_id': LEASE_ID,
    'lease_name': 'lease1',
    'start_date': '2082-11-21T04:00:00.000000',
    'end_date': '2082-11-21T06:00:00.000000',
}


def host(**changes):
    return {
        'id': '1',
        'hypervisor_hostname': 'cn1',
        'service_name': 'cn1',
        'pool': 'default',
        'reservable': True,
        'disabled_reason': None,
        'vcpus': 64,
        'memory_mb': 262144,
        'local_gb': 2000,
        'cpu_info': '{"arch": "x86_64"}',
        'traits': ['CUSTOM_SSD'],
        'aggregates': [],
        'capacity': {'vcpus': 256},
        'created_at': '2082-11-21 02:59:32',
        'updated_at': None,
        'rack': '7',
    } | changes


@pytest.fixture
def served(http):
    """Return the host cn1, which is promised to a lease."""
    http.get(URL, json={'hosts': [host()]})
    http.get(f'{URL}/1', json={'host': host()})
    http.get(f'{URL}/1/allocation', json={'allocation': _allocation('1', PROMISED)})
    http.put(f'{URL}/1', json={'host': host(reservable=False)})
    http.delete(f'{URL}/1', status_code=204)


def _allocation(host_id, *promised):
    return {
        'resource_id': host_id,
        'hypervisor_hostname': f'cn{host_id}',
        'reservations': list(promised),
    }


def test_host_has_what_the_service_says_and_extra_properties(client, served):
    found = client.hosts.get('1')
    assert (found.cpu_info['arch'], found.traits) == ('x86_64', ('CUSTOM_SSD',))
    assert (found.extra, found.lanes) == ({'rack': '7'}, None)


def test_list_has_no_entry_for_who_may_not_see_hosts(client, http):
    http.get(URL, json={'hosts': [SHARED | {'reservable': False}]})
    assert not list(client.hosts.list())


def test_list_reads_all_pages(client, http):
    links = {'hosts_links': [{'rel': 'next', 'href': f'{URL}?marker=1'}]}
    http.get(URL, json={'hosts': [host()], **links})
    http.get(f'{URL}?marker=1', json={'hosts': [host(id='2')]})
    assert [each.id for each in client.hosts.list(reservable=True)] == ['1', '2']
    assert http.request_history[0].qs == {'reservable': ['true']}


@pytest.mark.parametrize(
    ('nodes', 'error'),
    [
        ([], exceptions.HostNameNotFound),
        ([host(), host(id='2', hypervisor_hostname='cn2')], exceptions.AmbiguousName),
    ],
)
def test_find_needs_one_node(client, http, nodes, error):
    http.get(f'{URL}/7', status_code=404, json={})
    http.get(f'{URL}?hypervisor_hostname=7', json={'hosts': []})
    http.get(f'{URL}?service_name=7', json={'hosts': nodes})
    with pytest.raises(error):
        client.hosts.find('7')


@pytest.mark.parametrize(
    ('argv', 'body'),
    [
        (['cn1'], {'name': 'cn1'}),
        (['cn1', '--pool', 'gpu', '--extra', 'rack=a=b'], {'pool': 'gpu', 'rack': 'a=b'}),
        (['cn1', '--disable', '--reason', 'new'], {'disabled': True, 'disabled_reason': 'new'}),
        (['cn1', '--shared'], {'shared': True}),
        (['cn1', '--empty'], {'empty': True}),
    ],
)
def test_create_sends_what_the_options_say(run, http, sent, argv, body):
    http.post(URL, json={'host': host()}, status_code=201)
    assert json.loads(run('lease', 'host', 'create', *argv, '-f', 'json'))['id'] == '1'
    assert sent('POST') == [{'name': 'cn1', **body}]


@pytest.mark.parametrize(
    ('argv', 'body'),
    [
        (['set', '--disable', '--reason', 'disk'], {'disabled': True, 'disabled_reason': 'disk'}),
        (['set', '--enable', '--extra', 'rack=8'], {'disabled': False, 'rack': '8'}),
        (['set', '--pool', 'gpu'], {'pool': 'gpu'}),
        (['set', '--keep-on'], {'kept_on': True}),
        (['set', '--let-sleep'], {'kept_on': False}),
        (['unset', '--extra', 'rack', '--extra', 'gpu'], {'rack': None, 'gpu': None}),
    ],
)
def test_change_sends_only_what_is_given(run, sent, served, argv, body):
    run('lease', 'host', *argv, 'cn1')
    assert sent('PUT') == [body]


def test_disabled_host_is_shown_with_the_leases_on_it(run, served):
    out = run('lease', 'host', 'set', '--disable', '--reason', 'disk', '1')
    assert '2082-11-21 05:00:00+01:00 CET' in out
    assert f'lease lease1 ({LEASE_ID})' in out
    shown = json.loads(run('lease', 'host', 'show', '1', '-f', 'json'))
    assert shown['reservations'][0]['start_date'] == '2082-11-21T04:00:00+00:00'
    assert shown['extra'] == {'rack': '7'}


def test_who_may_not_see_promises_sees_the_host(run, http, served):
    http.get(f'{URL}/1/allocation', status_code=403, json={})
    assert 'reservations' not in json.loads(run('lease', 'host', 'show', 'cn1', '-f', 'json'))


@pytest.mark.parametrize(
    ('argv', 'query'),
    [
        ([], {}),
        (['--pool', 'gpu', '--disabled'], {'pool': ['gpu'], 'reservable': ['false']}),
        (['--enabled', '--service', 'cn1'], {'reservable': ['true'], 'service_name': ['cn1']}),
        (['--long', '--limit', '5', '--marker', '3'], {'limit': ['5'], 'marker': ['3']}),
    ],
)
def test_list_asks_for_what_the_options_say(run, http, served, argv, query):
    (row,) = json.loads(run('lease', 'host', 'list', *argv, '-f', 'json'))
    assert (row['Name'], row['VCPUs']) == ('cn1', 64)
    assert row.get('Extra', {'rack': '7'}) == {'rack': '7'}
    assert http.last_request.qs == query


def test_delete_takes_names_and_ids(run, http, served):
    run('lease', 'host', 'delete', 'cn1', '1')
    assert [each.url for each in http.request_history if each.method == 'DELETE'] == [
        f'{URL}/1',
        f'{URL}/1',
    ]


def test_allocations_are_shown_with_names_of_hosts_and_leases(run, http, served):
    rows = [_allocation('1', PROMISED), _allocation('2')]
    http.get(f'{URL}/allocations', json={'allocations': rows})
    http.get(f'{ENDPOINT}/leases', json={'leases': [lease()]})
    for argv in (['list'], ['list', '--lease', 'lease1'], ['show', 'cn1']):
        (row,) = json.loads(run('lease', 'host', 'allocation', *argv, '-f', 'json'))
        assert (row['Host ID'], row['Lease']) == ('1', LEASE_ID)
        assert (row['Host'], row['Lease Name']) == ('cn1', 'lease1')
        assert row['Start'] == '2082-11-21T04:00:00+00:00'
    asked = [each.qs for each in http.request_history if 'allocations' in each.path]
    assert asked == [{}, {'lease_id': [LEASE_ID]}]


def test_properties_are_listed_and_made_private(run, http, sent):
    url = f'{URL}/properties'
    row = {'property': 'rack', 'private': True, 'values': ['7', 8]}
    http.get(url, json={'resource_properties': [row]})
    http.patch(f'{url}/a.b', json={'resource_property': {}})
    shown = json.loads(run('lease', 'host', 'property', 'list', '--all', '-f', 'json'))
    assert shown == [{'Property': 'rack', 'Private': True, 'Values': ['7', 8]}]
    assert http.last_request.qs == {'detail': ['true'], 'all': ['true']}
    run('lease', 'host', 'property', 'set', 'a.b', '--private')
    run('lease', 'host', 'property', 'set', 'a.b', '--public')
    assert sent('PATCH') == [{'private': True}, {'private': False}]


@pytest.mark.parametrize(
    ('argv', 'said'),
    [
        (['set', '1'], 'Nothing to change'),
        (['set', '1', '--extra', 'rack'], 'write <key>=<value>'),
        (['create', 'cn1', '--extra', '=7'], 'write <key>=<value>'),
        (['set', '1', '--enable', '--disable'], 'not allowed with'),
        (['set', '1', '--disable'], '--disable: --reason is missing'),
        (['create', 'cn1', '--disable'], '--disable: --reason is missing'),
        (['unset', '1'], '--extra'),
        (['property', 'set', 'rack'], '--private'),
    ],
)
def test_wrong_options_are_told(fail, argv, said):
    assert said in fail('lease', 'host', *argv)


POOL = {
    'name': 'gpu',
    'hosts': 2,
    'generation': 3,
    'project_ids': ['a' * 32],
    'domain_ids': ['b' * 32],
}


@pytest.fixture
def pools(http):
    http.get(f'{URL}/pools', json={'pools': [POOL]})
    http.get(f'{URL}/pools/gpu', json={'pool': POOL})
    http.put(f'{URL}/pools/gpu', json={'pool': POOL})
    http.get(f'{URL}/pools/new', status_code=404, json={'error_name': 'host.pool_not_found'})
    http.put(f'{URL}/pools/new', json={'pool': POOL | {'name': 'new'}})
    http.delete(f'{URL}/pools/gpu', status_code=204)


@pytest.mark.parametrize(
    ('argv', 'projects', 'domains', 'generation'),
    [
        (['set', 'gpu', '--project', 'c' * 32], ['a' * 32, 'c' * 32], ['b' * 32], 3),
        (['set', 'gpu', '--domain', 'c' * 32], ['a' * 32], ['b' * 32, 'c' * 32], 3),
        (['set', 'new', '--domain', 'c' * 32], [], ['c' * 32], 0),
        (['unset', 'gpu', '--project', 'a' * 32], [], ['b' * 32], 3),
        (['unset', 'gpu', '--all'], [], [], 3),
    ],
)
def test_pool_set_sends_the_projects_and_domains(
    run, sent, pools, argv, projects, domains, generation
):
    run('lease', 'host', 'pool', *argv)
    body = {'project_ids': projects, 'domain_ids': domains, 'generation': generation}
    assert sent('PUT') == [body]


@pytest.mark.parametrize(('refusals', 'is_done'), [(1, True), (4, True), (5, False)])
def test_what_others_change_of_a_pool_meanwhile_is_kept(
    http, run, fail, sent, pools, refusals, is_done
):
    changed = {'status_code': 409, 'json': {'error_name': 'host.pool_changed'}}
    later = POOL | {'generation': 4, 'project_ids': ['d' * 32]}
    http.get(f'{URL}/pools/gpu', [{'json': {'pool': POOL}}, {'json': {'pool': later}}])
    http.put(f'{URL}/pools/gpu', [changed] * refusals + [{'json': {'pool': later}}])
    (run if is_done else fail)('lease', 'host', 'pool', 'set', 'gpu', '--project', 'c' * 32)
    last = sent('PUT')[-1]
    assert (last['generation'], last['project_ids']) == (4, ['c' * 32, 'd' * 32])


def test_delete_of_a_pool_sends_a_request(run, http, pools):
    run('lease', 'host', 'pool', 'delete', 'gpu')
    assert http.last_request.method == 'DELETE'


def test_pool_that_is_not_there_is_not_unset(fail, sent, pools):
    assert fail('lease', 'host', 'pool', 'unset', 'new', '--all')
    assert not sent('PUT')


@pytest.mark.parametrize(
    ('argv', 'said'),
    [
        (['set', 'gpu'], 'At least one --project or --domain'),
        (['unset', 'gpu', '--project', 'a' * 32, '--domain', 'b' * 32], 'use --all'),
        (['unset', 'gpu', '--project', 'c' * 32], f'is not for the project {"c" * 32}'),
        (['unset', 'gpu', '--domain', 'c' * 32], f'is not for the domain {"c" * 32}'),
    ],
)
def test_pool_is_not_opened_to_everybody_by_mistake(fail, sent, pools, argv, said):
    assert said in fail('lease', 'host', 'pool', *argv)
    assert not sent('PUT')


def test_nobody_is_taken_from_a_pool_that_is_for_everybody(http, fail, sent, pools):
    everybody = POOL | {'project_ids': [], 'domain_ids': []}
    http.get(f'{URL}/pools/gpu', json={'pool': everybody})
    told = fail('lease', 'host', 'pool', 'unset', 'gpu', '--project', 'c' * 32)
    assert 'The pool gpu is for all projects' in told
    assert not sent('PUT')


def test_pools_are_listed_as_values(run, pools):
    wanted = {'Pool': 'gpu', 'Hosts': 2, 'Projects': ['a' * 32], 'Domains': ['b' * 32]}
    assert json.loads(run('lease', 'host', 'pool', 'list', '-f', 'json')) == [wanted]
    assert json.loads(run('lease', 'host', 'pool', 'show', 'gpu', '-f', 'json')) == wanted


@pytest.mark.parametrize('long', [[], ['--long']])
def test_list_shows_which_hosts_sleep_and_which_are_shared(run, http, long):
    hosts = [host(power='asleep'), host(id='2', shared=True)]
    http.get(URL, json={'hosts': hosts})
    rows = json.loads(run('lease', 'host', 'list', *long, '-f', 'json'))
    assert [each['Power'] for each in rows] == ['asleep', 'awake']
    assert [each['Shared'] for each in rows] == [False, True]


def test_usage_of_hosts_is_shown(run, http):
    used = {
        'hypervisor_hostname': 'cn1',
        'start': '2082-11-01T00:00:00.000000',
        'end': '2082-11-21T00:00:00.000000',
        'asleep_hours': 2.5,
        'saved_kwh': 0.3,
    }
    http.get(f'{URL}/usage', json={'usage': [used]})
    argv = ['--start', '2082-11-01 00:00', '-f', 'json']
    (row,) = json.loads(run('lease', 'host', 'usage', *argv))
    assert (row['Host'], row['Hours powered off'], row['kWh saved']) == ('cn1', 2.5, 0.3)
    assert list(http.last_request.qs) == ['start']
