# SPDX-License-Identifier: Apache-2.0
"""Reserve hosts of the pools, or shares of them, which the calendar promises.

Shortly before the start a lane of each host is prepared, at the start it is opened: from then on
nova-scheduler lets servers in that name the reservation. At the end the lane is closed, and the
servers leave that are still in it. Whose a lane is, the calendar says: what was prepared in
one that is another reservation's by now holds nobody up.
Nova and Placement are asked with the rights of the service: hosts are nobody's.
"""

import abc
import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_utils import uuidutils

from climate_common import lanes, words
from climate_core import exceptions
from climate_core.calendar.model import Demand, Order, ReservationDemand, Unit
from climate_core.cloud import errors, lane_providers, placement, servers
from climate_core.lease.hosts import KIND
from climate_core.plugins import base
from climate_core.plugins.base import Claimed, Done, Wait
from climate_core.plugins.host import filters
from climate_core.plugins.lanes import departures
from climate_core.plugins.lanes import obstacles as lane_obstacles
from climate_core.plugins.lanes import options as lane_options
from climate_core.plugins.lanes import reduction as lane_reduction
from climate_core.plugins.progress import END, Progress
from climate_core.plugins.step_context import EndContext

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.context import RequestContext
    from climate_core.lease.model import Allocation, Lease, Reservation

#: Seconds until the next look at servers that are being deleted.
LOOK: Final = 1.0
#: The same for a host that Placement does not have: an operator may have taken it away.
_GONE_LOOK: Final = 10.0
#: The same for servers that are being evacuated.
_EVACUATE_LOOK: Final = 5.0
#: The reason of a lease whose host is promised to the earlier lease for longer than it was.
_HOST_NOT_FREE: Final = (
    'Host {} is not free yet: servers of an earlier lease are still being deleted, or it is being '
    'cleaned after them.'
)
#: How many looks there are until a host is expected to be free.
_LOOKS: Final = 60
#: What is kept of the lanes that are prepared.
_PREPARED: Final = 'prepared'
#: What is kept of the lanes that have servers when the lease is over.
_USED: Final = 'used'
#: Whose a reservation is, among its params.
_PROJECT: Final = '_project_id'
_DOMAIN: Final = '_domain_id'


