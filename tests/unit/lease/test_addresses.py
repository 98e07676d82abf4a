# SPDX-License-Identifier: Apache-2.0
"""IPv4 addresses that are hidden in IPv6 addresses are found, and judged as themselves."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import webhooks

HIDDEN = {
    'mapped': '::ffff:127.0.0.1',
    'compatible': '::127.0.0.1',
    'translated': '::ffff:0:127.0.0.1',
    'nat64': '64:ff9b::127.0.0.1',
    'local nat64 /96': '64:ff9b:1::127.0.0.1',
    'local nat64 /64': '64:ff9b:1:0:7f:0:100:0',
    'local nat64 /56': '64:ff9b:1:7f:0:1::',
    'local nat64 /48': '64:ff9b:1:7f00:0:100::',
    '6to4': '2002:7f00:1::1',
    # The client of Teredo stands there with its bits turned.
    'teredo': '2001:0:4136:e378:8000:63bf:80ff:fffe',
    'isatap': '2600::5efe:127.0.0.1',
    'isatap, global': '2600::200:5efe:127.0.0.1',
}


@pytest.mark.parametrize('text', HIDDEN.values(), ids=HIDDEN)
def test_address_inside_of_another_form_is_found(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert ipaddress.ip_address('127.0.0.1') in set(webhooks.embedded_addresses(address))
    assert webhooks.is_forbidden(address)


@pytest.mark.parametrize(
    'text',
    [
        '192.0.3.1',
        '203.0.114.1',
        '2600::1',
        '::ffff:203.0.114.1',
        '64:ff9b::203.0.114.1',
        '64:ff9b:1::203.0.114.1',
    ],
)
def test_others_may_be_called(text: str) -> None:
    assert not webhooks.is_forbidden(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    'text',
    [
        '127.0.0.1',
        '127.255.255.254',
        '::1',
        '::',
        '0.0.0.0',
        '0.1.2.3',
        '169.254.169.254',
        'fe80::1',
        'fe80::a9fe:a9fe',
        '224.0.0.1',
        '233.252.0.1',
        'ff02::1',
        'ff0e::1',
        'fec0::1',
        '255.255.255.255',
        # Shared, protocols, documentation, benchmarks, relays.
        '100.64.0.1',
        '192.0.0.9',
        '192.0.2.1',
        '192.88.99.1',
        '198.18.0.1',
        '198.19.255.255',
        '198.51.100.1',
        '203.0.113.1',
        '240.0.0.1',
        '100::1',
        '100:0:0:1::1',
        '2001:db8::1',
        '3fff::1',
        '5f00::1',
        # The same, translated, and tunnels to a public address.
        '::ffff:192.0.2.1',
        '64:ff9b::192.0.2.1',
        '64:ff9b:1::192.0.2.1',
        '2002:cb00:7201::1',
        '2001:0:cb00:7201:8000:63bf:34ff:8dfe',
    ],
)
def test_address_inside_of_the_cloud_is_forbidden(text: str) -> None:
    assert webhooks.is_forbidden(ipaddress.ip_address(text))


# Hypothesis prefers addresses of the registries.
@given(st.ip_addresses())
def test_address_that_is_not_global_is_forbidden(address: webhooks.Address) -> None:
    reached = getattr(address, 'ipv4_mapped', None) or address
    nat64 = reached in ipaddress.ip_network('64:ff9b:1::/48')
    assert reached.is_global or nat64 or webhooks.is_forbidden(address)


def test_what_is_allowed_is_allowed_in_all_its_forms() -> None:
    rules = webhooks.WebhookRules(allowed=(ipaddress.ip_network('127.0.0.0/8'),))
    for name, text in HIDDEN.items():
        # Of a local prefix nobody knows how long it is: several readings, one of them 0.0.0.0/8.
        # Those of 6to4 and Teredo are forbidden by themselves.
        allowed = not webhooks.is_forbidden(ipaddress.ip_address(text), rules)
        assert allowed or name.startswith(('local', '6to4', 'teredo')), text
    assert webhooks.is_forbidden(ipaddress.ip_address('::1'), rules)
