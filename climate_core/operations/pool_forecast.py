# SPDX-License-Identifier: Apache-2.0
"""Forecast whether the common pool has capacity for servers and volumes to be created.

Placement or Cinder report what is free. The database and Nova report what leases release at their
ends, and on which hosts, and what they take at their starts. The number of requests does not
depend on the number of hosts. The result is expected, never guaranteed.
"""

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from climate_common import dates, resource_types
from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.cloud.errors import for_user, require_services
from climate_core.cloud.servers import get_flavor
from climate_core.concurrency import SearchBudget
from climate_core.context import RequestContext
from climate_core.db import forecast_reads
from climate_core.db.engine import Database
from climate_core.lease import model, states
from climate_core.lease.model import Lease, Reservation
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field
from climate_core.operations.draft import Draft
from climate_core.operations.services import Services
from climate_core.plugins import pool_capacity
from climate_core.plugins.forecast import (
    MAX_SEARCH_STEPS,
    Forecast,
    FutureDemand,
    NotExpected,
    Release,
)
from climate_core.plugins.pool_capacity import BackendCapacity, CommonHostCapacity
from climate_core.plugins.server_placement import RunningServer

#: The capacity of the common pool that is free now for the resources of a type.
PoolCapacity = CommonHostCapacity | BackendCapacity
#: Stacks have parts of these types whether or not their plugins are enabled.
_CAPACITY_READERS: Final[dict[str, type[PoolCapacity]]] = {
    resource_types.SERVER: CommonHostCapacity,
    resource_types.VOLUME: BackendCapacity,
}
#: How far ahead the forecast searches for a later start.
_SEARCH_AHEAD: Final = datetime.timedelta(days=30)
#: How long a preempted server is expected to take to leave its host.
PREEMPTION_TIME: Final = datetime.timedelta(minutes=5)


def read_demand(
    pool: PoolCapacity, name: str, reservation: Reservation | forecast_reads.PlannedResource
) -> RunningServer:
    """Return the demand of a reservation, also of a queued lease, which claims nothing.

    :param name: its id in the forecast
    """
    held = reservation.amounts or reservation.params.get(model.HOLDS) or {}
    return pool.demand(name, reservation.params, held)


def list_demanded_types(reservation: Reservation) -> set[str]:
    """Return the types of resources that need capacity when a reservation is created."""
    parts = reservation.parts
    return {reservation.resource_type} if parts is None else {*parts}


def list_demands(
    pool: PoolCapacity, reservation: Reservation, resource_type: str
) -> list[RunningServer]:
    """Return the demands of a reservation for resources of a type: its own, or of its stack.

    :raises climate_core.exceptions.BadRequest: the content of the stack is not known
    """
    if reservation.parts is None:
        return [read_demand(pool, reservation.id, reservation)]
    inside = reservation.parts.get(resource_type, ())
    unknown = next((each[model.UNKNOWN] for each in inside if model.UNKNOWN in each), None)
    if unknown is not None:
        raise exceptions.BadRequest(
            f'The {unknown} is known only when the stack is created, so capacity cannot be '
            'checked before: write it into the template or its parameters, or request a lease '
            'of the kind immediate.',
            field='template',
        )
    return [pool.demand(f'{reservation.id}.{n}', each, {}) for n, each in enumerate(inside)]


def read_future_demands(
    database: Database, resource_type: str, pool: PoolCapacity
) -> dict[str, FutureDemand]:
    """Return the demands of resources to be created or restarted, by the ids of their leases."""
    found = {}
    for lease_id, wanted in database.read(forecast_reads.read_planned, resource_type).items():
        servers = []
        for number, each in enumerate(wanted):
            # An unknown demand, as of a deleted flavor, cannot be counted.
            with contextlib.suppress(exceptions.BadRequest):
                if each.resource_id not in pool.places:
                    name = f'{lease_id}.{number}'
                    servers.append(read_demand(pool, name, each))
        if servers:
            start, end = (
                dates.to_microseconds(wanted[0].start),
                dates.to_microseconds(wanted[0].end),
            )
            found[lease_id] = FutureDemand(start=start, end=end, servers=servers)
    return found


