# SPDX-License-Identifier: Apache-2.0
"""Check that Neutron gives what is registered for leases to no other project."""

import ipaddress
from itertools import groupby
from typing import TYPE_CHECKING, Final

from climate_core import exceptions
from climate_core.db.engine import Database
from climate_networks import cloud, db, units
from climate_networks.units import Segment

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: What Neutron does not tell.
UNCHECKED_POLICY: Final = (
    "Neutron's policy cannot be seen from here. Without the lines for its policy.yaml that are in "
    'the documents (Floating IPs, for operators) the manager of any project can create a floating '
    'IP with an address that is set apart for leases, and owners can change the tags by which '
    'Climate finds the floating IPs of leases.'
)


def find_unsafe_addresses(database: Database, conn: 'connections.Connection') -> list[str] | None:
    """Return what is wrong with addresses that are set apart, one call for each network.

    :returns: None if there are none
    :raises climate_core.exceptions.PluginFailure: Neutron does not answer, or refuses it
    """
    every = db.list_all(database, db.page_floatingips, db.FloatingIpQuery())
    known = sorted(every, key=lambda each: each.network_id)
    if not known:
        return None
    found = []
    for network_id, group in groupby(known, lambda each: each.network_id):
        subnets = cloud.list_subnets(conn, network_id)
        for each in group:
            try:
                units.check_address(
                    ipaddress.IPv4Address(each.address), subnets, f'Floating IP {each.address}'
                )
            except exceptions.BadRequest as exc:
                found.append(exc.message)
    return found


if TYPE_CHECKING:
    from climate_core.cloud import connections

#: What Neutron does not tell.
UNCHECKED_RANGES: Final = (
    'From which segments Neutron chooses can be seen only with its plugin network_segment_range. '
    'Without it those that are set apart must be outside of network_vlan_ranges and its like.'
)


def find_unsafe_segments(database: Database, conn: 'connections.Connection') -> list[str] | None:
    """Return which segments that are set apart others have, or may get.

    One call for each physical network, and one for the ranges.

    :returns: None if there are none
    :raises climate_core.exceptions.PluginFailure: Neutron does not answer, or refuses it
    """
    every = db.list_all(database, db.page_segments, db.SegmentQuery())
    known = sorted((each.segment for each in every), key=_physical_network)
    if not known:
        return None
    ranges, project_id = cloud.list_segment_ranges(conn), str(conn.current_project_id)
    chosen = ((each, units.find_range(each, ranges, project_id)) for each in known)
    used = [
        f'{segment} is set apart for leases, but network {network["id"]} has it, which is of none.'
        for _, group in groupby(known, _physical_network)
        for segment, network in cloud.find_used_segments(conn, list(group)).items()
        if not cloud.is_marked(network)
    ]
    may_be = [units.describe_range(one, e, project_id) for one, e in chosen if e is not None]
    return used + may_be


def _physical_network(segment: Segment) -> tuple[str, str]:
    return segment.network_type, segment.physical_network or ''
