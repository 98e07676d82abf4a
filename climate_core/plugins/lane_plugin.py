# SPDX-License-Identifier: Apache-2.0
"""A reservation of hosts of the pools, or of shares of them, which the calendar promises.

At the start a lane of each host is opened: from then on nova-scheduler lets servers in that name
the reservation. At the end the lane is closed, and the servers are deleted that are still in it.
Nova and Placement are asked with the rights of the service: hosts are nobody's.
"""

import abc
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_common import lanes
from climate_core import exceptions
from climate_core.calendar.model import Demand, Order, Unit, Wanted
from climate_core.cloud import errors, placement, servers
from climate_core.lease.hosts import KIND
from climate_core.plugins import base
from climate_core.plugins.base import Claimed, Wait
from climate_core.plugins.host import filters

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
#: What a lease tells that waits for another one.
_KEPT: Final = (
    'Host {} is still open to an earlier lease. If that is over for long, an operator closes it '
    'by "climate-manage repair --yes".'
)
#: What Blazar's clients expect of each reservation of hosts.
BLAZAR: Final = ('hypervisor_properties', 'resource_properties')

OPTIONS: Final[Sequence[cfg.Opt]] = (
    cfg.StrOpt(
        'order',
        default=str(Order.FIT),
        choices=[str(each) for each in Order],
        help='Which of the hosts that are free are taken first: those whose gap in the calendar '
        'is the smallest (fit), those with the least (pack) or the most (spread) room left, or '
        'any (random).',
    ),
    cfg.IntOpt(
        'cleaning_seconds',
        default=0,
        min=0,
        help='How long what was reserved is kept free after each lease.',
    ),
)
#: What reservations of this kind have in common.
SCHEMA: Final[Mapping[str, Any]] = {
    **filters.SCHEMA,
    'share_with': {
        'type': 'array',
        'items': {'type': 'string', 'minLength': 1, 'maxLength': 255},
        'maxItems': 100,
        'description': 'Ids of other projects whose servers may enter, too.',
    },
    'matching': {
        'type': 'string',
        'enum': ['targeted', 'open'],
        'description': 'targeted: servers that name the reservation enter (default); open: those '
        'of its projects that name none, too, as long as there is room.',
    },
    'on_end': {
        'type': 'string',
        'enum': ['delete'],
        'description': 'What happens at the end to the servers that are there.',
    },
    'before_end': {
        'type': ['string', 'null'],
        'description': "Taken for Blazar's clients; the lease has before_end_date.",
    },
}


