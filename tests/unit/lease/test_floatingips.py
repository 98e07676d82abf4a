# SPDX-License-Identifier: Apache-2.0
"""What an operator may register as floating IPs for leases, by tables."""

import ipaddress

import pytest

from climate_core import exceptions
from climate_networks import units

SUBNET = {
    'id': 'subnet',
    'cidr': '203.0.113.0/24',
    'gateway_ip': '203.0.113.1',
    'allocation_pools': [{'start': '203.0.113.100', 'end': '203.0.113.199'}],
}
OTHER = {'id': 'other', 'cidr': '198.51.100.0/24', 'gateway_ip': None, 'allocation_pools': []}


@pytest.mark.parametrize(
    ('values', 'last', 'count'),
    [
        ({'floating_ip_address': '203.0.113.20'}, '203.0.113.20', 1),
        ({'floating_ip_range': '203.0.113.20-203.0.113.22'}, '203.0.113.22', 3),
        ({'floating_ip_range': ' 203.0.113.20 - 203.0.113.20 '}, '203.0.113.20', 1),
        ({'floating_ip_range': '203.0.112.128-203.0.113.127'}, '203.0.113.127', 256),
    ],
)
def test_address_or_range_is_read_as_its_addresses(values: dict, last: str, count: int) -> None:
    field, addresses = units.read_addresses(values)
    assert (field, str(addresses[-1]), len(addresses)) == (*values, last, count)


@pytest.mark.parametrize(
    ('field', 'value', 'told'),
    [
        ('floating_ip_address', '203.0.113', 'must be an IPv4 address, as 203.0.113.20'),
        ('floating_ip_address', '2001:db8::1', 'must be an IPv4 address'),
        ('floating_ip_range', '203.0.113.20', 'must be two IPv4 addresses'),
        ('floating_ip_range', '203.0.113.20-', 'must be two IPv4 addresses'),
        ('floating_ip_range', '203.0.113.9-203.0.113.8', 'the first address not after the last'),
        ('floating_ip_range', '203.0.112.128-203.0.113.128', 'must have 256 addresses at most'),
    ],
)
def test_address_that_is_none_is_refused_with_what_would_be_right(
    field: str, value: str, told: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=told) as refused:
        units.read_addresses({field: value})
    assert refused.value.field == field
    assert refused.value.message.startswith(f'{field}: ')


@pytest.mark.parametrize(
    ('address', 'subnet_id'),
    [('203.0.113.99', 'subnet'), ('203.0.113.200', 'subnet'), ('198.51.100.1', 'other')],
)
def test_address_outside_of_all_pools_is_in_its_subnet(address: str, subnet_id: str) -> None:
    one = ipaddress.IPv4Address(address)
    assert units.check_address(one, [OTHER, SUBNET], 'field') == subnet_id


@pytest.mark.parametrize(
    ('address', 'told'),
    [
        ('203.0.113.0', 'no address of a single host in 203.0.113.0/24'),
        ('203.0.113.255', 'no address of a single host'),
        ('203.0.113.1', 'the gateway of subnet subnet'),
        ('203.0.113.100', 'in the allocation pool 203.0.113.100-203.0.113.199 of subnet subnet'),
        ('203.0.113.199', 'Remove it from the pool first'),
        ('192.0.2.1', r'must be in a subnet of the network \(198.51.100.0/24, 203.0.113.0/24\)'),
    ],
)
def test_address_that_neutron_may_give_to_others_is_refused(address: str, told: str) -> None:
    one = ipaddress.IPv4Address(address)
    with pytest.raises(exceptions.BadRequest, match=told) as refused:
        units.check_address(one, [SUBNET, OTHER], 'field')
    assert (refused.value.field, refused.value.message[:7]) == ('field', 'field: ')


def test_address_of_a_network_without_subnets_is_refused() -> None:
    with pytest.raises(exceptions.BadRequest, match=r'a subnet of the network \(none\)'):
        units.check_address(ipaddress.IPv4Address('192.0.2.1'), [], 'field')
