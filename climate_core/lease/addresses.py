# SPDX-License-Identifier: Apache-2.0
"""Find the IPv4 address that an IPv6 address leads to. Pure.

A webhook that may not be at 127.0.0.1 must not reach it as ``::ffff:127.0.0.1`` either, or through
a translator or a tunnel on the way.
"""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64_LOCAL = ipaddress.IPv6Network('64:ff9b:1::/48')  # RFC 8215
#: Networks whose addresses end with an IPv4 address.
_ENDING = (
    ipaddress.IPv6Network('::/96'),  # RFC 4291, 2.5.5.1
    ipaddress.IPv6Network('::ffff:0:0:0/96'),  # RFC 2765, 2.1
    ipaddress.IPv6Network('64:ff9b::/96'),  # RFC 6052, 2.1
    _NAT64_LOCAL,
)
#: In a prefix of so many bits the IPv4 address is so far from the right (RFC 6052, 2.2); bits 64
#: to 71 are left out of it.
_LOCAL_LENGTHS = (48, 56, 64)


def meant(address: Address) -> Iterator[Address]:
    """Return every address to which one may lead: itself, and what is written inside of it.

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
    # :: and ::1 are themselves only. ISATAP: RFC 5214, 6.1.
    ending = bits > 1 and any(address in network for network in _ENDING)
    if ending or bits >> 32 & 0xFCFFFFFF == 0x5EFE:
        yield _last(bits)
    if address in _NAT64_LOCAL:
        # The length of the prefix is not known. One that is too long leaves nothing but zeros.
        found = (_behind(bits, length) for length in _LOCAL_LENGTHS)
        yield from (each for each in found if int(each) >> 24)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _last(bits: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(bits & 0xFFFFFFFF)


def _behind(bits: int, length: int) -> ipaddress.IPv4Address:
    without = (bits >> 64 << 56) | (bits & (1 << 56) - 1)
    return _last(without >> (120 - length - 32))