def read_releases(database: Database, resource_type: str, pool: PoolCapacity) -> list[Release]:
    """Return the capacity that leases release: at their ends, or when they are preempted."""
    places = pool.places
    if not places:
        return []
    return [
        Release(
            at=dates.to_microseconds(
                end.at if end.given_up_at is None else end.given_up_at + PREEMPTION_TIME
            ),
            host=places[end.resource_id],
            amounts=pool.released(end.amounts),
        )
        for end in database.read(forecast_reads.read_ends, resource_type)
        if end.resource_id in places
        if end.given_up_at is not None or end.on_end in resource_types.FREEING_END_ACTIONS
    ]


def check_draft(
    services: Services,
    context: RequestContext,
    draft: Draft,
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Reject a draft that needs a forecast if the pool will have no capacity for its resources.

    :raises climate_core.exceptions.NotEnough: see :func:`check_servers`
    :raises climate_core.exceptions.ClimateError: see :func:`read_server_demands`
    """
    start, end = max(draft.lease.start_date, draft.now), draft.lease.end_date
    pool = PoolForecast(services.database, services.cloud)
    unmade = [item.reservation for item in draft.items if item.reservation.is_uncreated]
    servers = {
        f'{item.field}.server' if item.field else 'server': item.values['server']
        for item in draft.items
        if item.reservation.resource_type == resource_types.SERVER and item.reservation in unmade
    }
    if servers:
        with errors.collected():
            forecast = pool.forecast()
            demands = read_server_demands(services.cloud, context, servers)
            field = next(iter(servers)) if len(servers) == 1 else 'reservations'
            check_servers(forecast, demands, start, end, field)
    stacks = [item for item in draft.items if item.reservation.parts]
    if stacks:
        with errors.collected(), prefix_field(stacks[0].field):
            wanted = [*unmade, *(item.reservation for item in stacks)]
            pool.take(wanted, start, end, 'template')
        return
    volumes = [each for each in unmade if each.resource_type == resource_types.VOLUME]
    if volumes:
        with errors.collected():
            pool.take(volumes, start, end)


def check_immediate(services: Services, draft: Draft, errors: ErrorCollector) -> None:
    """Reject in a dry run resources to be created immediately if the pool has no capacity.

    A create leaves that to Nova and Cinder. They ignore the demands of scheduled leases, and so
    does this.
    """
    made = [item.reservation for item in draft.items if item.reservation.is_uncreated]
    if not made or draft.lease.kind != states.LeaseKind.IMMEDIATE:
        return
    with errors.collected():
        pool = PoolForecast(services.database, services.cloud, alone=True)
        pool.take(made, draft.now, draft.lease.end_date)


def find_unplaced(lease: Lease) -> list[Reservation]:
    """Return the reservations of a queued lease that need capacity of the pool."""
    asleep = (each for each in lease.live if each.status == states.ReservationStatus.PENDING)
    return [
        each
        for each in asleep
        if each.unit_kind is None and each.resource_type in _CAPACITY_READERS
    ]


def read_server_demands(
    cloud: Cloud, context: RequestContext, wanted: Mapping[str, Mapping[str, Any]]
) -> list[RunningServer]:
    """Return the demands of servers.

    :param wanted: ``flavorRef``, perhaps ``count``, and what the servers boot from, by the field
        of the request
    :raises climate_core.exceptions.ClimateError: there is no such flavor, or the demand of its
        servers is not known; naming the field
    """
    found: list[RunningServer] = []
    for number, (place, each) in enumerate(wanted.items()):
        field = f'{place}.flavorRef'
        with for_user(field):
            flavor = get_flavor(cloud.user(context), each['flavorRef'])
            if 'extra_specs' not in flavor:
                # The user may read the flavor, but not its extra specs.
                flavor = get_flavor(cloud.service(), each['flavorRef'])
        try:
            server = pool_capacity.demand_of_flavor(flavor, each)
        except exceptions.BadRequest as exc:
            message = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(f'{field}: {message}', field=field) from exc
        count = each.get('count', 1)
        found += [dataclasses.replace(server, id=f'{number}.{n}') for n in range(count)]
    return found


def check_servers(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    start: datetime.datetime,
    end: datetime.datetime,
    field: str = 'reservations',
) -> None:
    """Check that the pool will have capacity for servers from start to end.

    :raises climate_core.exceptions.NotEnough: it will not; with the reason, and with the earliest
        possible start if the search found one
    """
    first, last = dates.to_microseconds(start), dates.to_microseconds(end)
    try:
        forecast.check(FutureDemand(start=first, end=last, servers=servers))
    except NotExpected as exc:
        ahead = last + dates.delta_to_microseconds(_SEARCH_AHEAD)
        windows = forecast.windows(servers, last - first, first, ahead)
        later = next((dates.from_microseconds(each) for each, _ in windows), None)
        message = f'{field}: {exc}'
        if later is None:
            raise exceptions.NotEnough(message, field) from exc
        message += f' Capacity is expected from {dates.sentence(later)} on.'
        raise exceptions.NotEnough(message, field, dates.serialize(later)) from exc


def find_server_windows(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    length: datetime.timedelta,
    earliest: datetime.datetime,
    latest: datetime.datetime,
    limit: int,
) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Return the earliest windows in which the pool will have capacity for servers."""
    found = forecast.windows(
        servers,
        dates.delta_to_microseconds(length),
        dates.to_microseconds(earliest),
        dates.to_microseconds(latest),
    )
    for start, end in itertools.islice(found, limit):
        yield dates.from_microseconds(start), dates.from_microseconds(end)


@dataclasses.dataclass
class PoolForecast:
    """The forecast for the common pool, as it is now; read when it is needed.

    :ivar without: the id of a lease whose demand is ignored
    :ivar alone: whether the demands of all leases are ignored
    :ivar budget: of all searches for a later start
    :raises climate_core.exceptions.ServiceUnavailable: no service reports what is free
    """

    database: Database
    cloud: Cloud | None
    without: str | None = None
    alone: bool = False
    budget: SearchBudget = dataclasses.field(
        default_factory=lambda: SearchBudget(MAX_SEARCH_STEPS)
    )
    _pools: dict[str, tuple[PoolCapacity, Forecast]] = dataclasses.field(default_factory=dict)

    def forecast(self, resource_type: str = resource_types.SERVER) -> Forecast:
        """Return the forecast for resources of a type.

        :raises climate_core.exceptions.ServiceUnavailable: the cloud does not answer
        """
        return self._read_pool(resource_type)[1]

    def take(
        self,
        reservations: Sequence[Reservation],
        start: datetime.datetime,
        end: datetime.datetime,
        field: str = 'reservations',
    ) -> None:
        """Take capacity for the resources to be created for a lease from the forecast.

        :param field: the field of the request
        :raises climate_core.exceptions.NotEnough: there will be no sufficient capacity
        :raises climate_core.exceptions.BadRequest: the demand of a template is not known
        :raises climate_core.exceptions.ServiceUnavailable: the cloud does not answer
        """
        first, last = dates.to_microseconds(start), dates.to_microseconds(end)
        taken: list[tuple[Forecast, FutureDemand]] = []
        types = {name for each in reservations for name in list_demanded_types(each)}
        for resource_type in sorted(types):
            ours = [each for each in reservations if resource_type in list_demanded_types(each)]
            pool, forecast = self._read_pool(resource_type)
            with require_services():
                found = (list_demands(pool, each, resource_type) for each in ours)
                wanted = [*itertools.chain.from_iterable(found)]
            check_servers(forecast, wanted, start, end, field)
            taken.append((forecast, FutureDemand(start=first, end=last, servers=wanted)))
        for forecast, demand in taken:
            forecast.add(demand)

    def keep(
        self,
        reservations: Sequence[Reservation],
        start: datetime.datetime,
        end: datetime.datetime,
        later: str | None,
    ) -> None:
        """Take the earliest capacity for resources that have none now, if that is known.

        :param later: when there will be capacity for the first type that lacked it
        """
        # Each of several types may lack capacity then.
        for _ in _CAPACITY_READERS:
            if later is None:
                return
            begin = dates.parse(later, start)
            try:
                self.take(reservations, begin, begin + (end - start))
            except exceptions.NotEnough as exc:
                later = exc.available_from
            else:
                return

    def _read_pool(self, resource_type: str) -> tuple[PoolCapacity, Forecast]:
        if resource_type not in self._pools:
            if self.cloud is None:
                raise exceptions.ServiceUnavailable('The capacity of the cloud is unknown.')
            with require_services():
                pool = _CAPACITY_READERS[resource_type](self.cloud.service())
                claims = read_future_demands(self.database, resource_type, pool)
                claims.pop(self.without or '', None)
                releases = read_releases(self.database, resource_type, pool)
            taken = [] if self.alone else claims.values()
            self._pools[resource_type] = pool, Forecast(pool.hosts, releases, taken, pool.nouns)
        pool, forecast = self._pools[resource_type]
        forecast.budget = self.budget
        return pool, forecast
