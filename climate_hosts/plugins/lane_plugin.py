# SPDX-License-Identifier: Apache-2.0
"""Reserve hosts of the pools, or shares of them, which the calendar allocates.

Shortly before the start a lane of each host is prepared, at the start it is opened: from then
on nova-scheduler lets servers in that name the reservation. At the end the lane is closed,
and the servers leave that are still in it. The calendar decides whose a lane is: a lane that
was prepared and is allocated to another reservation by now delays nothing.
Nova and Placement are called with the rights of the service: hosts belong to no project.
"""

import abc
import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import dates, lanes, words
from climate_core import exceptions
from climate_core.calendar.model import Demand, Order, Shortage, Unit, UnitFilter
from climate_core.cloud import errors, servers
from climate_core.cloud.placement import HostCapacity
from climate_core.plugins import calendar_plugin, filters
from climate_core.plugins.base import (
    Done,
    HostBacked,
    PollAgain,
    Preemptible,
    Prepared,
    ReservedResource,
    Shrinkable,
)
from climate_core.plugins.step_context import END, EndContext, Progress
from climate_hosts import lane_providers, nodes, placement
from climate_hosts.hosts import KIND
from climate_hosts.plugins import lane_options, server_drain

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import AllocatedUnit, Lease, Reservation

#: Seconds until the next poll of servers that are being deleted.
POLL_SECONDS: Final = calendar_plugin.POLL_SECONDS
#: The same for a host that Placement does not have: an operator may have removed it.
_GONE_POLL_SECONDS: Final = 10.0
#: Up to this number hosts are read one by one; for more, all hosts of the pools are read.
_MAX_SINGLE_READS: Final = 10
#: The number of hosts that a rejection names.
_MAX_NAMED: Final = 10
#: The reason of a lease whose host is allocated to the earlier lease for longer than it was.
_HOST_NOT_FREE: Final = (
    'Host {} is not free yet: servers of an earlier lease are still being deleted, or it is being '
    'cleaned after them.'
)
#: The reason of a lease whose host is powered off: it is powered on, or will be.
_POWERED_OFF: Final = 'Host {} is being powered on.'
#: The key of the prepared lanes in the progress of a reservation.
_PREPARED: Final = 'prepared'
#: The key of the lanes that are open while the start waits for other lanes.
_OPENED: Final = 'opened'
#: The key of the lanes that have servers when the lease has ended.
_USED: Final = 'used'
#: The reason of a lease whose host takes no servers yet: all of a node is reserved as long as
#: Ironic cleans it, or has it in maintenance. In each of these texts ``{}`` stands for the host.
WITHHELD: Final = 'Host {} is not free yet: Nova withholds all of it, as while a node is cleaned.'
#: The reason of a lease that waits for another one.
OPEN: Final = (
    'Host {} is still open to an earlier lease. If that lease ended long ago, an operator can '
    'close the host by "climate-manage repair --yes".'
)
IN_USE: Final = 'Host {} still has servers of an earlier lease.'
#: The name by which filters compare the id of a host.
_ID: Final = 'id'


class HostFilter(UnitFilter):
    """The hosts that satisfy the conditions of a reservation."""

    def __init__(self, conditions: filters.Filter) -> None:
        self._conditions = conditions
        self._names_id = _ID in conditions.names

    def matches(self, unit: Unit) -> bool:
        return self._conditions.matches(self._properties(unit))

    def find_shortage(self, units: Sequence[Unit]) -> Shortage | None:
        return self._conditions.find_shortage([*map(self._properties, units)])

    def _properties(self, unit: Unit) -> Mapping[str, Any]:
        return {**unit.properties, _ID: unit.id} if self._names_id else unit.properties


