# SPDX-License-Identifier: Apache-2.0
"""Check the webhook that a user gives a lease, and the addresses it may have. Pure.

Names are not resolved here: the sender checks their addresses with :func:`is_forbidden`. A webhook
that may not reach 127.0.0.1 must not reach it as ``::ffff:127.0.0.1`` either, nor through a
translator or a tunnel.
"""

import dataclasses
import ipaddress
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from climate_common import limits
from climate_core import exceptions

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PATTERN = re.compile(limits.WEBHOOK_EVENT_PATTERN)
_PRINTABLE = re.compile(r'[\x21-\x7e]+')
#: Texts that the resolver of a system takes for an IPv4 address in an old notation.
_NUMBER = re.compile(r'(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?', re.IGNORECASE)
#: Networks that no public receiver is in: those of the IANA special-purpose address registries
#: (RFC 6890) that are not globally reachable, the whole of 192.0.0.0/24 and 2001::/23, multicast,
#: site-local (RFC 3879) and 6to4 (RFC 7526) addresses. NAT64 (64:ff9b:1::/48) leads to an IPv4
#: address, which is checked. ``ipaddress.is_global`` does not replace the list: it is True for
#: multicast and site-local addresses, and for 2002::/16 and most of 192.0.0.0/24 before Python
#: 3.11.10 and 3.12.4.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            '0.0.0.0/8',
            '10.0.0.0/8',
            '100.64.0.0/10',
            '127.0.0.0/8',
            '169.254.0.0/16',
            '172.16.0.0/12',
            '192.0.0.0/24',
            '192.0.2.0/24',
            '192.88.99.0/24',
            '192.168.0.0/16',
            '198.18.0.0/15',
            '198.51.100.0/24',
            '203.0.113.0/24',
            '224.0.0.0/3',
            '::/127',
            '100::/63',
            '2001::/23',
            '2001:db8::/32',
            '2002::/16',
            '3fff::/20',
            '5f00::/16',
            'fc00::/7',
            'fe80::/9',
            'ff00::/8',
        ),
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookRules:
    """The networks that webhooks may reach.

    :param allowed: networks that are allowed although they are forbidden by default
    :param refused: networks that are forbidden as well, unless they are allowed
    :param enabled: whether webhooks are allowed at all
    :param hosts: addresses of the cloud itself, which are forbidden unless they are allowed
    """

    allowed: Sequence[Network] = ()
    refused: Sequence[Network] = ()
    enabled: bool = True
    hosts: Set[Address] = frozenset()


DEFAULT_RULES = WebhookRules()


def read_webhook(
    given: Any, rules: WebhookRules = DEFAULT_RULES, field: str = 'webhook'
) -> dict[str, Any]:
    """Check a webhook and return the stored values: ``url``, ``secret``, ``events``.

    :param given: ``url``, ``secret``, perhaps ``events``: patterns of types of notifications
    :raises climate_core.exceptions.InvalidWebhook: naming the field; the secret is not repeated
    """
    if not rules.enabled:
        raise exceptions.InvalidWebhook(
            'It must be left out: this cloud has no webhooks.', field=field
        )
    if not isinstance(given, Mapping):
        raise exceptions.InvalidWebhook(
            'It must be an object with url, secret and perhaps events.', field=field
        )
    for name in sorted(given.keys() - {'url', 'secret', 'events'}):
        raise exceptions.InvalidWebhook(
            'It is not known here. Known are events, secret, url.', field=f'{field}.{name}'
        )
    secret = given.get('secret')
    if not isinstance(secret, str) or not re.fullmatch(limits.SECRET_PATTERN, secret):
        raise exceptions.InvalidWebhook(f'It must be {limits.SECRET}.', field=f'{field}.secret')
    return {
        'url': read_url(given.get('url'), rules, f'{field}.url'),
        'secret': secret,
        'events': _read_patterns(given.get('events'), f'{field}.events'),
    }


def read_url(url: Any, rules: WebhookRules = DEFAULT_RULES, field: str = 'webhook.url') -> str:
    """Return an allowed URL; InvalidWebhook: it is not allowed."""
    most = limits.WEBHOOK_URL_LENGTH
    if not isinstance(url, str) or len(url) > most or not _PRINTABLE.fullmatch(url):
        raise exceptions.InvalidWebhook(
            f'It must be a URL of up to {most} ASCII characters without blanks.', field=field
        )
    host = _read_host(url, field)
    if host == 'localhost' or host.endswith('.localhost'):
        host = '127.0.0.1'
    address = _read_address(host, field)
    if address is not None and is_forbidden(address, rules):
        raise exceptions.InvalidWebhook(
            f'{address} is not allowed for webhooks: it must be a public address, and in no '
            'network that the operator denies.',
            field=field,
        )
    return url


