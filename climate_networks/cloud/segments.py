# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron that tell which networks the segments of leases have.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors
from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_networks.domain.networks import Segment

#: No VLAN has this number: Neutron makes no network of it.
_NO_VLAN: Final = 4095
#: What Neutron does not know of a segment -> how it says so.
_UNKNOWN: Final = {
    'network_type': "network_type value '{network_type}' not supported",
    'physical_network': "physical_network '{physical_network}' unknown",
}


def provider(segment: 'Segment') -> dict[str, Any]:
    """Return a segment in the words of Neutron."""
    named = {f'provider:{name}': value for name, value in segment.facts.items() if value}
    named['provider:segmentation_id'] = named.pop('provider:segment_id')
    return named


def find(conn: 'connections.Connection', segment: 'Segment') -> dict[str, Any] | None:
    """Return the network of a segment; None if there is none that these rights see."""
    wanted = provider(segment)
    # Neutron leaves out filters and fields that these rights may not read.
    for each in NEUTRON.pages(conn, '/networks', 'networks', wanted):
        if wanted.items() <= each.items():
            return each
    return None


def used(
    conn: 'connections.Connection', segments: Collection['Segment']
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


def find_unknown(conn: 'connections.Connection', segment: 'Segment') -> str | None:
    """Return the name of what Neutron does not know of a segment; None: it knows all of it.

    Neutron lists neither its types nor its physical networks. It is asked for a network that it
    refuses in every case, and refuses what it does not know first
    (neutron/plugins/ml2/managers.py:validate_provider_segment). Other words than those of
    neutron 29 are taken for yes.

    :returns: ``network_type`` or ``physical_network``
    """
    wanted = {'provider:network_type': segment.network_type, 'provider:physical_network': 'none'}
    if segment.physical_network:
        wanted |= provider(segment) | {'provider:segmentation_id': _NO_VLAN}
    response = NEUTRON.send(conn, 'POST', '/networks', {'network': {'name': 'none', **wanted}})
    if response.status_code not in (400, 409):
        made = errors.read_response(response, NEUTRON.name, 'network')
        NEUTRON.request(conn, 'DELETE', f'/networks/{made["id"]}')
        return None
    told = errors.error_message(response)
    found = (name for name, text in _UNKNOWN.items() if text.format(**segment.facts) in told)
    return next(found, None)


def list_ranges(conn: 'connections.Connection') -> list[dict[str, Any]]:
    """Return the ranges from which Neutron chooses segments.

    It has none to show without its plugin ``network_segment_range``, or without the right to see
    them.
    """
    path = '/network-segment-ranges'
    with contextlib.suppress(errors.Gone, errors.Refused):
        return list(NEUTRON.pages(conn, path, 'network_segment_ranges', {}))
    return []
