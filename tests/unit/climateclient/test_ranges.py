# SPDX-License-Identifier: Apache-2.0
"""Segments and addresses that follow one another: one row of a table, and one word."""

import json

import pytest

from climateclient.osc import ranges
from tests.unit.climateclient.samples import ENDPOINT

NETWORK = '7a1c0c7e-3a55-4c1b-9c1c-0d5f2f9b8f10'


def segment(number, **fields):
    found = {'network_type': 'vlan', 'physical_network': 'physnet1', 'reservable': True}
    made = {'segment_id': 200 + number, 'created_at': '2082-11-21 02:59:32'}
    return {'id': str(number), **found, **made, **fields}


def address(number):
    found = {'floating_network_id': NETWORK, 'subnet_id': 's', 'reservable': True}
    where = f'203.0.113.{100 + number}'
    return {'id': str(number), 'floating_ip_address': where, **found, 'created_at': None}


def rows(table):
    """Return the cells of the rows of a table."""
    lines = [each for each in table.splitlines() if each.startswith('|')]
    return [[cell.strip() for cell in each.strip('|').split('|')] for each in lines[1:]]


def test_segments_that_follow_one_another_and_are_alike_are_one_row(run, http):
    there = [
        *(segment(number) for number in range(8, 12)),
        segment(12, switch='tor1'),
        segment(13, switch='tor1', reservable=False),
        segment(15),
        segment(16, segment_id=240),
        segment(17, segment_id=241, physical_network='physnet2'),
    ]
    http.get(f'{ENDPOINT}/networks', json={'networks': there})
    listed = rows(run('lease', 'segment', 'list'))
    assert [(each[0], each[3]) for each in listed] == [
        ('8-11', '208-211'),
        ('12', '212'),
        ('13', '213'),
        ('15', '215'),
        ('16', '240'),
        ('17', '241'),
    ]
    assert len(rows(run('lease', 'segment', 'list', '--each'))) == len(there)


@pytest.mark.parametrize('form', ['json', 'csv', 'value', 'yaml'])
def test_programs_get_each(run, http, form):
    http.get(f'{ENDPOINT}/networks', json={'networks': [segment(1), segment(2)]})
    told = run('lease', 'segment', 'list', '-f', form)
    assert '201-202' not in told
    if form == 'json':
        assert [each['Segment'] for each in json.loads(told)] == [201, 202]


def test_addresses_that_follow_one_another_are_one_row(run, http):
    http.get(f'{ENDPOINT}/floatingips', json={'floatingips': [address(1), address(2), address(4)]})
    assert [each[:2] for each in rows(run('lease', 'address', 'list'))] == [
        ['1-2', '203.0.113.101-203.0.113.102'],
        ['4', '203.0.113.104'],
    ]


def test_range_that_is_created_is_one_row(run, http):
    made = {'network': segment(1), 'networks': [segment(number) for number in range(1, 101)]}
    http.post(f'{ENDPOINT}/networks', json=made, status_code=201)
    create = ('lease', 'segment', 'create', '--physical-network', 'physnet1', '--range', '201-300')
    (row,) = rows(run(*create))
    assert (row[0], row[3]) == ('1-100', '201-300')


@pytest.mark.parametrize(
    ('name', 'names'),
    [
        ('physnet1:200-202', ['physnet1:200', 'physnet1:201', 'physnet1:202']),
        ('vxlan:5-5', ['vxlan:5']),
        ('8-9', ['8', '9']),
        ('203.0.113.255-203.0.114.0', ['203.0.113.255', '203.0.114.0']),
        ('physnet-1:200', ['physnet-1:200']),
        ('203.0.113.1', ['203.0.113.1']),
        ('7', ['7']),
        (NETWORK, [NETWORK]),
    ],
)
def test_range_names_all_of_it(name, names):
    assert ranges.expand(name) == names


@pytest.mark.parametrize('name', ['physnet1:9-8', 'vxlan:1-257', '1-203.0.113.9'])
def test_range_that_is_none_is_refused(fail, name):
    assert f'{name}: a range must be two ids, two numbers' in fail(
        'lease', 'segment', 'delete', name
    )


def test_range_is_deleted_after_all_of_it_was_found(run, fail, http):
    for number in (1, 2):
        http.get(f'{ENDPOINT}/networks/{number}', json={'network': segment(number)})
        http.delete(f'{ENDPOINT}/networks/{number}', status_code=204)
    http.get(f'{ENDPOINT}/networks/3', status_code=404)
    fail('lease', 'segment', 'delete', '1-3')
    assert 'DELETE' not in {each.method for each in http.request_history}
    run('lease', 'segment', 'delete', '1-2', '2')
    assert deleted(http) == ['1', '2']


def deleted(http):
    """Return the ids of what was asked to be deleted."""
    asked = [each.path for each in http.request_history if each.method == 'DELETE']
    return [each.rpartition('/')[2] for each in asked]


@pytest.mark.parametrize(
    ('noun', 'path', 'one'),
    [('segment', 'network', segment), ('address', 'floatingip', address)],
)
def test_one_of_a_range_that_is_promised_is_named_and_the_others_are_deleted(
    openstack, http, noun, path, one
):
    for number in (1, 2, 3):
        url = f'{ENDPOINT}/{path}s/{number}'
        http.get(url, json={path: one(number)})
        http.delete(url, status_code=204)
    told = {'error_message': 'It is promised to 1 reservation.', 'error_name': f'{path}.in_use'}
    http.delete(f'{ENDPOINT}/{path}s/2', status_code=409, json=told)
    status, _, err = openstack('lease', noun, 'delete', '1-3')
    assert status == 1
    assert '2: It is promised to 1 reservation.' in err
    assert '1 of 3' in err
    assert deleted(http) == ['1', '2', '3']


def test_long_list_says_which_projects_segments_are_for(run, http):
    there = [segment(1, project_ids=['demo'], domain_ids=[]), segment(2), segment(3)]
    http.get(f'{ENDPOINT}/networks', json={'networks': there})
    assert [(each[3], each[-2]) for each in rows(run('lease', 'segment', 'list', '--long'))] == [
        ('201', 'demo'),
        ('202-203', ''),
    ]


def test_extra_property_with_the_name_of_a_field_is_refused(fail, http):
    http.get(f'{ENDPOINT}/networks/1', json={'network': segment(1)})
    create = ('lease', 'segment', 'create', '--physical-network', 'physnet1', '--segment', '7')
    told = fail(*create, '--extra', 'segment_id=4')
    assert 'segment_id=4: segment_id is no extra property: use --segment.' in told
    told = fail('lease', 'segment', 'set', '1', '--extra', 'project_ids=demo')
    assert 'project_ids=demo: project_ids is no extra property: use --project.' in told
    assert not [each for each in http.request_history if each.path.endswith('/networks')]
