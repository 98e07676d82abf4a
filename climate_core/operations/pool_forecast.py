# SPDX-License-Identifier: Apache-2.0
"""Read what leases take, and free, of what everybody uses, for :mod:`.forecasting`."""

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from climate_common import dates, microseconds, resource_types
from climate_core import exceptions
from climate_core.calendar.windows import SearchBudget
from climate_core.cloud import errors as cloud_errors
from climate_core.cloud import flavors
from climate_core.context import RequestContext
from climate_core.db import forecast_reads
from climate_core.db.engine import Database
from climate_core.lease import model, states
from climate_core.lease.changes.update import moved_date
from climate_core.lease.model import PREPARE, Lease, Reservation
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field
from climate_core.operations.draft import Draft
from climate_core.operations.services import UserConnector
from climate_core.plugins.common_pool.forecast import (
    MAX_SEARCH_STEPS,
    Forecast,
    FutureDemand,
    NotExpected,
    Nouns,
    Release,
)
from climate_core.plugins.common_pool.server_placement import RunningServer, TargetHost
from climate_core.plugins.server import host_capacity
from climate_core.plugins.server.host_capacity import CommonHostCapacity
from climate_core.plugins.volume.backend_capacity import BackendCapacity

#: How long what gives way is thought to take to leave its host.
PREEMPTION_TIME: Final = datetime.timedelta(minutes=5)
#: End actions after which a host has what a server had of it.
_FREEING_ACTIONS: Final = frozenset({'delete', 'shelve', 'create_image'})


class PoolCapacity(Protocol):
    """The room that is free now for the resources of one type."""

    @property
    def nouns(self) -> Nouns:
        """Return how users are told of it."""

    @property
    def hosts(self) -> Sequence[TargetHost]:
        """Return what has room; for all that was demanded."""

    @property
    def places(self) -> Mapping[str, str]:
        """Return where each resource is that is there, by its id, as far as that is known."""

    def demand(
        self, name: str, params: Mapping[str, object], amounts: Mapping[str, int]
    ) -> RunningServer:
        """Return what is taken by a resource that is to be made for a reservation.

        :param name: its id in the forecast
        :raises climate_core.exceptions.BadRequest: that is not known
        """

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """Return what becomes free with a resource of these amounts."""


def read_demand(room: PoolCapacity, reservation: model.Reservation) -> RunningServer:
    """Return what a reservation takes, also one of a lease that waits, which holds nothing."""
    return _read_demand(room, reservation.id, reservation)


def _read_demand(
    room: PoolCapacity, name: str, wanted: model.Reservation | forecast_reads.PlannedResource
) -> RunningServer:
    held = wanted.amounts or wanted.params.get(model.HOLDS) or {}
    return room.demand(name, wanted.params, held)


def list_demanded_types(reservation: model.Reservation) -> set[str]:
    """Return the types of what needs room when the resource of a reservation is made."""
    parts = reservation.parts
    return {reservation.resource_type} if parts is None else {*parts}


def list_demands(
    room: PoolCapacity, reservation: model.Reservation, resource_type: str
) -> list[RunningServer]:
    """Return what a reservation takes of the room for a type: itself, or what is in it.

    :raises climate_core.exceptions.BadRequest: what is in it is not known
    """
    if reservation.parts is None:
        return [read_demand(room, reservation)]
    inside = reservation.parts.get(resource_type, ())
    unknown = next((each[model.UNKNOWN] for each in inside if model.UNKNOWN in each), None)
    if unknown is not None:
        raise exceptions.BadRequest(
            f'The {unknown} is known only when the stack is made, so nobody can tell whether '
            'there will be room: write it into the template or its parameters, or ask for a lease '
            'of the kind immediate.',
            field='template',
        )
    return [room.demand(f'{reservation.id}.{n}', each, {}) for n, each in enumerate(inside)]


