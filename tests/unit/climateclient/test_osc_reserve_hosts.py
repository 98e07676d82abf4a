# SPDX-License-Identifier: Apache-2.0
"""``--hosts`` and ``--capacity`` of ``openstack lease create``, through the real shell."""

import json
import re

import pytest

from tests.unit.climateclient import samples

LEASES = f'{samples.ENDPOINT}/leases'
CREATE = ('lease', 'create', 'lease1', '--for', '1h')
FLAVOR = 'f1a40000-0000-4000-8000-000000000001'


@pytest.fixture
def created(http):
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})


@pytest.fixture
def flavor(http):
    flavor = {'id': FLAVOR, 'name': 'm1.small'}
    http.get(f'{samples.NOVA}/flavors/m1.small', status_code=404)
    http.get(f'{samples.NOVA}/flavors/{FLAVOR}', json={'flavor': flavor})
    http.get(f'{samples.NOVA}/flavors', json={'flavors': [flavor]})
    http.get(f'{samples.NOVA}/flavors/detail', json={'flavors': [flavor]})


@pytest.mark.parametrize(
    ('text', 'wanted'),
    [
        ('min=1', {'min': 1}),
        ('on_end=migrate,grace=600', {'on_end': 'migrate', 'grace': 600}),
        (
            'min=1,max=2,vcpus>=16,gpu==True,trait=CUSTOM_SSD,trait!=HW_OLD',
            {
                'min': 1,
                'max': 2,
                'resources': 'vcpus>=16,gpu==True',
                'traits': ['CUSTOM_SSD', '!HW_OLD'],
            },
        ),
        (
            'name=cn1,name=cn2, pool=gpu,availability_zone=az1,share_with=p2',
            {
                'names': ['cn1', 'cn2'],
                'pool': 'gpu',
                'availability_zone': 'az1',
                'share_with': ['p2'],
            },
        ),
    ],
)
def test_hosts_option_sends_a_reservation_of_hosts(run, sent, created, text, wanted):
    run(*CREATE, '--hosts', text)
    (body,) = sent('POST')
    assert body['reservations'] == [{'resource_type': 'physical:host', **wanted}]


def test_capacity_option_sends_the_id_of_the_flavor(run, sent, created, flavor):
    run(*CREATE, '--capacity', 'flavor=m1.small,amount=10,affinity=False,rack=7')
    (body,) = sent('POST')
    wanted = {'flavor_id': FLAVOR, 'amount': 10, 'affinity': False, 'resources': 'rack=7'}
    assert body['reservations'] == [{'resource_type': 'flavor:instance', **wanted}]


def test_flavor_of_a_change_is_sent_by_its_id(run, fail, sent, http, flavor):
    kept = {'id': samples.RESERVATION_ID, 'resource_type': 'flavor:instance', 'status': 'pending'}
    lease = {'lease': {**samples.lease(), 'reservations': [kept]}}
    path = f'{LEASES}/{samples.LEASE_ID}'
    http.get(path, json=lease)
    http.put(path, json=lease)
    http.get(f'{samples.NOVA}/flavors/m1.none', status_code=404)
    change = ('lease', 'set', samples.LEASE_ID, '--reservation')
    run(*change, f'id={samples.RESERVATION_ID},flavor=m1.small')
    (body,) = sent('PUT')
    assert body['reservations'] == [{'id': samples.RESERVATION_ID, 'flavor_id': FLAVOR}]
    told = fail(*change, f'id={samples.RESERVATION_ID},flavor=m1.none')
    assert 'flavor: there is no flavor "m1.none" that you may use.' in ' '.join(told.split())


def test_unknown_flavor_is_refused_naming_the_field(fail, sent, http, flavor):
    http.get(f'{samples.NOVA}/flavors/m1.none', status_code=404)
    told = fail(*CREATE, '--capacity', 'flavor=m1.none,amount=1')
    assert 'flavor: there is no flavor "m1.none" that you may use.' in ' '.join(told.split())
    assert not sent('POST')


def test_capacity_option_with_sizes_asks_for_servers_of_them(run, sent, created):
    run(*CREATE, '--capacity', 'vcpus=2,memory_mb=2048,disk_gb=10,amount=3,vcpus>=16')
    (body,) = sent('POST')
    sizes = {'vcpus': 2, 'memory_mb': 2048, 'disk_gb': 10}
    wanted = {**sizes, 'amount': 3, 'resources': 'vcpus>=16'}
    assert body['reservations'] == [{'resource_type': 'virtual:instance', **wanted}]


@pytest.mark.parametrize(
    'given',
    [
        ('--capacity', 'vcpus=2,memory_mb=2048,disk_gb=10'),
        ('--reservation', 'resource_type=virtual:instance,vcpus=2,memory_mb=2048,disk_gb=10'),
    ],
)
def test_end_of_capacity_by_sizes(run, sent, created, given):
    run(*CREATE, *given, '--on-end', 'migrate')
    (body,) = sent('POST')
    (reservation,) = body['reservations']
    assert (reservation['resource_type'], reservation['on_end']) == ('virtual:instance', 'migrate')


