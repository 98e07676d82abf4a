# SPDX-License-Identifier: Apache-2.0
"""Compare hosts, their lanes and flavors with Placement and Nova, and repair what differs.

A host in the aggregate of the pools without a row keeps ordinary servers away for nothing:
another tool put it there, or a backup of the database was restored. A host that has a row
and is not in the aggregate lets ordinary servers in. One whose enrolment was cut off, or that
was removed in part, is reported: its operator has to decide.

The end of a lease closes its lanes. But a manager that was suspended while it started a lease
may open a lane afterwards: servers of a lease that has ended could enter, and the next lease
on the host would wait without limit. Lanes that are open to a reservation that has ended in
the database are closed without a request. Lanes that no reservation explains, because leases
were purged or a backup was restored, are closed when an operator runs the repair.

Lanes that Placement lost, because an operator deleted them or restored a backup, get the id
that they had: it is in the row of the host, and nova-compute remembers it, too, and fails
each server on that host until the lane exists again.

The flavor of a reservation is created after the reservation is written, and deleted before
it has ended. A flavor without a reservation was created by a manager that was cut off until
after the end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from sqlalchemy import orm

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import create_names
from climate_core.db import held_resources, leases, sql, store
from climate_core.db.engine import Database
from climate_core.lease import states
from climate_core.lease.events import start
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from climate_core.repair.operator_repair import REPAIR, RepairResult, repair_remote
from climate_core.repair.reconciliation import skip_unavailable
from climate_hosts import lane_providers, nova, placement
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.hosts import Host
from climate_hosts.watch import isolation

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

_NOT_IN_PLACEMENT: Final = 'Placement does not have it any more: delete it'
_CAUSE: Final = Cause(REPAIR)
_CHUNK_SIZE = 500
#: The reason of the repair of a flavor.
STALE_FLAVOR = 'its reservation has ended or does not exist'


class HostRepair:
    """Repair hosts, or report what would be done.

    :param yes: whether to repair them
    """

    def __init__(
        self,
        database: Database,
        conn: Connection,
        yes: bool,
    ) -> None:
        self._database = database
        self._conn = conn
        self._yes = yes

    def run(self) -> Iterator[RepairResult]:
        """Compare, and repair everything that is wrong."""
        # A row is written before its host is put into the aggregate.
        members = {provider.id: provider.name for provider in placement.list_pool(self._conn)}
        present = {host.provider_id: host for host in db.HOSTS.iterate_all(self._database)}
        give_back = 'return it to them'
        for provider_id in sorted(members.keys() - present.keys()):
            name = members[provider_id]
            wrong = f'no pool has the host {name}, but ordinary servers are kept off'
            yield self._update_isolation(provider_id, provider_id, wrong, give_back)
        for provider_id, host in sorted(present.items()):
            name = host.hypervisor_hostname
            if host.is_leaving:
                wrong = 'it was not removed from its pool completely: delete it'
                yield RepairResult(name, wrong, None)
            elif host.is_half_enrolled:
                wrong = 'its enrolment has not ended: enrol it again, or delete it'
                yield RepairResult(name, wrong, None)
            elif host.open_to_unreserved and provider_id in members:
                wrong = f'no lease has the shared host {name}, but ordinary servers are kept off'
                yield self._update_isolation(provider_id, provider_id, wrong, give_back)
            elif host.is_isolated and provider_id not in members:
                if not placement.has_provider(self._conn, provider_id):
                    yield RepairResult(name, _NOT_IN_PLACEMENT, None)
                    continue
                wrong = 'ordinary servers are not kept off it'
                yield self._update_isolation(name, provider_id, wrong, 'keep them off')
        yield from self._lanes(present)

    def _update_isolation(
        self, what: str, provider_id: str, wrong: str, action: str
    ) -> RepairResult:
        update = isolation.update_isolation
        return repair_remote(
            what, wrong, action, self._yes, update, self._database, self._conn, provider_id
        )

    def _lanes(self, present: Mapping[str, Host]) -> Iterator[RepairResult]:
        """Close lanes without a reservation, and recreate lanes that hosts lack."""
        found = placement.list_lanes(self._conn)
        for lane in found:
            if lane.root_id not in present and lane_providers.is_open(self._conn, lane.id):
                yield repair_remote(
                    lane.name,
                    'it lets servers in, but its host is in no pool',
                    'close it',
                    self._yes,
                    lane_providers.close_lane,
                    self._conn,
                    lane.id,
                )
        ids = {lane.id: lane.name for lane in found}
        for host in present.values():
            for lane_id, reason in find_unexplained_lanes(self._database, self._conn, host):
                yield repair_remote(
                    ids.get(lane_id, lane_id),
                    'it belongs to a reservation that has ended or does not exist',
                    'close it',
                    self._yes,
                    lane_providers.clear_lane,
                    self._conn,
                    lane_id,
                    reason,
                )
            lost = [n for n, lane_id in enumerate(host.lane_ids) if lane_id not in ids]
            if lost and not host.is_new and not host.is_leaving:
                yield from self._lost_lanes(host, lost)

    def _lost_lanes(self, host: Host, lost: Sequence[int]) -> Iterator[RepairResult]:
        name = host.hypervisor_hostname
        if placement.has_provider(self._conn, host.provider_id):
            yield repair_remote(
                name,
                f'{len(lost)} of its {len(host.lane_ids)} lanes are not in Placement',
                'recreate them',
                self._yes,
                recreate_lanes,
                self._database,
                self._conn,
                host,
                lost,
            )
        elif not host.is_isolated:
            # For an isolated host that was reported already.
            yield RepairResult(name, _NOT_IN_PLACEMENT, None)


def close_stale_lanes(
    database: Database,
    conn: Connection,
    hosts: Mapping[int, Host],
    opened: Collection[str],
) -> Iterator[str]:
    """Close the open lanes of reservations that have ended; one statement if there is none.

    :param hosts: by their ids
    :param opened: the ids of the lanes that were open a moment ago
    :returns: what was closed, for the log
    """
    own_lanes = {
        (host.id, number): lane_id
        for host in hosts.values()
        for number, lane_id in enumerate(host.lane_ids)
        if lane_id in opened
    }
    if not own_lanes:
        return
    live = database.read(
        host_reservations.list_reserved_lanes, {unit_id for unit_id, _ in own_lanes}, True
    )
    stray = own_lanes.keys() - {(lane.unit_id, lane.lane) for lane in live}
    if not stray:
        return
    over: dict[tuple[int, int], set[str]] = {key: set() for key in stray}
    for lane in database.read(
        host_reservations.list_reserved_lanes, {unit_id for unit_id, _ in stray}, False
    ):
        if (lane.unit_id, lane.lane) in stray:
            over[lane.unit_id, lane.lane].add(lane.reservation_id)
    for (unit_id, number), reservation_ids in sorted(over.items()):
        closed_to = _clear_lane(conn, own_lanes[unit_id, number], reservation_ids)
        if closed_to is not None:
            name = hosts[unit_id].hypervisor_hostname
            yield f'Host {name} was open to reservation {closed_to}, which has ended'


def _clear_lane(conn: Connection, lane_id: str, reservation_ids: Collection[str]) -> str | None:
    """Close a lane if it is open to one of some reservations; return its id."""
    ids = {
        lanes.reservation_aggregate(reservation_id): reservation_id
        for reservation_id in reservation_ids
    }
    try:
        had = lane_providers.clear_lane(conn, lane_id, ids)
    except errors.Gone:
        return None
    return next((ids[aggregate] for aggregate in had or () if aggregate in ids), None)


def find_unexplained_lanes(
    database: Database, conn: Connection, host: Host
) -> Iterator[tuple[str, frozenset[str]]]:
    """Return the lanes of a host with aggregates of a reservation that has ended or is unknown.

    :returns: the id of each lane, and its aggregates
    """
    for lane_id in host.lane_ids:
        try:
            found = lane_providers.read_access(conn, lane_id).aggregates
        except errors.Gone:
            continue
        # Read after the lane: the reservation that had it then is in the database by now.
        live = (
            database.read(host_reservations.list_reserved_lanes, [host.id], True, started=False)
            if found
            else []
        )
        own = {
            aggregate(lane.reservation_id)
            for lane in live
            for aggregate in (lanes.reservation_aggregate, lanes.ended_aggregate)
        }
        if found and found.isdisjoint(own):
            yield lane_id, found


def recreate_lanes(
    database: Database, conn: Connection, host: Host, lost: Collection[int]
) -> None:
    """Recreate lanes of a host, and have the leases open them that have them now.

    :param lost: their numbers
    """
    create_names(conn)
    root = placement.Provider(host.provider_id, host.hypervisor_hostname, host.provider_id)
    lane_ids = list(host.lane_ids)
    for number in lost:
        # A lane with this name may exist already, with another id.
        lane_ids[number] = lane_providers.create_lane(conn, root, number, lane_ids[number])
    database.write(_record_lanes, host, lane_ids, lost)


def _record_lanes(
    session: orm.Session, host: Host, lane_ids: Sequence[str], lost: Collection[int]
) -> None:
    if lane_ids != [*host.lane_ids]:
        db.HOSTS.update(session, host.id, {}, {'lane_ids': lane_ids})
    now = sql.read_time(session)
    for lane in host_reservations.list_reserved_lanes(session, [host.id], live=True):
        lease = leases.find(session, lane.lease_id, lock=True) if lane.lane in lost else None
        # A start that is in progress polls again itself.
        if lease is not None and lease.status == states.LeaseStatus.ACTIVE:
            change = Change(start.add_reallocations(lease, [lane.reservation_id], now))
            store.save(session, lease, change, now, _CAUSE)


def find_stale_flavors(database: Database, conn: Connection) -> Iterator[str]:
    """Yield the ids of flavors whose reservation has ended or does not exist."""
    present = nova.list_reservation_flavors(conn)
    while chunk := {*islice(present, _CHUNK_SIZE)}:
        yield from sorted(chunk - database.read(held_resources.filter_holding, chunk))


def repair_flavors(database: Database, conn: Connection, yes: bool) -> Iterator[RepairResult]:
    """Delete stale flavors, or report that they would be deleted.

    :param yes: whether to delete them
    """
    for flavor_id in find_stale_flavors(database, conn):
        yield repair_remote(
            f'flavor {flavor_id}',
            STALE_FLAVOR,
            'delete it',
            yes,
            nova.delete_flavor,
            conn,
            flavor_id,
        )


def find_orphans(
    database: Database, cloud: 'Cloud', unseen: dict[str, str]
) -> list[tuple[str, str, str]]:
    """Find the flavors of ended reservations; see ``ReservationPackage.find_orphans``."""
    if not database.read(db.HOSTS.has_any):
        # Without hosts of pools no reservation has a flavor.
        return []
    with skip_unavailable('Flavor', unseen):
        flavor_ids = find_stale_flavors(database, cloud.service())
        return [('flavor', flavor_id, STALE_FLAVOR) for flavor_id in flavor_ids]
    return []


def repair(
    database: Database, cloud: 'Cloud', yes: bool, unseen: dict[str, str]
) -> list[RepairResult]:
    """Repair hosts and flavors; see ``ReservationPackage.repair``."""
    # A cloud without hosts of pools may have no Placement, or no rights for Climate to it.
    unread: dict[str, str] = {}
    repaired: list[RepairResult] = []
    with skip_unavailable('Host', unread):
        repaired += HostRepair(database, cloud.service(), yes).run()
        repaired += repair_flavors(database, cloud.service(), yes)
    if database.read(db.HOSTS.has_any):
        unseen |= unread
    return repaired
