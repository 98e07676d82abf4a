# SPDX-License-Identifier: Apache-2.0
"""``physical:host``: whole compute hosts for one project, promised by the calendar.

At the start a lane of each host is opened: from then on nova-scheduler lets servers of the project
in that name the reservation. At the end the lane is closed, and the servers are deleted that are
still there. Nova and Placement are asked with the rights of the service: hosts are nobody's.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_common import amounts, lanes, resource_types
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

#: The most hosts of one reservation.
_MOST = 10_000
#: Seconds until the next look at servers that are being deleted.
_LOOK = 1.0

#: What Blazar's clients expect of each reservation of hosts.
_BLAZAR = ('hypervisor_properties', 'resource_properties')
_NUMBER = {'type': 'integer', 'minimum': 1, 'maximum': _MOST}


class HostPlugin(base.ResourcePlugin):
    """Reserve hosts."""

    resource_type = resource_types.HOST
    title = 'Host'
    description = 'Whole compute hosts of a pool, for the servers of one project alone.'
    options = (
        cfg.StrOpt(
            'order',
            default=str(Order.FIT),
            choices=[str(each) for each in Order],
            help='Which of the hosts that are free are taken first: those whose gap in the '
            'calendar is the smallest (fit), those with the least (pack) or the most (spread) '
            'room left, or any (random).',
        ),
        cfg.IntOpt(
            'cleaning_seconds',
            default=0,
            min=0,
            help='How long a host is kept free after each lease.',
        ),
    )
    schema: ClassVar[Mapping[str, Any]] = {
        'min': {**_NUMBER, 'description': 'So many hosts at least, or none. By default 1.'},
        'max': {**_NUMBER, 'description': 'So many hosts if they are free. By default min.'},
        **filters.SCHEMA,
        'on_end': {
            'type': 'string',
            'enum': list(resource_types.ON_END[resource_types.HOST]),
            'description': 'What happens at the end to the servers on the hosts.',
        },
        'before_end': {
            'type': ['string', 'null'],
            'description': "Taken for Blazar's clients; the lease has before_end_date.",
        },
    }
    changeable = ('min', 'max', *filters.SCHEMA)
    # Servers run on hosts: hosts are there before them, and are closed after them.
    rank = 5

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:  # noqa: ARG002
        params = _params(values)
        held = {amounts.HOSTS: self._demand(params).most}
        # The calendar has no id for what it promises: a reservation is found by its own.
        return Claimed(uuidutils.generate_uuid(), params, held, unit_kind=KIND)

    def matches_request(self, reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
        return dict(reservation.params) == _params(values)

    def wanted(self, reservation: 'Reservation') -> Wanted:
        options = self.conf[self.resource_type]
        return Wanted(
            reservation_id=reservation.id,
            demand=self._demand(reservation.params),
            field='min',
            noun='hosts',
            after=datetime.timedelta(seconds=options.cleaning_seconds),
        )

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        least, most = params['min'], params['max']
        if most < least:
            raise exceptions.BadRequest(
                f'max: must be at least min, which is {least}, not {most}.', field='max'
            )
        accepts, names = filters.compile_filter(params)
        pool = params.get('pool')

        def matches(unit: Unit) -> bool:
            return (not pool or unit.pool == pool) and accepts(unit.properties)

        order = Order(self.conf[self.resource_type].order)
        return Demand(kind=KIND, least=least, most=most, matches=matches, names=names, order=order)

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        """Open a lane of each host, once the host is empty.

        :raises climate_core.exceptions.Permanent: the calendar promises it no host
        """
        conn = self.cloud.service()
        if not reservation.allocations:
            raise exceptions.Permanent('No host is promised to this reservation.')
        aggregates = [lanes.host_aggregate(reservation.id, lease.project_id)]
        waits = [self._open(conn, each, aggregates) for each in reservation.allocations]
        return next((each for each in waits if each is not None), None)

    def _open(
        self, conn: 'connection.Connection', allocation: 'Allocation', aggregates: Sequence[str]
    ) -> Wait | None:
        lane_id = _lane(allocation)
        left = placement.list_consumers(conn, allocation.unit['provider_id'])
        # What is there may have come by this lane: it was opened by a manager that died then.
        if left and placement.get_lane_aggregates(conn, lane_id) != {*aggregates}:
            name = allocation.unit['hypervisor_hostname']
            return Wait(_LOOK, f'Host {name} still has {len(left)} servers of an earlier lease.')
        placement.set_lane_aggregates(conn, lane_id, aggregates)
        placement.set_slots(conn, lane_id, placement.MAX_SLOTS, is_open=True)
        return None

    def end(
        self,
        lease: 'Lease',  # noqa: ARG002
        reservation: 'Reservation',
    ) -> Wait | None:
        """Close the lanes, and delete the servers that are in them."""
        conn = self.cloud.service()
        left: set[str] = set()
        for allocation in reservation.allocations:
            left.update(placement.close_lane(conn, _lane(allocation)))
        for server_id in sorted(left):
            self._delete(conn, server_id)
        if not left:
            return None
        return Wait(_LOOK, f'{len(left)} servers are still on the hosts of the reservation.')

    @staticmethod
    def _delete(conn: 'connection.Connection', server_id: str) -> None:
        try:
            servers.delete(conn, server_id)
        except errors.Gone:
            # A migration holds a slot, too, by an id of its own; it ends with its server.
            return


def _params(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a request, with the keys that Blazar's clients look for."""
    given = {name: each for name, each in values.items() if name in HostPlugin.schema}
    least = given.get('min', 1)
    usual = {'min': least, 'max': least, 'on_end': 'delete', **dict.fromkeys(_BLAZAR, '')}
    return usual | {name: each for name, each in given.items() if each is not None}


def _lane(allocation: 'Allocation') -> str:
    return str(allocation.unit['lane_ids'][allocation.lane])
