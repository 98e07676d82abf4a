# SPDX-License-Identifier: Apache-2.0
"""Tell when servers that are not made yet will find room on the hosts that everybody uses.

What is free Placement says, in two calls; what leases free at their ends, and of which hosts, the
database and Nova say. Nothing is asked for a single host. It is expected, and never guaranteed.
"""

import dataclasses
import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from climate_common import amounts, dates, resource_types
from climate_core import exceptions
from climate_core.calendar import moments
from climate_core.calendar.emptying import RunningServer, TargetHost
from climate_core.calendar.forecast import Forecast, FutureDemand, NotExpected, Release
from climate_core.cloud import errors, flavors, hypervisors, placement
from climate_core.context import RequestContext
from climate_core.db import reservations as db
from climate_core.db.engine import Database
from climate_core.plugins.capacity import flavor_demand

if TYPE_CHECKING:
    from openstack import connection

_CLASSES: Final[Mapping[str, str]] = {
    amounts.VCPUS: 'VCPU',
    amounts.MEMORY_MB: 'MEMORY_MB',
    amounts.DISK_GB: 'DISK_GB',
}
#: End actions after which a host has what a server had of it.
_FREES: Final = frozenset({'delete', 'shelve', 'create_image'})
#: How far ahead a time is searched at which there would be enough.
_AHEAD: Final = datetime.timedelta(days=30)


class UserConnector(Protocol):
    """Give connections with the rights of the service, and of a user."""

    def service(self) -> 'connection.Connection': ...
    def user(self, context: RequestContext) -> 'connection.Connection': ...


def read_servers(
    cloud: UserConnector, context: RequestContext, wanted: Sequence[Mapping[str, Any]]
) -> list[RunningServer]:
    """Return what servers take of their hosts.

    :param wanted: each with ``flavorRef`` and ``count``
    :raises climate_core.exceptions.ClimateError: there is no such flavor, or what its servers need
        cannot be told; naming the field
    """
    found: list[RunningServer] = []
    for number, each in enumerate(wanted):
        field = f'reservations[{number}].server.flavorRef'
        with errors.for_user(field):
            flavor = flavors.get(cloud.user(context), each['flavorRef'])
            if 'extra_specs' not in flavor:
                # The user may see the flavor, but not these.
                flavor = flavors.get(cloud.service(), each['flavorRef'])
        try:
            demand = flavor_demand.read(flavor)
        except exceptions.BadRequest as exc:
            told = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(f'{field}: {told}', field=field) from exc
        one = RunningServer(
            id='',
            amounts=_by_class(demand.piece),
            required=demand.required,
            forbidden=demand.forbidden,
        )
        count = each.get('count', 1)
        found += [dataclasses.replace(one, id=f'{number}.{n}') for n in range(count)]
    return found


def check(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    start: datetime.datetime,
    end: datetime.datetime,
    field: str = 'reservations',
) -> None:
    """Check that servers will find room for all of a time.

    :raises climate_core.exceptions.NotEnough: they will not; with the reason, and with the
        earliest time that would do
    """
    first, last = moments.moment(start), moments.moment(end)
    try:
        forecast.check(FutureDemand(start=first, end=last, servers=servers))
    except NotExpected as exc:
        ahead = last + moments.duration(_AHEAD)
        windows = forecast.windows(servers, last - first, first, ahead)
        later = next((dates.serialize(moments.time_of(each)) for each, _ in windows), None)
        raise exceptions.NotEnough(f'{field}: {exc}', field, later) from exc


def find(
    forecast: Forecast,
    servers: Sequence[RunningServer],
    length: datetime.timedelta,
    earliest: datetime.datetime,
    latest: datetime.datetime,
    limit: int,
) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Return the earliest windows in which servers will find room; so many at most."""
    found = forecast.windows(
        servers, moments.duration(length), moments.moment(earliest), moments.moment(latest)
    )
    for start, end in itertools.islice(found, limit):
        yield moments.time_of(start), moments.time_of(end)


def read(database: Database, cloud: UserConnector) -> Forecast:
    """Return the forecast as it is now.

    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
    """
    try:
        conn = cloud.service()
        up = {
            each['id']: each
            for each in hypervisors.list_with_servers(conn)
            if (each['state'], each['status']) == ('up', 'enabled')
        }
        return Forecast(_hosts(conn, up), _releases(database, up))
    except errors.EXPECTED as exc:
        raise exceptions.ServiceUnavailable(str(exc)) from exc


def _hosts(conn: 'connection.Connection', up: Mapping[str, Any]) -> Iterator[TargetHost]:
    rooms = placement.find_targets(conn)
    for provider_id in placement.list_ordinary_roots(conn):
        if provider_id not in up:
            continue
        room = rooms.get(provider_id)
        if room is None:
            # Its memory is all used. What else is free there is of no use until a lease frees
            # memory.
            yield TargetHost(name=provider_id, free={}, traits=None)
            continue
        # What several of its providers have no server can take as a whole.
        whole = room.used.keys() - room.divided
        free = {kind: room.capacity[kind] - room.used[kind] for kind in whole}
        yield TargetHost(name=provider_id, free=free, traits=room.traits)


def _releases(database: Database, up: Mapping[str, Any]) -> Iterator[Release]:
    hosts: dict[str, str] = {}
    unclear: set[str] = set()
    for provider_id, each in up.items():
        for server in each.get('servers') or ():
            # Nova shows the servers of a nova-compute at each of its nodes.
            if hosts.setdefault(server['uuid'], provider_id) != provider_id:
                unclear.add(server['uuid'])
    for server_id in unclear:
        del hosts[server_id]
    for end in database.read(db.ends, resource_types.SERVER):
        if end.resource_id in hosts and end.on_end in _FREES:
            yield Release(
                at=moments.moment(end.at),
                host=hosts[end.resource_id],
                amounts=_by_class(end.amounts),
            )


def _by_class(found: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by resource classes; without what Placement does not count, as servers."""
    named = {_CLASSES.get(name, name): amount for name, amount in found.items()}
    return {name: amount for name, amount in named.items() if name.isupper()}
