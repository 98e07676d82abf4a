# SPDX-License-Identifier: Apache-2.0
"""The calls to Neutron about floating IPs and network segments of leases.

Every function takes the connection whose rights it uses and raises the exceptions of
:mod:`climate_core.cloud.errors`. Facts: Networking API v2.0; neutron 29.0.0.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors, neutron
from climate_core.cloud.connections import Connection
from climate_core.cloud.neutron import NEUTRON

if TYPE_CHECKING:
    from climate_networks.units import Segment

#: The start of the descriptions and tags of resources of leases.
_MARK: Final = 'climate:'
_TAG: Final = 'reservation:'


def mark(reservation_id: str) -> str:
    """Return the description that something of a reservation is created with.

    It exists from the first moment on, but its owner may change it.
    """
    return f'{_MARK}{reservation_id}'


def tag(reservation_id: str) -> str:
    """Return the tag of something of a reservation, by which python-chi finds it, too."""
    return f'{_TAG}{reservation_id}'


def reservation_of(resource: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return for which reservation something was created, and whether its description says so.

    A tag alone may be of Blazar, which has the same one.

    :param resource: it, as Neutron shows it; None: it was created for none
    """
    described = resource.get('description') or ''
    if described.startswith(_MARK):
        return described.removeprefix(_MARK), True
    tags = (each for each in resource.get('tags', ()) if each.startswith(_TAG))
    tagged = next(tags, None)
    return None if tagged is None else (tagged.removeprefix(_TAG), False)


def is_marked(resource: Mapping[str, Any]) -> bool:
    """Return whether something was created for any lease.

    :param resource: it, as Neutron shows it
    """
    tags = resource.get('tags', ())
    return (resource.get('description') or '').startswith(_MARK) or any(
        each.startswith(_TAG) for each in tags
    )


def is_marked_for(resource: Mapping[str, Any], reservation_id: str, project_id: str) -> bool:
    """Return whether something of a project was created for a reservation.

    :param resource: it, as Neutron shows it
    """
    marked = resource.get('description') == mark(reservation_id)
    tagged = tag(reservation_id) in resource.get('tags', ())
    return bool(resource['project_id'] == project_id and (marked or tagged))


#: Number of addresses in one URL, which web servers accept up to 8 KiB.
_ADDRESSES_PER_CALL: Final = 100