def read_future_demands(
    database: Database, resource_type: str, room: PoolCapacity
) -> dict[str, FutureDemand]:
    """Return what leases will take that is not made yet, or not woken again, by their ids."""
    found = {}
    for lease_id, wanted in database.read(forecast_reads.read_planned, resource_type).items():
        servers = []
        for number, each in enumerate(wanted):
            # What is not known, as of a flavor that is gone, cannot be counted.
            with contextlib.suppress(exceptions.BadRequest):
                if each.resource_id not in room.places:
                    name = f'{lease_id}.{number}'
                    servers.append(_read_demand(room, name, each))
        if servers:
            start, end = (
                microseconds.to_microseconds(wanted[0].start),
                microseconds.to_microseconds(wanted[0].end),
            )
            found[lease_id] = FutureDemand(start=start, end=end, servers=servers)
    return found


def read_releases(database: Database, resource_type: str, room: PoolCapacity) -> list[Release]:
    """Return what leases free: at their ends, or when they give way to another one."""
    places = room.places
    if not places:
        return []
    return [
        Release(
            at=microseconds.to_microseconds(
                end.at if end.given_up_at is None else end.given_up_at + PREEMPTION_TIME
            ),
            host=places[end.resource_id],
            amounts=room.released(end.amounts),
        )
        for end in database.read(forecast_reads.read_ends, resource_type)
        if end.resource_id in places
        if end.given_up_at is not None or end.on_end in _FREEING_ACTIONS
    ]


if TYPE_CHECKING:
    from climate_core.cloud import connections

#: How far ahead a time is searched at which there would be enough.
_SEARCH_AHEAD: Final = datetime.timedelta(days=30)


