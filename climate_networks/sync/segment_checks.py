# SPDX-License-Identifier: Apache-2.0
"""Check that Neutron gives the network segments that are set apart for leases to nobody else."""

from itertools import groupby
from typing import TYPE_CHECKING, Final

from climate_core.db.engine import Database
from climate_networks.cloud import segments
from climate_networks.db import networks as db
from climate_networks.db import registered_units
from climate_networks.domain import marks, networks
from climate_networks.domain.networks import Segment

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: What Neutron does not tell.
UNSEEN: Final = (
    'From which segments Neutron chooses can be seen only with its plugin network_segment_range. '
    'Without it those that are set apart must be outside of network_vlan_ranges and its like.'
)


def find(database: Database, conn: 'connections.Connection') -> list[str] | None:
    """Return which segments that are set apart others have, or may get.

    One call for each physical network, and one for the ranges.

    :returns: None if there are none
    :raises climate_core.exceptions.PluginFailure: Neutron does not answer, or refuses it
    """
    every = registered_units.every(database, db.page, db.SegmentQuery())
    known = sorted((each.segment for each in every), key=_place)
    if not known:
        return None
    ranges, project_id = segments.list_ranges(conn), str(conn.current_project_id)
    chosen = ((each, networks.find_range(each, ranges, project_id)) for each in known)
    used = [
        f'{segment} is set apart for leases, but network {network["id"]} has it, which is of none.'
        for _, group in groupby(known, _place)
        for segment, network in segments.used(conn, list(group)).items()
        if not marks.is_marked(network)
    ]
    may_be = [networks.describe_range(one, e, project_id) for one, e in chosen if e is not None]
    return used + may_be


def _place(segment: Segment) -> tuple[str, str]:
    return segment.network_type, segment.physical_network or ''
