# SPDX-License-Identifier: Apache-2.0
"""``client.networks``: which segment a person means; tests/functional/api has the commands."""

from typing import Any

import pytest

from climateclient import exceptions
from tests.unit.climateclient.samples import ENDPOINT

URL = f'{ENDPOINT}/networks'


def segment(one: str, **fields: Any) -> dict[str, Any]:
    found = {'id': one, 'network_type': 'vlan', 'physical_network': 'physnet1', 'segment_id': 100}
    return {**found, 'reservable': True, 'created_at': '2026-11-21 02:59:32', **fields}


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
        (('unset', '1'), 'Nothing to take away'),
    ],
)
def test_command_that_says_nothing_is_refused_with_what_is_right(fail, http, argv, told):
    http.get(f'{URL}/1', json={'network': segment('1')})
    assert told in fail('lease', 'segment', *argv)


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
