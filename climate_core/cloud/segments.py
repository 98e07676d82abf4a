# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that tell which networks the segments of leases have.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.lease.networks import Segment

#: So many ids are in one URL: all are read by a web server that takes 8 KiB.
_IDS: Final = 100


def provider(segment: 'Segment') -> dict[str, Any]:
    """Return a segment in the words of Neutron."""
    named = {f'provider:{name}': value for name, value in segment.facts.items() if value}
    named['provider:segmentation_id'] = named.pop('provider:segment_id')
    return named


def find(conn: 'connection.Connection', segment: 'Segment') -> dict[str, Any] | None:
    """Return the network of a segment; None if there is none that these rights see."""
    wanted = provider(segment)
    # Neutron leaves out filters and fields that these rights may not read.
    for each in NEUTRON.pages(conn, '/networks', 'networks', wanted):
        if wanted.items() <= each.items():
            return each
    return None


def used(
    conn: 'connection.Connection', segments: Collection['Segment']
) -> dict['Segment', dict[str, Any]]:
    """Return which of some segments of one type networks have, and these.

    :param segments: all of the same physical network
    """
    by_number = {each.segment_id: each for each in segments}
    wanted = provider(next(iter(segments)))
    if len(segments) > 1:
        del wanted['provider:segmentation_id']
    found = {}
    for each in NEUTRON.pages(conn, '/networks', 'networks', wanted):
        segment = by_number.get(each.get('provider:segmentation_id', 0))
        if segment is not None and provider(segment).items() <= each.items():
            found[segment] = each
    return found


def existing(conn: 'connection.Connection', ids: Collection[str]) -> set[str]:
    """Return those of some networks that are there, one call for a hundred of them."""
    listed = sorted(ids)
    found = set()
    for first in range(0, len(listed), _IDS):
        query: Mapping[str, Any] = {'id': listed[first : first + _IDS], 'fields': 'id'}
        found |= {e['id'] for e in NEUTRON.pages(conn, '/networks', 'networks', query)}
    return found