class LanePlugin(calendar_plugin.CalendarPlugin, HostBacked, Shrinkable, Preemptible, Prepared):
    """Reserve hosts, or shares of them.

    A subclass defines what is allocated, the number of servers for a lane, and their shape.
    """

    unit_kind = KIND
    service = 'placement'
    #: The property of the highest amount.
    most_field: ClassVar[str]
    options = lane_options.OPTIONS
    # Servers run on hosts: hosts are opened before them, and are closed after them.
    rank = 5

    @abc.abstractmethod
    def _check_request(
        self, context: 'RequestContext', values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the parameters of a request, validated with the rights of the user."""

    def _with_defaults(self, values: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
        """Return the values of a request, with the defaults."""
        given = {name: values[name] for name in self.schema if values.get(name) is not None}
        return {**lane_options.DEFAULTS, **defaults, **given}

    @abc.abstractmethod
    def _shape(self, params: Mapping[str, Any]) -> str | None:
        """Return the shape of the servers that may enter; None: any."""

    @abc.abstractmethod
    def _slots(self, allocation: 'AllocatedUnit') -> int:
        """Return the number of servers that may be in the lane of an allocation."""

    def reserve(
        self,
        context: 'RequestContext',
        values: Mapping[str, Any],
        lease_id: str = '',  # noqa: ARG002
    ) -> ReservedResource:
        params = self._check_request(context, values) | calendar_plugin.owner_params(context)
        reserved = self._build_reserved(params)
        self._check_grace(params)
        if context.project_id in params.get('share_with', ()):
            raise exceptions.BadRequest(
                'share_with: must name other projects; servers of your own one enter anyway.',
                field='share_with',
            )
        return reserved

    def normalize(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check_grace(values)
        return super().normalize(values)

    def _check_grace(self, values: Mapping[str, Any]) -> None:
        longest = self.conf[self.resource_type].max_grace_seconds
        if (values.get('grace') or 0) > longest:
            raise exceptions.BadRequest(
                f'grace: must be {longest} seconds at most.', field='grace'
            )

    def read_demand(self, reservation: 'Reservation') -> Demand:
        demand = super().read_demand(reservation)
        grace = self._terms(reservation.params).grace
        return dataclasses.replace(demand, after=demand.after + grace)

    def _terms(self, params: Mapping[str, Any]) -> server_drain.DrainTerms:
        options = self.conf[self.resource_type]
        on_end = params.get('on_end', server_drain.DELETE)
        usual = options.migrate_seconds if on_end == server_drain.MIGRATE else 0
        grace_seconds = params.get('grace')
        # The operator may have lowered the limit.
        grace = usual if grace_seconds is None else min(grace_seconds, options.max_grace_seconds)
        return server_drain.DrainTerms(
            on_end, datetime.timedelta(seconds=grace), options.unmovable
        )

    def _demand_fields(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what all demands for hosts have in common, by the fields of Demand."""
        conditions = filters.compile_filter(params)
        return {
            'kind': KIND,
            'pool': params.get('pool') or None,
            'owner': calendar_plugin.owner_of(params),
            'unit_filter': self._filter(conditions, params),
            # A host has an id, which is none of its properties.
            'property_fields': {
                name: field for name, field in conditions.names.items() if name != _ID
            },
            'unknown_property': exceptions.UnknownProperty,
            'order': Order(self.conf[self.resource_type].order),
        }

    def _filter(
        self,
        conditions: filters.Filter,
        params: Mapping[str, Any],  # noqa: ARG002
    ) -> HostFilter:
        """Return the filter of the hosts that satisfy conditions."""
        return HostFilter(conditions)

    def make(
        self,
        context: 'RequestContext',  # noqa: ARG002
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],  # noqa: ARG002
        reserved: ReservedResource,
    ) -> ReservedResource:
        """Create nothing: return how long before the start the hosts are prepared."""
        seconds = self.conf[self.resource_type].prepare_seconds
        before = datetime.timedelta(seconds=seconds)
        return dataclasses.replace(reserved, prepare=seconds > 0, prepare_before=before)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Prepare the lanes, closed; a lane that is still in use is left to the start."""
        conn = self.cloud.service()
        aggregates = self._aggregates(lease, reservation)
        prepared = _prepared(reservation)
        for allocation in reservation.allocations:
            lane_id = lane_of(allocation)
            prepared[lane_id] = lane_providers.prepare_lane(
                conn, lane_id, self._slots(allocation), aggregates
            )
        return Done({_PREPARED: prepared})

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Open a lane of each host, once the host is free.

        Lanes that it opened are left alone while it waits for others.

        :raises climate_core.exceptions.Permanent: no host is allocated to it
        """
        return self._open_all(lease, reservation, _opened(reservation))

    def _open_all(
        self, lease: 'Lease', reservation: 'Reservation', opened: dict[str, int]
    ) -> PollAgain | None:
        """Open the lanes of a reservation.

        :param opened: the slots of those that are open, by their ids
        """
        self._check_allocated(reservation)
        conn = self.cloud.service()
        aggregates = self._aggregates(lease, reservation)
        waits = []
        for allocation in reservation.allocations:
            lane_id, slots = lane_of(allocation), self._slots(allocation)
            if opened.get(lane_id) == slots:
                continue
            wait = (
                self._wait_for_unit(lease, allocation, _HOST_NOT_FREE.format(_name(allocation)))
                or _wait_for_power(allocation)
                or self._open(conn, reservation, allocation, aggregates)
            )
            if wait is None:
                opened[lane_id] = slots
            else:
                waits.append(wait)
        # Lanes that were prepared, and are no longer allocated to it.
        for lane_id in sorted(_prepared(reservation).keys() - _lanes_of(reservation)):
            lane_providers.drain_lane(conn, lane_id, reservation.id)
        reservation = _with_opened(reservation, opened)
        if waits:
            return dataclasses.replace(waits[0], progress=reservation.progress)
        projects = server_drain.list_projects(lease, reservation)
        return server_drain.unshelve(conn, reservation, projects)

    def _aggregates(self, lease: 'Lease', reservation: 'Reservation') -> Sequence[str]:
        """Return what lets the servers of a reservation into a lane."""
        params = reservation.params
        return lanes.lane_aggregates(
            reservation.id,
            sorted(server_drain.list_projects(lease, reservation)),
            self._shape(params),
            open_to=lease.project_id if params.get('matching') == lanes.OPEN else None,
        )

    def _open(
        self,
        conn: 'connections.Connection',
        reservation: 'Reservation',
        allocation: 'AllocatedUnit',
        aggregates: Sequence[str],
    ) -> PollAgain | None:
        """Open a lane; two requests if it was prepared."""
        lane_id, name = lane_of(allocation), _name(allocation)
        piece = self._demand(reservation.params).piece
        slots, prepared = self._slots(allocation), _prepared(reservation).get(lane_id)
        try:
            capacities = placement.read_host_capacities(conn, allocation.unit['provider_id'])
            host = next(iter(capacities.values()), None)
            if host is None or lane_id not in host.lanes:
                raise errors.Gone
            is_open = host.lanes[lane_id].slots > 0
            conflict = None if is_open else find_conflict(host, lane_id, allocation.pieces, piece)
            if prepared is not None and not is_open and not conflict:
                access = lane_providers.LaneAccess(prepared, frozenset(aggregates))
                if lane_providers.open_lane(conn, lane_id, slots, aggregates, access):
                    return None
            found = lane_providers.read_access(conn, lane_id)
            ended = lanes.ended_aggregate(reservation.id) in found.aggregates
            ours = lanes.reservation_aggregate(reservation.id) in found.aggregates
            if ours and found.aggregates == {*aggregates} and host.lanes[lane_id].slots == slots:
                return None
            # Servers of its own lane may have entered by it: it was opened before.
            if not (ended or (ours and is_open)):
                conflict = OPEN if is_open else conflict
                if conflict:
                    return PollAgain(POLL_SECONDS, conflict.format(name))
            if not lane_providers.open_lane(conn, lane_id, slots, aggregates, found):
                return PollAgain(0.0)
        except errors.Gone:
            return PollAgain(_GONE_POLL_SECONDS, f'Host {name} is not in Placement any more.')
        return None

    def reallocate(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Close the lanes of hosts that were released, and open those of new hosts.

        Servers on a host that was released stay there, or are evacuated to the other hosts.
        """
        conn = self.cloud.service()
        allocated = {lane_of(allocation) for allocation in reservation.allocations}
        released = {lane_of(allocation): allocation for allocation in reservation.released}
        left = {
            server_id: str(released[lane_id].unit['service_name'])
            for lane_id in sorted(released.keys() - allocated)
            for server_id in lane_providers.drain_lane(conn, lane_id, reservation.id)
        }
        # Nothing on a host that failed is as it was.
        wait = self._open_all(lease, reservation, {})
        if wait is not None or not self.conf.hosts.evacuate:
            return wait
        return server_drain.evacuate(conn, left, server_drain.list_projects(lease, reservation))

    def choose_retained(self, reservation: 'Reservation', max_pieces: int) -> Mapping[int, int]:
        allocations = reservation.allocations
        used = self._count_used(reservation, allocations)
        own = {allocation.unit_id: allocation.pieces for allocation in allocations}
        in_use = {unit_id: min(pieces, used[unit_id]) for unit_id, pieces in own.items()}
        count = sum(in_use.values())
        if count <= max_pieces:
            return choose_retained(own, in_use, max_pieces)
        names = _join([_name(each) for each in allocations if used[each.unit_id]])
        if self._is_whole(reservation):
            total = sum(own.values())
            message = (
                f'Of the {words.counted(total, "host")} of the reservation '
                f'{words.counted(total - count, "host")} can be released: there are servers on '
                f'{names}. So {self.most_field} must be at least {count}; or delete these '
                'servers, or move them together on fewer hosts, and repeat the request.'
            )
        else:
            message = (
                f'{words.counted(count, "server")} of the reservation exist, on {names}. So '
                f'{self.most_field} must be at least {count}; or delete servers, and repeat '
                'the request.'
            )
        raise exceptions.InvalidState(message, field=self.most_field)

    def close_released(self, reservation: 'Reservation', left: Mapping[int, int]) -> None:
        """Close lanes, or lower their slots, to the pieces that are left.

        They are closed before they are checked to be empty, so that no server enters hosts that
        the next lease may get.
        """
        conn = self.cloud.service()
        closed = [each for each in reservation.allocations if left[each.unit_id] < each.pieces]
        for allocation in closed:
            pieces = left[allocation.unit_id]
            if not pieces:
                lane_providers.drain_lane(conn, lane_of(allocation), reservation.id)
            else:
                slots = self._slots(dataclasses.replace(allocation, pieces=pieces))
                lane_providers.set_slots(conn, lane_of(allocation), slots, is_open=True)
        used = self._count_used(reservation, closed)
        entered = [_name(each) for each in closed if used[each.unit_id] > left[each.unit_id]]
        if entered:
            raise exceptions.InvalidState(
                f'Servers entered {_join(entered)} during the release. Repeat the request: other '
                'hosts may be free.',
                field=self.most_field,
            )

    def _is_whole(self, reservation: 'Reservation') -> bool:
        """Return whether whole hosts are allocated, not shares of them."""
        return self._demand(reservation.params).piece is None

    def _count_used(
        self, reservation: 'Reservation', allocations: Sequence['AllocatedUnit']
    ) -> dict[int, int]:
        """Return the number of pieces of units in use; one request for each, or for the pools."""
        ids = [allocation.unit['provider_id'] for allocation in allocations]
        capacities: dict[str, HostCapacity] = {}
        for provider_id in ids if len(ids) <= _MAX_SINGLE_READS else [None]:
            capacities |= placement.read_host_capacities(self.cloud.service(), provider_id)
        used = {}
        for allocation in allocations:
            capacity = capacities.get(allocation.unit['provider_id'])
            lane = capacity.lanes.get(lane_of(allocation)) if capacity else None
            if capacity is None or lane is None:
                # The servers of a host that Placement does not have are unknown.
                used[allocation.unit_id] = allocation.pieces
            elif self._is_whole(reservation):
                used[allocation.unit_id] = int(lane.used > 0 or any(capacity.used.values()))
            else:
                used[allocation.unit_id] = lane.used
        return used

    def preempt(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Close the lanes, and shelve the servers that are in them."""
        terms = server_drain.DrainTerms(
            server_drain.SHELVE, datetime.timedelta(), server_drain.SHELVE
        )
        return self._leave(lease, reservation, terms) or server_drain.carry_over(reservation)

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Close the lanes, and remove the servers that are in them."""
        return self._leave(lease, reservation, self._terms(reservation.params))

    def _leave(
        self, lease: 'Lease', reservation: 'Reservation', terms: server_drain.DrainTerms
    ) -> PollAgain | None:
        """Close the lanes; shelved servers leave with the servers that are in the lanes."""
        conn = self.cloud.service()
        had = {*_lanes_of(reservation), *map(lane_of, reservation.released)}
        inside = {
            lane_id: lane_providers.drain_lane(conn, lane_id, reservation.id)
            for lane_id in sorted(had | _prepared(reservation).keys())
        }
        left = {server_id for servers_inside in inside.values() for server_id in servers_inside}
        progress = server_drain.record_servers(reservation, left)
        if terms.on_end == server_drain.DELETE:
            projects = server_drain.list_projects(lease, reservation)
            left |= server_drain.find_shelved(conn, reservation, projects)
        if not left:
            return None
        now = self.now()
        options = self.conf[self.resource_type]
        none = Progress(END, now)
        context = EndContext(conn, self.cloud, lease, reservation, none, now, options, prefix='')
        leaving = server_drain.ServerDrain(context, terms)
        wait = leaving.step(sorted(left))
        used = [lane_id for lane_id, servers_inside in inside.items() if servers_inside]
        progress = {**progress, _PREPARED: _prepared(reservation), _USED: used}
        return dataclasses.replace(wait, progress={**(wait.progress or {}), **progress})

    def find_matched(self, lease: 'Lease', reservation: 'Reservation') -> Mapping[str, str]:
        """Find the servers in the lanes of an active reservation: one call per lane."""
        conn, end = self.cloud.service(), dates.sentence(lease.end_date)
        is_deleted = self._terms(reservation.params).on_end == server_drain.DELETE
        will = 'deleted' if is_deleted else 'moved to another host'
        mark = f'{lease.id}: this server is {will} when the lease ends, {end}'
        return {
            server_id: mark
            for lane_id in sorted(_lanes_of(reservation))
            for server_id in placement.list_consumers(conn, lane_id)
        }

    def set_mark(self, server_id: str, mark: str) -> None:
        servers.set_metadata(self.cloud.service(), server_id, lane_options.MARK, mark)

    def remove_mark(self, server_id: str, mark: str) -> None:
        servers.delete_metadata(self.cloud.service(), server_id, lane_options.MARK, mark)

    def used_units(self, reservation: 'Reservation') -> Collection[int]:
        used = (reservation.progress or {}).get(_USED)
        return {
            allocation.unit_id
            for allocation in reservation.allocations
            if used is None or lane_of(allocation) in used
        }


def choose_retained(
    own: Mapping[int, int], in_use: Mapping[int, int], max_pieces: int
) -> dict[int, int]:
    """Return how many pieces of each unit a reservation keeps, by the ids of the units.

    Unused units are returned first, and of these the units with the fewest pieces.

    :param own: id of a unit -> number of pieces that it has
    :param in_use: id of a unit -> number of these in use; ``max_pieces`` at most in all
    :param max_pieces: maximum number of pieces that it keeps
    """
    left = dict(own)
    surplus = sum(own.values()) - max_pieces
    for unit_id in sorted(own, key=lambda unit_id: (in_use[unit_id] > 0, own[unit_id], -unit_id)):
        returned = min(own[unit_id] - in_use[unit_id], max(0, surplus))
        left[unit_id] -= returned
        surplus -= returned
    return left


def lane_of(allocation: 'AllocatedUnit') -> str:
    """Return the id of the lane by which servers of an allocation enter."""
    return str(allocation.unit['lane_ids'][allocation.lane])


def _name(allocation: 'AllocatedUnit') -> str:
    return str(allocation.unit['hypervisor_hostname'])


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ', '.join(sorted(names)[:_MAX_NAMED]) + (f' and {more} more' if more > 0 else '')


def _wait_for_power(allocation: 'AllocatedUnit') -> PollAgain | None:
    """PollAgain until a host is on."""
    if allocation.unit.get('power') is None:
        return None
    return PollAgain(POLL_SECONDS, _POWERED_OFF.format(_name(allocation)))


def _lanes_of(reservation: 'Reservation') -> set[str]:
    return {lane_of(allocation) for allocation in reservation.allocations}


def _prepared(reservation: 'Reservation') -> dict[str, int | None]:
    """Return the lanes that were prepared, with their generations; None: in use."""
    return dict((reservation.progress or {}).get(_PREPARED, {}))


def _opened(reservation: 'Reservation') -> dict[str, int]:
    """Return the slots of the lanes that this start has opened."""
    return dict((reservation.progress or {}).get(_OPENED, {}))


def _with_opened(reservation: 'Reservation', opened: Mapping[str, int]) -> 'Reservation':
    """Return a reservation whose progress has the lanes that are open."""
    if not opened:
        return reservation
    progress = {**(reservation.progress or {}), _OPENED: opened}
    return dataclasses.replace(reservation, progress=progress)


def find_conflict(
    host: HostCapacity, lane_id: str, pieces: int, piece: Mapping[str, int] | None
) -> str | None:
    """Return what earlier leases left on a host; None if the lane can be opened.

    A whole host must be empty and closed. A share of a host must not be open as a whole, and have
    the capacity that is allocated if leases that have ended still have servers there.

    :param pieces: the number of pieces of the host that are allocated to the reservation
    :param piece: the amounts of a piece; None: the whole host
    """
    if not any(host.capacity.values()):
        return WITHHELD
    others = [lane for key, lane in host.lanes.items() if key != lane_id]
    if piece is None:
        in_use, is_open = any(host.used.values()), any(lane.slots for lane in others)
    else:
        free = {name: host.capacity[name] - used for name, used in host.used.items()}
        capacity = nodes.unit_amounts(free)
        short = any(capacity[name] < amount * pieces for name, amount in piece.items())
        in_use = short and any(lane.used and not lane.slots for lane in others)
        is_open = any(lane.slots == lane_providers.MAX_SLOTS for lane in others)
    if in_use or host.lanes[lane_id].used:
        return IN_USE
    return OPEN if is_open else None
