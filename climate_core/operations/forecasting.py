# SPDX-License-Identifier: Apache-2.0
"""Tell when servers that are not made yet will find room on the hosts that everybody uses.

What is free Placement says, in two calls; what leases free at their ends, and of which hosts, and
what others will take at their starts, the database and Nova say. Nothing is asked for a single
host. It is expected, and never guaranteed.
"""

import dataclasses
import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from climate_common import dates, resource_types
from climate_core import exceptions
from climate_core.calendar import moments
from climate_core.calendar.emptying import RunningServer
from climate_core.calendar.forecast import Forecast, FutureDemand, NotExpected, Release
from climate_core.cloud import errors as cloud_errors
from climate_core.cloud import flavors
from climate_core.context import RequestContext
from climate_core.db import reservations as db
from climate_core.db.engine import Database
from climate_core.lease import states
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector
from climate_core.operations.draft import Draft
from climate_core.plugins.server import room, specification

if TYPE_CHECKING:
    from openstack import connection

#: End actions after which a host has what a server had of it.
_FREES: Final = frozenset({'delete', 'shelve', 'create_image'})
#: How far ahead a time is searched at which there would be enough.
_AHEAD: Final = datetime.timedelta(days=30)


class UserConnector(Protocol):
    """Give connections with the rights of the service, and of a user."""

    def service(self) -> 'connection.Connection': ...
    def user(self, context: RequestContext) -> 'connection.Connection': ...


def admit(
    database: Database,
    cloud: UserConnector | None,
    context: RequestContext,
    draft: Draft,
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Refuse servers that are to be made at the start and will not find room then.

    Nothing is asked for a draft without such servers.

    :param cloud: None: nobody can tell
    :raises climate_core.exceptions.NotEnough: see :func:`check`
    :raises climate_core.exceptions.ClimateError: see :func:`read_servers`
    """
    if draft.lease.kind != states.LeaseKind.SCHEDULED:
        return
    made = {
        f'{item.field}.server' if item.field else 'server': item.values['server']
        for item in draft.items
        if item.reservation.group
    }
    if not made:
        return
    with errors.collected():
        if cloud is None:
            raise exceptions.ServiceUnavailable('Nobody tells what is free in the cloud.')
        servers = read_servers(cloud, context, made)
        field = next(iter(made)) if len(made) == 1 else 'reservations'
        start = max(draft.lease.start_date, draft.now)
        check(read(database, cloud), servers, start, draft.lease.end_date, field)


def read_servers(
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
            one = room.of_flavor(flavor, boots_from_volume=specification.boots_from_volume(each))
        except exceptions.BadRequest as exc:
            told = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(f'{field}: {told}', field=field) from exc
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
        up = room.hosts_up(conn)
        hosts = room.read(conn, up)
        return Forecast(hosts, _releases(database, up), _claims(database))
    except cloud_errors.EXPECTED as exc:
        raise exceptions.ServiceUnavailable(str(exc)) from exc


def _claims(database: Database) -> Iterator[FutureDemand]:
    """Give what scheduled leases will take whose servers are not made yet."""
    for lease_id, found in database.read(db.to_be_made, resource_types.SERVER).items():
        servers = [
            RunningServer(id=f'{lease_id}.{number}', amounts=room.by_class(each.amounts))
            for number, each in enumerate(found)
        ]
        yield FutureDemand(
            start=moments.moment(found[0].start), end=moments.moment(found[0].end), servers=servers
        )


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
                amounts=room.by_class(end.amounts),
            )
