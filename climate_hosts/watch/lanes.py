# SPDX-License-Identifier: Apache-2.0
"""Find the lanes of hosts that are kept by reservations that are over, and close them.

The end of a lease closes its lanes. But a manager that stood still while it started a lease may
open one afterwards: servers of a lease that is over could enter, and the next lease on the host
would wait for ever. What is open to a reservation that the database knows to be over is closed
without being asked for. What no reservation explains, because leases were purged or a backup was
restored, is closed when an operator says so.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.db.engine import Database
from climate_hosts.cloud import lane_providers
from climate_hosts.db import host_reservations
from climate_hosts.domain.hosts import Host

if TYPE_CHECKING:
    from climate_core.cloud import connections


def close_open(
    database: Database,
    conn: 'connections.Connection',
    hosts: Mapping[int, Host],
    opened: Collection[str],
) -> Iterator[str]:
    """Close the open lanes of reservations that are over; one statement if there is none.

    :param hosts: by their ids
    :param opened: the ids of the lanes that were open a moment ago
    :returns: what was done, for the log
    """
    mine = {
        (host.id, number): lane_id
        for host in hosts.values()
        for number, lane_id in enumerate(host.lane_ids)
        if lane_id in opened
    }
    if not mine:
        return
    live = database.read(
        host_reservations.list_reserved_lanes, {unit_id for unit_id, _ in mine}, True
    )
    stray = mine.keys() - {(each.unit_id, each.lane) for each in live}
    if not stray:
        return
    over: dict[tuple[int, int], set[str]] = {key: set() for key in stray}
    for each in database.read(
        host_reservations.list_reserved_lanes, {unit_id for unit_id, _ in stray}, False
    ):
        if (each.unit_id, each.lane) in stray:
            over[each.unit_id, each.lane].add(each.reservation_id)
    for (unit_id, number), reservation_ids in sorted(over.items()):
        closed_to = _clear(conn, mine[unit_id, number], reservation_ids)
        if closed_to is not None:
            name = hosts[unit_id].hypervisor_hostname
            yield f'Host {name} was open to reservation {closed_to}, which is over'


def _clear(
    conn: 'connections.Connection', lane_id: str, reservation_ids: Collection[str]
) -> str | None:
    """Close a lane if it is that of one of some reservations; return the id of that."""
    ids = {lanes.reservation_aggregate(each): each for each in reservation_ids}
    try:
        had = lane_providers.clear_lane(conn, lane_id, ids)
    except errors.Gone:
        return None
    return next((ids[each] for each in had or () if each in ids), None)


def find_unexplained(
    database: Database, conn: 'connections.Connection', host: Host
) -> Iterator[tuple[str, frozenset[str]]]:
    """Return the lanes of a host with aggregates of a reservation that is over or unknown.

    :returns: the id of each, and its aggregates
    """
    for lane_id in host.lane_ids:
        try:
            found = lane_providers.read_access(conn, lane_id).aggregates
        except errors.Gone:
            continue
        # Read after the lane was looked at: the reservation that had it then is known by now.
        live = (
            database.read(host_reservations.list_reserved_lanes, [host.id], True, started=False)
            if found
            else []
        )
        own = {
            aggregate(each.reservation_id)
            for each in live
            for aggregate in (lanes.reservation_aggregate, lanes.ended_aggregate)
        }
        if found and found.isdisjoint(own):
            yield lane_id, found