def url_origin(url: str) -> str:
    """Return scheme, host and port of a URL: path and query may contain secrets of the receiver.

    An empty URL, which stands for one that no key can decrypt, has none.
    """
    parts = urllib.parse.urlsplit(url)
    return f'{parts.scheme}://{parts.netloc}' if url else ''


def is_forbidden(address: Address, rules: WebhookRules = DEFAULT_RULES) -> bool:
    """Return whether an address is forbidden: it is not public, or belongs to the cloud itself.

    An IPv4 address inside of an IPv6 address counts as well.
    """
    return any(_is_forbidden(each, rules) for each in embedded_addresses(address))


def overlaps_private(network: Network) -> bool:
    """Return whether an allowed network has addresses that are rejected by default."""
    return any(network.version == each.version and network.overlaps(each) for each in _SPECIAL)


def _is_forbidden(address: Address, rules: WebhookRules) -> bool:
    refused = address in rules.hosts
    refused = refused or any(address in network for network in (*_SPECIAL, *rules.refused))
    return refused and not any(address in network for network in rules.allowed)


def _read_host(url: str, field: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = (parts.hostname or '').rstrip('.'), parts.port
    except ValueError as exc:
        raise exceptions.InvalidWebhook(
            f'It must be an http or https URL: {exc}.', field=field
        ) from exc
    if parts.scheme not in ('http', 'https') or not host or '\\' in url:
        raise exceptions.InvalidWebhook(
            'It must be an http or https URL with a host.', field=field
        )
    if '@' in parts.netloc:
        raise exceptions.InvalidWebhook(
            'It must have no user and no password: what is sent is signed with the secret.',
            field=field,
        )
    return host


def _read_address(host: str, field: str) -> Address | None:
    """Return the address that a host is; None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        if ':' in host or _NUMBER.fullmatch(host):
            raise exceptions.InvalidWebhook(
                f'{host} must be a name, an IPv4 address of four decimal numbers, or an IPv6 '
                'address in brackets.',
                field=field,
            ) from None
        return None


def _read_patterns(given: Any, field: str) -> list[str]:
    if given is None:
        return ['*']
    fine = isinstance(given, Sequence) and not isinstance(given, str) and len(given)
    fine = fine and len(given) <= limits.WEBHOOK_EVENTS
    if not fine or not all(isinstance(each, str) and _PATTERN.fullmatch(each) for each in given):
        raise exceptions.InvalidWebhook(
            f'It must be a list of 1 to {limits.WEBHOOK_EVENTS} patterns as "lease.event.*".',
            field=field,
        )
    return list(given)


_NAT64_LOCAL = ipaddress.IPv6Network('64:ff9b:1::/48')  # RFC 8215
#: Networks whose addresses end with an IPv4 address.
_IPV4_SUFFIXED = (
    ipaddress.IPv6Network('::/96'),  # RFC 4291, 2.5.5.1
    ipaddress.IPv6Network('::ffff:0:0:0/96'),  # RFC 2765, 2.1
    ipaddress.IPv6Network('64:ff9b::/96'),  # RFC 6052, 2.1
    _NAT64_LOCAL,
)
#: The lengths of prefixes in bits, which determine the place of the IPv4 address (RFC 6052, 2.2).
#: The address leaves out bits 64 to 71.
_LOCAL_LENGTHS = (48, 56, 64)


def embedded_addresses(address: Address) -> Iterator[Address]:
    """Yield every address that an address may lead to: itself and those inside of it.

    An IPv4-mapped address is the IPv4 address and nothing else.
    """
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    yield address
    bits = int(address)
    # :: and ::1 lead to themselves only. ISATAP: RFC 5214, 6.1.
    ending = bits > 1 and any(address in network for network in _IPV4_SUFFIXED)
    if ending or bits >> 32 & 0xFCFFFFFF == 0x5EFE:
        yield _low_ipv4(bits)
    if address in _NAT64_LOCAL:
        # The length of the prefix is not known; too long a prefix leaves only zeros.
        candidates = (_ipv4_behind_prefix(bits, length) for length in _LOCAL_LENGTHS)
        yield from (candidate for candidate in candidates if int(candidate) >> 24)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _low_ipv4(bits: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(bits & 0xFFFFFFFF)


def _ipv4_behind_prefix(bits: int, length: int) -> ipaddress.IPv4Address:
    without = (bits >> 64 << 56) | (bits & (1 << 56) - 1)
    return _low_ipv4(without >> (120 - length - 32))