def find_floatingips(
    conn: Connection, network_id: str, addresses: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return the floating IPs that have these addresses of a network, by the addresses."""
    found: dict[str, dict[str, Any]] = {}
    for part in _split_addresses(addresses):
        query = {'floating_network_id': network_id, 'floating_ip_address': part}
        listed = NEUTRON.pages(conn, '/floatingips', 'floatingips', query)
        found |= {each['floating_ip_address']: each for each in listed}
    return found


def get_floatingip(conn: Connection, floating_ip_id: str) -> dict[str, Any]:
    """Return a floating IP; Gone if there is none that these rights see."""
    found: dict[str, Any] = NEUTRON.read(conn, f'/floatingips/{floating_ip_id}', 'floatingip')
    return found


def project_of_floatingip(floating_ip: Mapping[str, Any]) -> str:
    """Return the project of a floating IP."""
    return str(floating_ip['project_id'])


def list_floatingip_ids(conn: Connection) -> Iterator[str]:
    """Yield the ids of all floating IPs, one call for each page."""
    pages = NEUTRON.pages(conn, '/floatingips', 'floatingips', {'fields': 'id'})
    return (each['id'] for each in pages)


def check_all_floatingips_visible(conn: Connection) -> None:
    """Raise Forbidden if these rights do not see the floating IPs of every project."""
    neutron.check_all_visible(conn, 'floating IPs')


def delete_floatingip(conn: Connection, floating_ip_id: str) -> None:
    """Delete a floating IP, also while it is associated; one that is gone is fine.

    Port forwardings prevent that, so they are deleted first
    (neutron/services/portforwarding/pf_plugin.py:181).
    """
    path = f'/floatingips/{floating_ip_id}'
    with contextlib.suppress(errors.Gone):
        try:
            NEUTRON.request(conn, 'DELETE', path)
        except errors.Busy:
            forwardings = f'{path}/port_forwardings'
            for each in [*NEUTRON.pages(conn, forwardings, 'port_forwardings', {})]:
                with contextlib.suppress(errors.Gone):
                    NEUTRON.request(conn, 'DELETE', f'{forwardings}/{each["id"]}')
            NEUTRON.request(conn, 'DELETE', path)


def get_network(conn: Connection, network_id: str) -> dict[str, Any]:
    """Return a network; Gone if there is none."""
    found: dict[str, Any] = NEUTRON.read(conn, f'/networks/{network_id}', 'network')
    return found


def list_subnets(conn: Connection, network_id: str) -> list[dict[str, Any]]:
    """Return the subnets of a network that have IPv4 addresses."""
    query = {'network_id': network_id, 'ip_version': 4}
    return list(NEUTRON.pages(conn, '/subnets', 'subnets', query))


def find_used_addresses(
    conn: Connection, network_id: str, addresses: Collection[str]
) -> dict[str, str]:
    """Return which of these addresses of a network ports have, and what each of those is for.

    A floating IP has a port on its network, too.
    """
    found: dict[str, str] = {}
    for part in _split_addresses(addresses):
        fixed = [f'ip_address={each}' for each in part]
        query = {'network_id': network_id, 'fixed_ips': fixed}
        for port in NEUTRON.pages(conn, '/ports', 'ports', query):
            owner = port['device_owner'] or f'port {port["id"]}'
            found |= {each['ip_address']: owner for each in port['fixed_ips']}
    return {address: owner for address, owner in found.items() if address in addresses}


def _split_addresses(addresses: Collection[str]) -> Iterator[list[str]]:
    listed = sorted(addresses)
    for first in range(0, len(listed), _ADDRESSES_PER_CALL):
        yield listed[first : first + _ADDRESSES_PER_CALL]


#: No VLAN has this number: Neutron creates no network of it.
_INVALID_VLAN: Final = 4095
#: The attributes of a segment that Neutron may not know -> the text of its error.
_UNKNOWN_MESSAGES: Final = {
    'network_type': "network_type value '{network_type}' not supported",
    'physical_network': "physical_network '{physical_network}' unknown",
}


def provider_attributes(segment: 'Segment') -> dict[str, Any]:
    """Return a segment as the attributes of Neutron."""
    named = {f'provider:{name}': value for name, value in segment.facts.items() if value}
    named['provider:segmentation_id'] = named.pop('provider:segment_id')
    return named


def find_network(conn: Connection, segment: 'Segment') -> dict[str, Any] | None:
    """Return the network of a segment; None if there is none that these rights see."""
    attributes = provider_attributes(segment)
    # Neutron leaves out filters and fields that these rights may not read.
    for each in NEUTRON.pages(conn, '/networks', 'networks', attributes):
        if attributes.items() <= each.items():
            return each
    return None


def find_used_segments(
    conn: Connection, segments: Collection['Segment']
) -> dict['Segment', dict[str, Any]]:
    """Return which of some segments of one type networks have, and these.

    :param segments: all of the same physical network
    """
    by_number = {each.segment_id: each for each in segments}
    attributes = provider_attributes(next(iter(segments)))
    if len(segments) > 1:
        del attributes['provider:segmentation_id']
    found = {}
    for each in NEUTRON.pages(conn, '/networks', 'networks', attributes):
        segment = by_number.get(each.get('provider:segmentation_id', 0))
        if segment is not None and provider_attributes(segment).items() <= each.items():
            found[segment] = each
    return found


def find_unknown_attribute(conn: Connection, segment: 'Segment') -> str | None:
    """Return the name of what Neutron does not know of a segment; None: it knows all of it.

    Neutron lists neither its types nor its physical networks. Climate requests a network that
    Neutron rejects in every case; it rejects unknown attributes first
    (neutron/plugins/ml2/managers.py:validate_provider_segment). Other texts than those of
    neutron 29 count as known.

    :returns: ``network_type`` or ``physical_network``
    """
    attributes = {
        'provider:network_type': segment.network_type,
        'provider:physical_network': 'none',
    }
    if segment.physical_network:
        attributes |= provider_attributes(segment) | {'provider:segmentation_id': _INVALID_VLAN}
    response = NEUTRON.send(conn, 'POST', '/networks', {'network': {'name': 'none', **attributes}})
    if response.status_code not in (400, 409):
        network = errors.read_response(response, NEUTRON.name, 'network')
        NEUTRON.request(conn, 'DELETE', f'/networks/{network["id"]}')
        return None
    message = errors.error_message(response)
    found = (
        name for name, text in _UNKNOWN_MESSAGES.items() if text.format(**segment.facts) in message
    )
    return next(found, None)


def list_segment_ranges(conn: Connection) -> list[dict[str, Any]]:
    """Return the ranges from which Neutron chooses segments.

    It shows none without its plugin ``network_segment_range``, or without the right to see
    them.
    """
    path = '/network-segment-ranges'
    with contextlib.suppress(errors.Gone, errors.Forbidden):
        return list(NEUTRON.pages(conn, path, 'network_segment_ranges', {}))
    return []