class LanePlugin(base.ResourcePlugin):
    """Reserve hosts, or shares of them.

    A subclass says what is promised, how many servers a lane has room for, and which.
    """

    #: The property that says how much is wanted, which is blamed if there is not so much.
    amount_field: ClassVar[str]
    #: The property that says how much it is at most.
    most_field: ClassVar[str]
    #: What the calendar promises, for people.
    noun: ClassVar[str]
    options = lane_options.OPTIONS
    # Servers run on hosts: hosts are there before them, and are closed after them.
    rank = 5

    @abc.abstractmethod
    def _read(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept of a request, checked with the rights of the user."""

    @abc.abstractmethod
    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a request says, and the usual where it says nothing."""

    @abc.abstractmethod
    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what a reservation holds, by unit."""

    @abc.abstractmethod
    def _demand(self, params: Mapping[str, Any]) -> Demand:
        """Return what the calendar is asked for; :meth:`_common` has the rest of it.

        :raises climate_core.exceptions.BadRequest: the params have no meaning together
        """

    @abc.abstractmethod
    def _shape(self, params: Mapping[str, Any]) -> str | None:
        """Return the shape of the servers that may enter; None: any."""

    @abc.abstractmethod
    def _slots(self, allocation: 'Allocation') -> int:
        """Return how many servers may be in the lane of an allocation."""

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        # Whose it is does not change with what its user changes later.
        whose = {_PROJECT: context.project_id, _DOMAIN: context.project_domain_id}
        params = self._read(context, values) | whose
        self._demand(params)
        self._check_grace(params)
        if context.project_id in params.get('share_with', ()):
            raise exceptions.BadRequest(
                'share_with: must name other projects; servers of your own one enter anyway.',
                field='share_with',
            )
        # The calendar has no id for what it promises: a reservation is found by its own.
        resource_id = uuidutils.generate_uuid()
        return Claimed(resource_id, params, self.amounts(params), unit_kind=KIND)

    def normalize(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values of a change as a request for a new reservation has them kept."""
        self._check_grace(values)
        usual = self._params(values)
        return {name: usual.get(name) for name in values}

    def _check_grace(self, values: Mapping[str, Any]) -> None:
        longest = self.conf[self.resource_type].max_grace_seconds
        if (values.get('grace') or 0) > longest:
            raise exceptions.BadRequest(
                f'grace: must be {longest} seconds at most.', field='grace'
            )

    def wanted(self, reservation: 'Reservation') -> ReservationDemand:
        after = self.cleaning(reservation) + self._terms(reservation.params).grace
        return ReservationDemand(
            reservation_id=reservation.id,
            demand=self._demand(reservation.params),
            field=self.amount_field,
            noun=self.noun,
            after=after,
        )

    def cleaning(self, reservation: 'Reservation') -> datetime.timedelta:  # noqa: ARG002
        return datetime.timedelta(seconds=self.conf[self.resource_type].cleaning_seconds)

    def _terms(self, params: Mapping[str, Any]) -> departures.DepartureTerms:
        options = self.conf[self.resource_type]
        on_end = params.get('on_end', 'delete')
        usual = options.migrate_seconds if on_end == departures.MIGRATE else 0
        asked = params.get('grace')
        # The operator may have lowered the limit since.
        grace = usual if asked is None else min(asked, options.max_grace_seconds)
        return departures.DepartureTerms(
            on_end, datetime.timedelta(seconds=grace), options.unmovable
        )

    def _common(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what all demands for hosts have in common, by the names of Demand."""
        wanted = filters.compile_filter(params)
        accepts, pool = wanted.matches, params.get('pool')

        def admits(unit: Unit) -> bool:
            # One that says nothing was made before pools could be for some.
            return (
                unit.access is None
                or _PROJECT not in params
                or unit.access.admits(params[_PROJECT], params.get(_DOMAIN))
            )

        def matches(unit: Unit) -> bool:
            return (not pool or unit.pool == pool) and admits(unit) and accepts(unit.properties)

        return {
            'kind': KIND,
            'matches': matches,
            'names': wanted.names,
            'lacking': lambda units: wanted.lacking([each.properties for each in units]),
            'order': Order(self.conf[self.resource_type].order),
            'pool': pool or None,
            'admits': admits,
        }

    def matches_request(self, reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
        shown = {
            name: each for name, each in reservation.params.items() if not name.startswith('_')
        }
        return shown == self._params(values)

    def make(
        self,
        context: 'RequestContext',  # noqa: ARG002
        lease_id: str,  # noqa: ARG002
        values: Mapping[str, Any],  # noqa: ARG002
        claimed: Claimed,
    ) -> Claimed:
        seconds = self.conf[self.resource_type].prepare_seconds
        before = datetime.timedelta(seconds=seconds)
        return dataclasses.replace(claimed, prepare=seconds > 0, prepare_before=before)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> Wait | Done | None:
        """Prepare the lanes, closed; one that is still in use is left to the start."""
        conn = self.cloud.service()
        aggregates = self._aggregates(lease, reservation)
        prepared = _prepared(reservation)
        for each in reservation.allocations:
            lane_id = lane_of(each)
            prepared[lane_id] = lane_providers.prepare_lane(
                conn, lane_id, self._slots(each), aggregates
            )
        return Done({_PREPARED: prepared})

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Open a lane of each host, once the host is free.

        :raises climate_core.exceptions.Permanent: the calendar promises it no host
        """
        if not reservation.allocations:
            raise exceptions.Permanent(
                'The calendar promises no host to this reservation: an operator must look why.'
            )
        conn = self.cloud.service()
        aggregates = self._aggregates(lease, reservation)
        waits = [
            self._wait_for_host(lease, each) or self._open(conn, reservation, each, aggregates)
            for each in reservation.allocations
        ]
        # What was prepared, and is promised to it no more.
        for lane_id in sorted(_prepared(reservation).keys() - _lanes_of(reservation)):
            lane_providers.leave_lane(conn, lane_id, reservation.id)
        return next((each for each in waits if each is not None), None)

    def _wait_for_host(self, lease: 'Lease', allocation: 'Allocation') -> Wait | None:
        """Wait for a host that is promised from some time after the start of the lease on."""
        rest = (allocation.start - self.now()).total_seconds()
        # The clocks of the database and of this machine may differ a little.
        if allocation.start <= lease.start_date or rest <= LOOK:
            return None
        name = allocation.unit['hypervisor_hostname']
        return Wait(max(LOOK, rest / _LOOKS), _HOST_NOT_FREE.format(name))

    def _aggregates(self, lease: 'Lease', reservation: 'Reservation') -> Sequence[str]:
        """Return what lets the servers of a reservation into a lane."""
        params = reservation.params
        return lanes.lane_aggregates(
            reservation.id,
            [lease.project_id, *params.get('share_with', ())],
            self._shape(params),
            open_to=lease.project_id if params.get('matching') == 'open' else None,
        )

    def _open(
        self,
        conn: 'connection.Connection',
        reservation: 'Reservation',
        allocation: 'Allocation',
        aggregates: Sequence[str],
    ) -> Wait | None:
        """Open a lane; one that was prepared with two requests."""
        lane_id, name = lane_of(allocation), allocation.unit['hypervisor_hostname']
        piece = self._demand(reservation.params).piece
        slots, prepared = self._slots(allocation), _prepared(reservation).get(lane_id)
        try:
            room = placement.find_rooms(conn, allocation.unit['provider_id'])
            host = next(iter(room.values()), None)
            if host is None or lane_id not in host.lanes:
                raise errors.Gone
            is_open = host.lanes[lane_id].slots > 0
            told = (
                None if is_open else lane_obstacles.find(host, lane_id, allocation.pieces, piece)
            )
            if prepared is not None and not is_open and not told:
                known = lane_providers.LaneAccess(prepared, frozenset(aggregates))
                if lane_providers.open_lane(conn, lane_id, slots, aggregates, known):
                    return None
            found = lane_providers.read_access(conn, lane_id)
            ended = lanes.ended_aggregate(reservation.id) in found.aggregates
            ours = lanes.reservation_aggregate(reservation.id) in found.aggregates
            if ended or (ours and is_open):
                # What is there may have come by this lane: it was opened before.
                if found.aggregates != {*aggregates}:
                    lane_providers.set_lane_aggregates(conn, lane_id, aggregates)
                lane_providers.set_slots(conn, lane_id, slots, is_open=True)
                return None
            if is_open:
                told = lane_obstacles.OPEN
            if told:
                return Wait(LOOK, told.format(name))
            if not lane_providers.open_lane(conn, lane_id, slots, aggregates, found):
                return Wait(0.0)
        except errors.Gone:
            return Wait(_GONE_LOOK, f'Host {name} is not in Placement any more.')
        return None

    def reallocate(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Close the lanes of hosts that were given up, and open those that are new.

        Servers that are on a host that was given up stay there, or are evacuated to the others.
        """
        conn = self.cloud.service()
        kept = {lane_of(each) for each in reservation.allocations}
        released = {lane_of(each): each for each in reservation.released}
        left = {
            server_id: str(released[lane_id].unit['service_name'])
            for lane_id in sorted(released.keys() - kept)
            for server_id in lane_providers.leave_lane(conn, lane_id, reservation.id)
        }
        wait = self.wake_up(lease, reservation)
        if wait is not None or not self.conf.hosts.evacuate:
            return wait
        there = [each for each, host in left.items() if _evacuate(conn, each, host)]
        told = f'Evacuating {words.counted(len(there), "server")} from hosts that failed.'
        return Wait(_EVACUATE_LOOK, told) if there else None

    def choose_less(self, reservation: 'Reservation', most: int) -> Mapping[int, int]:
        return self._reduction(reservation).choose(most)

    def close_less(self, reservation: 'Reservation', left: Mapping[int, int]) -> None:
        self._reduction(reservation).close(left, self._slots, reservation.id)

    def _reduction(self, reservation: 'Reservation') -> lane_reduction.LaneReduction:
        parts = [lane_reduction.Part(each, lane_of(each)) for each in reservation.allocations]
        is_whole = self._demand(reservation.params).piece is None
        return lane_reduction.LaneReduction(self.cloud.service(), parts, is_whole, self.most_field)

    def end(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Close the lanes, and remove the servers that are in them."""
        conn = self.cloud.service()
        had = {*_lanes_of(reservation), *map(lane_of, reservation.released)}
        inside = {
            lane_id: lane_providers.leave_lane(conn, lane_id, reservation.id)
            for lane_id in sorted(had | _prepared(reservation).keys())
        }
        left = {server_id for servers_inside in inside.values() for server_id in servers_inside}
        if not left:
            return None
        now = self.now()
        options = self.conf[self.resource_type]
        none = Progress(END, now)
        context = EndContext(conn, self.cloud, lease, reservation, none, now, options, prefix='')
        leaving = departures.Departures(context, self._terms(reservation.params))
        wait = leaving.step(sorted(left))
        used = [lane_id for lane_id, servers_inside in inside.items() if servers_inside]
        kept = {_PREPARED: _prepared(reservation), _USED: used}
        return dataclasses.replace(wait, progress={**(wait.progress or {}), **kept})

    def used_units(self, reservation: 'Reservation') -> Collection[int]:
        used = (reservation.progress or {}).get(_USED)
        return {
            each.unit_id
            for each in reservation.allocations
            if used is None or lane_of(each) in used
        }


def lane_of(allocation: 'Allocation') -> str:
    """Return the id of the lane by which servers of an allocation enter."""
    return str(allocation.unit['lane_ids'][allocation.lane])


def _lanes_of(reservation: 'Reservation') -> set[str]:
    return {lane_of(each) for each in reservation.allocations}


def _prepared(reservation: 'Reservation') -> dict[str, int | None]:
    """Return the lanes that were prepared, with their generations; None: it was in use."""
    return dict((reservation.progress or {}).get(_PREPARED, {}))


def _evacuate(conn: 'connection.Connection', server_id: str, host: str) -> bool:
    """Evacuate a server from a host that failed; tell whether it is still there."""
    try:
        server = servers.get(conn, server_id)
        if server['OS-EXT-SRV-ATTR:host'] != host:
            return False
        if server['OS-EXT-STS:task_state'] is None:
            servers.act(conn, server_id, 'evacuate', {})
    except errors.Gone:
        # A migration holds a slot, too, by an id of its own.
        return False
    return True
