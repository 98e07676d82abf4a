# SPDX-License-Identifier: Apache-2.0
"""``client.floatingips``: which one a person means; tests/functional/api has the commands."""

import pytest

from climateclient import exceptions
from tests.unit.climateclient.samples import ENDPOINT

URL = f'{ENDPOINT}/floatingips'
ADDRESS = '203.0.113.20'


def floating_ip(number):
    return {
        'id': number,
        'floating_network_id': f'network{number}',
        'floating_ip_address': ADDRESS,
        'subnet_id': 'subnet',
        'reservable': True,
        'created_at': '2082-11-21 02:59:32',
    }


def test_find_takes_an_id_or_an_address(client, http):
    http.get(f'{URL}/1', json={'floatingip': floating_ip('1')})
    http.get(f'{URL}?floating_ip_address={ADDRESS}', json={'floatingips': [floating_ip('1')]})
    assert client.floatingips.find('1') == client.floatingips.find(ADDRESS)


@pytest.mark.parametrize(
    ('there', 'error'),
    [
        ([], exceptions.FloatingIpNotFound),
        ([floating_ip('1'), floating_ip('2')], exceptions.AmbiguousName),
    ],
)
def test_find_needs_one_network(client, http, there, error):
    http.get(URL, json={'floatingips': there})
    with pytest.raises(error, match=ADDRESS):
        client.floatingips.find(ADDRESS)


def test_range_without_a_dash_is_refused_with_what_is_right(fail, monkeypatch):
    monkeypatch.setattr('climateclient.osc.address._network_id', lambda *_: 'network1')
    told = fail('lease', 'address', 'create', '--network', 'public', '--range', ADDRESS)
    assert '203.0.113.20-203.0.113.99' in told
