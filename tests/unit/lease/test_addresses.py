# SPDX-License-Identifier: Apache-2.0
"""IPv4 addresses that are hidden in IPv6 addresses are found, and judged as themselves."""

import ipaddress

import pytest

from climate_core.lease import addresses, webhook

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
    'isatap': '2001:db8::5efe:127.0.0.1',
    'isatap, global': '2001:db8::200:5efe:127.0.0.1',
}


@pytest.mark.parametrize('text', HIDDEN.values(), ids=HIDDEN)
def test_address_inside_of_another_form_is_found(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert ipaddress.ip_address('127.0.0.1') in set(addresses.meant(address))
    assert webhook.forbidden(address)


@pytest.mark.parametrize(
    'text',
    [
        '192.0.2.1',
        '203.0.113.1',
        '2001:db8::1',
        '::ffff:192.0.2.1',
        '64:ff9b::192.0.2.1',
        '64:ff9b:1::192.0.2.1',
    ],
)
def test_others_may_be_called(text: str) -> None:
    assert not webhook.forbidden(ipaddress.ip_address(text))


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
        'ff02::1',
        '255.255.255.255',
    ],
)
def test_address_inside_of_the_cloud_is_forbidden(text: str) -> None:
    assert webhook.forbidden(ipaddress.ip_address(text))


def test_what_is_allowed_is_allowed_in_all_its_forms() -> None:
    rules = webhook.WebhookRules(allowed=(ipaddress.ip_network('127.0.0.0/8'),))
    for name, text in HIDDEN.items():
        # Of a local prefix nobody knows how long it is: several readings, one of them 0.0.0.0/8.
        allowed = not webhook.forbidden(ipaddress.ip_address(text), rules)
        assert allowed or name.startswith('local'), text
    assert webhook.forbidden(ipaddress.ip_address('::1'), rules)
