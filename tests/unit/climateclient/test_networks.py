# SPDX-License-Identifier: Apache-2.0
"""``client.networks``: which segment a person means; tests/functional/api has the commands."""

from typing import Any

import pytest

from climateclient import exceptions
from tests.unit.climateclient.samples import ENDPOINT

URL = f'{ENDPOINT}/networks'


def segment(one: str, **fields: Any) -> dict[str, Any]:
    found = {'id': one, 'network_type': 'vlan', 'physical_network': 'physnet1', 'segment_id': 100}
    return {**found, 'reservable': True, 'created_at': '2082-11-21 02:59:32', **fields}


def test_find_takes_an_id_or_where_a_segment_is(client, http):
    tunnel = segment('3', network_type='vxlan', physical_network=None)
    there = [segment('1', physical_network='physnet2'), segment('2', switch='tor1'), tunnel]
    http.get(f'{URL}/2', json={'network': there[1]})
    http.get(f'{URL}?segment_id=100', json={'networks': there})
    found = client.networks.find('physnet1:100')
    assert (found.id, found.extra) == ('2', {'switch': 'tor1'})
    assert client.networks.find('2') == found
    assert client.networks.find('vxlan:100').id == '3'


@pytest.mark.parametrize('name', ['physnet9:100', 'vlan:100', 'physnet1:x', 'physnet1:0'])
def test_find_of_what_is_not_set_apart_names_it(client, http, name):
    http.get(URL, json={'networks': [segment('1')]})
    with pytest.raises(exceptions.SegmentNotFound, match=name):
        client.networks.find(name)


@pytest.mark.parametrize(
    ('argv', 'told'),
    [
        (('create', '--physical-network', 'p', '--range', '100'), '--range 100-199'),
        (('create', '--segment', '1', '--extra', 'switch'), '--extra switch: write <key>=<value>'),
        (('set', '1'), 'Nothing to change'),
        (('unset', '1'), 'Nothing to remove'),
    ],
)
def test_command_that_says_nothing_is_refused_with_what_is_right(fail, http, argv, told):
    http.get(f'{URL}/1', json={'network': segment('1')})
    assert told in fail('lease', 'segment', *argv)


@pytest.mark.parametrize(
    ('argv', 'projects'),
    [
        (('set', '1', '--project', 'c' * 32), ['a' * 32, 'c' * 32]),
        (('set', '1', '--project', 'c' * 32, '--disable'), ['a' * 32, 'c' * 32]),
        (('unset', '1', '--project', 'b' * 32), ['a' * 32]),
    ],
)
@pytest.mark.parametrize(('refusals', 'is_done'), [(0, True), (4, True), (5, False)])
def test_what_others_change_of_a_segment_meanwhile_is_kept(
    http, run, fail, sent, argv, projects, refusals, is_done
):
    changed = {'status_code': 409, 'json': {'error_name': 'network.changed'}}
    seen = segment('1', generation=3, project_ids=['b' * 32])
    later = segment('1', generation=4, project_ids=[*{*projects, 'b' * 32} - {'c' * 32}])
    before = [{'json': {'network': seen}}] if refusals else []
    http.get(f'{URL}/1', [*before, {'json': {'network': later}}])
    http.put(f'{URL}/1', [changed] * refusals + [{'json': {'network': later}}])
    if argv[0] == 'unset' and refusals:
        seen['project_ids'].append('d' * 32)
    (run if is_done else fail)('lease', 'segment', *argv)
    last = sent('PUT')[-1]
    kept = {*projects} | ({'b' * 32} if argv[0] == 'set' else set())
    assert (last['generation'], {*last['project_ids']}) == (4, kept)


@pytest.mark.parametrize(
    ('text', 'told'),
    [
        ('physical_network=physnet1', 'name=<name> is missing'),
        ('name=n,segment=x', 'segment must be a number'),
        ('name=n,name=m', 'name is given twice'),
        ('name=n,tor1', '"tor1" is not one of'),
    ],
)
def test_network_that_cannot_be_read_is_refused(fail, text, told):
    assert told in fail('lease', 'create', 'l', '--for', '1h', '--network', text)