@pytest.mark.parametrize(
    ('option', 'text', 'said'),
    [
        ('--hosts', 'min=1,many', '2, "many", is not <key>=<value> .* --hosts \'min=1,max=2,'),
        ('--hosts', 'min=1,vcpus>=', 'part 2, "vcpus>=", is not'),
        ('--hosts', 'min=1,min=2', 'min is given twice'),
        ('--hosts', ' ,', "--hosts is empty. Example: --hosts 'min=1,max=2,"),
        ('--hosts', 'min=two', 'min must be an integer, not "two"'),
        ('--capacity', 'flavor=m1.small,affinity=1', 'affinity must be true or false, not "1"'),
        ('--capacity', '', "--capacity is empty. Example: --capacity 'flavor="),
        ('--capacity', 'flavor=a,vcpus=1', 'vcpus is the size of a server without a flavor, and'),
        ('--capacity', 'amount=2', 'flavor=<name or id> is missing, or all of vcpus'),
        ('--capacity', 'vcpus=2,disk_gb=1', 'memory_mb=<n> is missing'),
    ],
)
def test_what_cannot_be_read_is_refused_before_any_request(fail, sent, option, text, said):
    assert re.search(said, ' '.join(fail(*CREATE, option, text).split()))
    assert not sent('POST')


def test_availability_shows_windows_and_asks_for_the_duration(run, http):
    window = {
        'start_date': '2082-12-01T16:00:00.000000',
        'end_date': '2082-12-01T20:00:00.000000',
        'guaranteed': True,
    }
    asked = http.get(f'{samples.ENDPOINT}/availability', json={'windows': [window]})
    command = ('lease', 'availability', '--for', '4h', '--from', '2082-12-01 16:00')
    out = run(*command, '--hosts', 'min=2', '--limit', '3', '-f', 'value')
    assert out == '2082-12-01T16:00:00+00:00 2082-12-01T20:00:00+00:00 True\n'
    wanted = [{'resource_type': 'physical:host', 'min': 2}]
    query = asked.last_request.qs
    assert json.loads(query.pop('reservations')[0]) == wanted
    # Berlin is an hour ahead.
    assert query == {'duration': ['14400'], 'from': ['2082-12-01t15:00:00+00:00'], 'limit': ['3']}


def test_start_that_is_shown_in_seconds_is_not_before_the_window(run, http):
    times = {'start_date': '2082-12-01T16:00:00.000001', 'end_date': '2082-12-01T20:00:00.000001'}
    answer = {'windows': [{**times, 'guaranteed': True}]}
    http.get(f'{samples.ENDPOINT}/availability', json=answer)
    shown = run('lease', 'availability', '--for', '4h', '--hosts', 'min=2')
    assert '17:00:01+01:00' in shown
    assert '21:00:00+01:00' in shown


def test_availability_with_servers_asks_for_the_flavor(run, http, flavor):
    asked = http.get(f'{samples.ENDPOINT}/availability', json={'windows': []})
    run('lease', 'availability', '--for', '4h', '--servers', 'flavor=m1.small,count=3')
    server = {'flavorRef': FLAVOR, 'count': 3}
    wanted = [{'resource_type': 'virtual:instance', 'server': server}]
    # The query is shown in lower case.
    query = asked.last_request.qs
    assert json.loads(query['reservations'][0]) == json.loads(json.dumps(wanted).lower())


@pytest.mark.parametrize(('form', 'shown'), [('json', []), ('table', None)])
def test_availability_without_a_window_says_so(openstack, http, form, shown):
    http.get(f'{samples.ENDPOINT}/availability', json={'windows': []})
    command = ('lease', 'availability', '--for', '4h', '--hosts', 'min=2', '-f', form)
    status, out, err = openstack(*command)
    assert status == 0
    assert json.loads(out or 'null') == shown if form == 'json' else not out.strip()
    assert 'No time with sufficient capacity was found' in err


def test_availability_of_nothing_is_refused(fail):
    asked = ('lease', 'availability', '--for', '4h')
    assert '--hosts, --capacity, --floating-ips, --network or --servers' in fail(*asked)
    assert 'flavor=<name or id> is missing' in fail(*asked, '--servers', 'count=3')


@pytest.mark.parametrize('wrong', ['foo=1', 'count>=2', 'name=cn1', 'trait!=GPU'])
def test_availability_with_servers_names_what_is_not_known(fail, wrong):
    text = f'flavor=m1.small,{wrong}'
    assert (
        f'--servers {text}: "{wrong}" is not one of flavor=<value>, count=<value>. Example: '
        "--servers 'flavor=m1.small,count=3'"
    ) in fail('lease', 'availability', '--for', '4h', '--servers', text)