def check_draft(
    database: Database,
    cloud: UserConnector | None,
    context: RequestContext,
    draft: Draft,
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Refuse what is to be made, but not in any case now, if it will find no room.

    Nothing is asked for a draft that has nothing to be made.

    :param cloud: None: nobody can tell
    :raises climate_core.exceptions.NotEnough: see :func:`check`
    :raises climate_core.exceptions.ClimateError: see :func:`read_servers`
    """
    if draft.lease.kind not in (states.LeaseKind.SCHEDULED, states.LeaseKind.RETRY):
        return
    start, end = max(draft.lease.start_date, draft.now), draft.lease.end_date
    expectation = PoolForecast(database, cloud)
    servers = {
        f'{item.field}.server' if item.field else 'server': item.values['server']
        for item in draft.items
        if item.reservation in _find_unmade(draft, resource_types.SERVER)
    }
    if servers:
        with errors.collected():
            forecast = expectation.forecast()
            assert cloud is not None, 'it told what is free'  # nosec B101 # for mypy: it holds already
            field = next(iter(servers)) if len(servers) == 1 else 'reservations'
            check_servers(
                forecast, read_server_demands(cloud, context, servers), start, end, field
            )
    stacks = [item for item in draft.items if item.reservation.parts]
    if stacks:
        with errors.collected(), prefix_field(stacks[0].field):
            made = find_unmade(item.reservation for item in draft.items)
            wanted = [*made, *(item.reservation for item in stacks)]
            expectation.take(wanted, start, end, 'template')
        return
    volumes = _find_unmade(draft, resource_types.VOLUME)
    if volumes:
        with errors.collected():
            expectation.take(volumes, start, end)


def check_immediate(
    database: Database, cloud: UserConnector | None, draft: Draft, errors: ErrorCollector
) -> None:
    """Refuse in a dry run what would be made at once, if it is not expected to find room.

    A create leaves that to Nova and Cinder, which do not look at what scheduled leases will take:
    nor does this. Nothing is refused where nobody can tell.
    """
    made = find_unmade(each.reservation for each in draft.items)
    if cloud is None or not made or draft.lease.kind != states.LeaseKind.IMMEDIATE:
        return
    with errors.collected():
        PoolForecast(database, cloud, alone=True).take(made, draft.now, draft.lease.end_date)


def _find_unmade(draft: Draft, resource_type: str) -> list[Reservation]:
    found = find_unmade(item.reservation for item in draft.items)
    return [each for each in found if each.resource_type == resource_type]


def needs_forecast(before: Lease, after: Lease) -> bool:
    """Return whether a change of dates is granted only if the forecast has capacity then."""
    moved = moved_date(before, after) is not None and after.status not in states.UNGRANTED
    return bool(moved and after.kind == states.LeaseKind.SCHEDULED and _find_later(after))


def check_moved(
    database: Database,
    cloud: UserConnector | None,
    before: Lease,
    after: Lease,
    now: datetime.datetime,
) -> None:
    """Reject new dates of resources that are not created yet if there is no capacity then.

    :param before: the lease, whose dates move, see :func:`needs_forecast`
    :param cloud: None: nobody can tell
    :raises climate_core.exceptions.NotEnough: see :func:`check_servers`
    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
    """
    field = moved_date(before, after)
    assert field is not None, 'the forecast is needed because a date moves'  # nosec B101 # for mypy: it holds already
    forecast = PoolForecast(database, cloud, without=before.id)
    forecast.take(_find_later(after), max(after.start_date, now), after.end_date, field)


def find_unmade(reservations: Iterable[Reservation]) -> list[Reservation]:
    """Return those whose resources are made for the lease, and are not there yet."""
    return [each for each in reservations if each.group and not each.is_made]


def _find_later(lease: Lease) -> list[Reservation]:
    """Return those of a scheduled lease that are to be made, or filled as a stack."""
    waits = states.EventStatus.UNDONE
    unfilled = {e.reservation_id for e in lease.events_of(PREPARE) if e.status == waits}
    stacks = [
        each for each in lease.live if each.parts and each.progress is None and each.id in unfilled
    ]
    return [*find_unmade(lease.live), *stacks]


def find_unplaced(lease: Lease) -> list[Reservation]:
    """Return those of a lease that waits which need room: to be made, or to be woken again."""
    asleep = (each for each in lease.live if each.status == states.ReservationStatus.PENDING)
    return [
        each
        for each in asleep
        if each.unit_kind is None and each.resource_type in _CAPACITY_READERS
    ]


def read_server_demands(
    cloud: UserConnector, context: RequestContext, wanted: Mapping[str, Mapping[str, Any]]
) -> list[RunningServer]:
    """Return what servers take of their hosts.

    :param wanted: by the field of the request that has it: ``flavorRef``, perhaps ``count``, and
        what they boot from
    :raises climate_core.exceptions.ClimateError: there is no such flavor, or what its servers need
        cannot be told; naming the field
    """
    found: list[RunningServer] = []
    for number, (place, each) in enumerate(wanted.items()):
        field = f'{place}.flavorRef'
        with cloud_errors.for_user(field):
            flavor = flavors.get(cloud.user(context), each['flavorRef'])
            if 'extra_specs' not in flavor:
                # The user may see the flavor, but not these.
                flavor = flavors.get(cloud.service(), each['flavorRef'])
        try:
            one = host_capacity.demand_of_flavor(flavor, each)
        except exceptions.BadRequest as exc:
            told = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(f'{field}: {told}', field=field) from exc
        count = each.get('count', 1)
        found += [dataclasses.replace(one, id=f'{number}.{n}') for n in range(count)]
    return found


def check_servers(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    start: datetime.datetime,
    end: datetime.datetime,
    field: str = 'reservations',
) -> None:
    """Check that servers will find room for all of a time.

    :raises climate_core.exceptions.NotEnough: they will not; with the reason, and with the
        earliest time that would do if the search found it
    """
    first, last = microseconds.to_microseconds(start), microseconds.to_microseconds(end)
    try:
        forecast.check(FutureDemand(start=first, end=last, servers=servers))
    except NotExpected as exc:
        ahead = last + microseconds.delta_to_microseconds(_SEARCH_AHEAD)
        windows = forecast.windows(servers, last - first, first, ahead)
        later = next((microseconds.from_microseconds(each) for each, _ in windows), None)
        told = f'{field}: {exc}'
        if later is None:
            raise exceptions.NotEnough(told, field) from exc
        told += f' It would do from {dates.sentence(later)} on.'
        raise exceptions.NotEnough(told, field, dates.serialize(later)) from exc


def find_server_windows(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    length: datetime.timedelta,
    earliest: datetime.datetime,
    latest: datetime.datetime,
    limit: int,
) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Return the earliest windows in which servers will find room; so many at most."""
    found = forecast.windows(
        servers,
        microseconds.delta_to_microseconds(length),
        microseconds.to_microseconds(earliest),
        microseconds.to_microseconds(latest),
    )
    for start, end in itertools.islice(found, limit):
        yield microseconds.from_microseconds(start), microseconds.from_microseconds(end)


_CAPACITY_READERS: Final[Mapping[str, Callable[['connections.Connection'], PoolCapacity]]] = {
    resource_types.SERVER: CommonHostCapacity,
    resource_types.VOLUME: BackendCapacity,
}


@dataclasses.dataclass
class PoolForecast:
    """The expectation for the common pool, as it is now; read when it is needed.

    :ivar without: the id of a lease that is to take nothing
    :ivar alone: whether no lease is to take anything
    :ivar budget: of the searches for a later time; they share it
    :raises climate_core.exceptions.ServiceUnavailable: nobody tells what is free
    """

    database: Database
    cloud: UserConnector | None
    without: str | None = None
    alone: bool = False
    budget: SearchBudget = dataclasses.field(
        default_factory=lambda: SearchBudget(MAX_SEARCH_STEPS)
    )
    _rooms: dict[str, PoolCapacity] = dataclasses.field(default_factory=dict)
    _forecasts: dict[str, Forecast] = dataclasses.field(default_factory=dict)

    def forecast(self, resource_type: str = resource_types.SERVER) -> Forecast:
        """Return the forecast for resources of a type.

        :raises climate_core.exceptions.ServiceUnavailable: the cloud does not answer
        """
        self._room(resource_type)
        forecast = self._forecasts[resource_type]
        forecast.budget = self.budget
        return forecast

    def take(
        self,
        reservations: Sequence[Reservation],
        start: datetime.datetime,
        end: datetime.datetime,
        field: str = 'reservations',
    ) -> None:
        """Expect room for what is to be made for a lease; others get it no more.

        :param field: of the request that asks for it
        :raises climate_core.exceptions.NotEnough: there will not be enough
        :raises climate_core.exceptions.BadRequest: what a template needs is not known
        :raises climate_core.exceptions.ServiceUnavailable: the cloud does not answer
        """
        first, last = microseconds.to_microseconds(start), microseconds.to_microseconds(end)
        taken: dict[str, FutureDemand] = {}
        types = {one for each in reservations for one in list_demanded_types(each)}
        for resource_type in sorted(types):
            ours = [each for each in reservations if resource_type in list_demanded_types(each)]
            room = self._room(resource_type)
            with require_cloud():
                found = (list_demands(room, each, resource_type) for each in ours)
                wanted = [*itertools.chain.from_iterable(found)]
            check_servers(self.forecast(resource_type), wanted, start, end, field)
            taken[resource_type] = FutureDemand(start=first, end=last, servers=wanted)
        for resource_type, demand in taken.items():
            self._forecasts[resource_type].add(demand)

    def keep(
        self,
        reservations: Sequence[Reservation],
        start: datetime.datetime,
        end: datetime.datetime,
        later: str | None,
    ) -> None:
        """Keep the earliest room that there will be for what finds none now, if that is known.

        :param later: when there will be enough of what there was too little of first
        """
        # Of several types each may be what there is too little of then.
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

    def _room(self, resource_type: str) -> PoolCapacity:
        if resource_type not in self._rooms:
            if self.cloud is None:
                raise exceptions.ServiceUnavailable('Nobody tells what is free in the cloud.')
            with require_cloud():
                room = _CAPACITY_READERS[resource_type](self.cloud.service())
                claims = read_future_demands(self.database, resource_type, room)
                claims.pop(self.without or '', None)
                releases = read_releases(self.database, resource_type, room)
            taken = [] if self.alone else claims.values()
            self._forecasts[resource_type] = Forecast(room.hosts, releases, taken, room.nouns)
            self._rooms[resource_type] = room
        return self._rooms[resource_type]


@contextlib.contextmanager
def require_cloud() -> Iterator[None]:
    """Raise ServiceUnavailable if the cloud does not answer."""
    try:
        yield
    except exceptions.BadRequest:
        raise
    except cloud_errors.EXPECTED as exc:
        raise exceptions.ServiceUnavailable(str(exc)) from exc
