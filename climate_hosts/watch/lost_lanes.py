# SPDX-License-Identifier: Apache-2.0
"""Make lanes anew that Placement has no more.

An operator deleted them, or restored a backup of Placement. A lane gets the id that it had: it is
in the row of its host, and nova-compute remembers it, too, and fails each server on that host
until the lane is there again. A lease that runs opens it again; what it was prepared for opens it
at its start.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import orm

from climate_core.cloud import placement
from climate_core.db import leases, sql, store
from climate_core.db.engine import Database
from climate_core.lease import states
from climate_core.lease.events import reallocation
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from climate_core.repair import stuck_leases
from climate_hosts.cloud import lane_providers
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.domain.hosts import Host

if TYPE_CHECKING:
    from climate_core.cloud import connections

_CAUSE: Final = Cause(stuck_leases.REPAIR)


def remake(
    database: Database, conn: 'connections.Connection', host: Host, lost: Collection[int]
) -> None:
    """Make lanes of a host, and have the leases open them that have them now.

    :param lost: their numbers
    """
    lane_providers.make_names(conn)
    root = placement.Provider(host.provider_id, host.hypervisor_hostname, host.provider_id)
    lane_ids = list(host.lane_ids)
    for number in lost:
        # One that has its name may be there already, with another id.
        lane_ids[number] = lane_providers.make_lane(conn, root, number, lane_ids[number])
    database.write(_record, host, lane_ids, lost)


def _record(
    session: orm.Session, host: Host, lane_ids: Sequence[str], lost: Collection[int]
) -> None:
    if lane_ids != [*host.lane_ids]:
        db.update(session, host.id, {}, {'lane_ids': lane_ids})
    now = sql.read_time(session)
    for each in host_reservations.list_reserved_lanes(session, [host.id], live=True):
        lease = leases.find(session, each.lease_id, lock=True) if each.lane in lost else None
        # A start that is still going on looks again by itself.
        if lease is not None and lease.status == states.LeaseStatus.ACTIVE:
            change = Change(reallocation.add_reallocations(lease, [each.reservation_id], now))
            store.save(session, lease, change, now, _CAUSE)