class LanePlugin(base.ResourcePlugin):
    """Reserve hosts, or shares of them.

    A subclass says what is promised, how many servers a lane has room for, and which.
    """

    #: The property that says how much is wanted, which is blamed if there is not so much.
    amount_field: ClassVar[str]
    #: What the calendar promises, for people.
    noun: ClassVar[str]
    options = OPTIONS
    # Servers run on hosts: hosts are there before them, and are closed after them.
    rank = 5

    @abc.abstractmethod
    def _read(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is kept of a request, checked with the rights of the user."""

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

    @abc.abstractmethod
    def _list_earlier(
        self, conn: 'connection.Connection', allocation: 'Allocation'
    ) -> Collection[str]:
        """List what has to leave a host before the lane can be opened."""

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        params = self._read(context, values)
        self._demand(params)
        # The calendar has no id for what it promises: a reservation is found by its own.
        resource_id = uuidutils.generate_uuid()
        return Claimed(resource_id, params, self.amounts(params), unit_kind=KIND)

    def wanted(self, reservation: 'Reservation') -> Wanted:
        options = self.conf[self.resource_type]
        return Wanted(
            reservation_id=reservation.id,
            demand=self._demand(reservation.params),
            field=self.amount_field,
            noun=self.noun,
            after=datetime.timedelta(seconds=options.cleaning_seconds),
        )

    def _common(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what all demands for hosts have in common, by the names of Demand."""
        accepts, names = filters.compile_filter(params)
        pool = params.get('pool')

        def matches(unit: Unit) -> bool:
            return (not pool or unit.pool == pool) and accepts(unit.properties)

        order = Order(self.conf[self.resource_type].order)
        return {'kind': KIND, 'matches': matches, 'names': names, 'order': order}

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Open a lane of each host, once the host is free.

        :raises climate_core.exceptions.Permanent: the calendar promises it no host
        """
        if not reservation.allocations:
            raise exceptions.Permanent('No host is promised to this reservation.')
        conn = self.cloud.service()
        params = reservation.params
        projects = [lease.project_id, *params.get('share_with', ())]
        aggregates = lanes.lane_aggregates(
            reservation.id,
            projects,
            self._shape(params),
            open_matching=params.get('matching') == 'open',
        )
        own = {
            lanes.reservation_aggregate(reservation.id),
            lanes.ended_aggregate(reservation.id),
        }
        waits = [self._open(conn, each, aggregates, own) for each in reservation.allocations]
        return next((each for each in waits if each is not None), None)

    def _open(
        self,
        conn: 'connection.Connection',
        allocation: 'Allocation',
        aggregates: Sequence[str],
        own: Collection[str],
    ) -> Wait | None:
        lane_id, name = lane_of(allocation), allocation.unit['hypervisor_hostname']
        try:
            present = placement.get_lane_aggregates(conn, lane_id)
            # What is there may have come by this lane: it was opened before.
            if present.isdisjoint(own):
                left = self._list_earlier(conn, allocation)
                if left:
                    told = f'Host {name} still has {len(left)} servers of an earlier lease.'
                    return Wait(LOOK, told)
                if present:
                    return Wait(LOOK, _KEPT.format(name))
            if present != {*aggregates}:
                placement.set_lane_aggregates(conn, lane_id, aggregates)
            placement.set_slots(conn, lane_id, self._slots(allocation), is_open=True)
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
            for server_id in placement.leave_lane(conn, lane_id, reservation.id)
        }
        wait = self.wake_up(lease, reservation)
        if wait is not None or not self.conf.hosts.evacuate:
            return wait
        there = [each for each, host in left.items() if _evacuate(conn, each, host)]
        told = f'{len(there)} servers are being evacuated from hosts that failed.'
        return Wait(_EVACUATE_LOOK, told) if there else None

    def end(
        self,
        lease: 'Lease',  # noqa: ARG002
        reservation: 'Reservation',
    ) -> Wait | None:
        """Close the lanes, and delete the servers that are in them."""
        conn = self.cloud.service()
        left: set[str] = set()
        had = (*reservation.allocations, *reservation.released)
        for lane_id in sorted({lane_of(each) for each in had}):
            left.update(placement.leave_lane(conn, lane_id, reservation.id))
        for server_id in sorted(left):
            _delete(conn, server_id)
        if not left:
            return None
        return Wait(LOOK, f'{len(left)} servers are still on the hosts of the reservation.')


def given(values: Mapping[str, Any], schema: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Return what a request says of a schema, the usual where it says nothing."""
    usual = {'on_end': 'delete', **dict.fromkeys(BLAZAR, ''), **usual}
    said = {name: values[name] for name in schema if values.get(name) is not None}
    return usual | said


def lane_of(allocation: 'Allocation') -> str:
    """Return the id of the lane by which servers of an allocation enter."""
    return str(allocation.unit['lane_ids'][allocation.lane])


def _evacuate(conn: 'connection.Connection', server_id: str, host: str) -> bool:
    """Have a server leave a host that failed; tell whether it is still there."""
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


def _delete(conn: 'connection.Connection', server_id: str) -> None:
    try:
        servers.delete(conn, server_id)
    except errors.Gone:
        # A migration holds a slot, too, by an id of its own; it ends with its server.
        return
