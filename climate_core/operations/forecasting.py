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
from climate_core.lease.changes.update import moved_date
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector
from climate_core.lease.model import Lease, Reservation
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

    def service(self) -> 'connection.Connection':
        """Return the connection with the rights of the service."""

    def user(self, context: RequestContext) -> 'connection.Connection':
        """Return the connection with the rights of the user of a request."""


def admit(
    database: Database,
    cloud: UserConnector | None,
    context: RequestContext,
    draft: Draft,
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Refuse servers that are to be made, but not in any case now, if they will find no room.

    Nothing is asked for a draft without such servers.

    :param cloud: None: nobody can tell
    :raises climate_core.exceptions.NotEnough: see :func:`check`
    :raises climate_core.exceptions.ClimateError: see :func:`read_servers`
    """
    if draft.lease.kind not in (states.LeaseKind.SCHEDULED, states.LeaseKind.RETRY):
        return
    made = {
        f'{item.field}.server' if item.field else 'server': item.values['server']
        for item in draft.items
        if item.reservation.group
    }
    if not made:
        return
    with errors.collected():
        forecast = read(database, cloud)
        assert cloud is not None, 'it told what is free'
        servers = read_servers(cloud, context, made)
        field = next(iter(made)) if len(made) == 1 else 'reservations'
        start = max(draft.lease.start_date, draft.now)
        check(forecast, servers, start, draft.lease.end_date, field)


class NeedsForecast(Exception):
    """A change of dates is granted only if servers that are not made yet will find room then.

    :ivar before: the lease as it is
    :ivar after: the lease as it would be
    """

    def __init__(self, before: Lease, after: Lease) -> None:
        super().__init__(before.id)
        self.before = before
        self.after = after


def check_change(before: Lease, after: Lease) -> None:
    """Raise :class:`NeedsForecast` if a change has to be admitted. Nothing is asked."""
    moved = moved_date(before, after) is not None
    if moved and after.kind == states.LeaseKind.SCHEDULED and _to_make(after):
        raise NeedsForecast(before, after)


def admit_change(
    database: Database, cloud: UserConnector | None, needed: NeedsForecast, now: datetime.datetime
) -> None:
    """Refuse other dates of servers that are not made yet, if they will find no room then.

    :param cloud: None: nobody can tell
    :raises climate_core.exceptions.NotEnough: see :func:`check`
    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
    """
    before, after = needed.before, needed.after
    field = moved_date(before, after)
    assert field is not None, 'the forecast is needed because a date moves'
    expected = Expectation(database, cloud, without=before.id)
    expected.take(_to_make(after), max(after.start_date, now), after.end_date, field)


def _to_make(lease: Lease) -> list[Reservation]:
    return [each for each in lease.live if each.group and not each.is_made]


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
            one = room.of_flavor(flavor, each)
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


@dataclasses.dataclass
class Expectation:
    """What is expected of the room on the hosts that everybody uses, as it is now.

    :ivar without: the id of a lease that is to take nothing
    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
    """

    database: Database
    cloud: UserConnector | None
    without: str | None = None

    def __post_init__(self) -> None:
        if self.cloud is None:
            raise exceptions.ServiceUnavailable('Nobody tells what is free in the cloud.')
        try:
            conn = self.cloud.service()
            up = room.hosts_up(conn)
            self._hosts = list(room.read(conn, up))
            self._releases = list(_releases(self.database, up))
            self._demands = list(_claims(self.database, self.without))
        except cloud_errors.EXPECTED as exc:
            raise exceptions.ServiceUnavailable(str(exc)) from exc

    @property
    def forecast(self) -> Forecast:
        """Return the forecast."""
        return Forecast(self._hosts, self._releases, self._demands)

    def take(
        self,
        reservations: Sequence[Reservation],
        start: datetime.datetime,
        end: datetime.datetime,
        field: str = 'reservations',
    ) -> None:
        """Expect room for the servers of a lease that are to be made; others get it no more.

        :param field: of the request that asks for it
        :raises climate_core.exceptions.NotEnough: there will not be enough, or it is not known
        """
        servers = [_server(each.id, each.params, each.amounts) for each in reservations]
        check(self.forecast, servers, start, end, field)
        first, last = moments.moment(start), moments.moment(end)
        self._demands.append(FutureDemand(start=first, end=last, servers=servers))


def read(database: Database, cloud: UserConnector | None) -> Forecast:
    """Return the forecast as it is now.

    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer
    """
    return Expectation(database, cloud).forecast


def _server(
    server_id: str, params: Mapping[str, Any], amounts: Mapping[str, int]
) -> RunningServer:
    """Return what a server takes that is to be made for a reservation."""
    needs = params.get(specification.NEEDS) or {'amounts': room.by_class(amounts)}
    return RunningServer(
        id=server_id,
        amounts=needs['amounts'],
        required=frozenset(needs.get('required', ())),
        forbidden=frozenset(needs.get('forbidden', ())),
        zone=needs.get('zone'),
    )


def _claims(database: Database, without: str | None) -> Iterator[FutureDemand]:
    """Return what scheduled leases will take whose servers are not made yet, all but one."""
    for lease_id, found in database.read(db.to_be_made, resource_types.SERVER).items():
        if lease_id == without:
            continue
        servers = [
            _server(f'{lease_id}.{number}', each.params, each.amounts)
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
