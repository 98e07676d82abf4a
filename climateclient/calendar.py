# SPDX-License-Identifier: Apache-2.0
"""Read the calendar: the allocations and the free capacity; ``client.calendar``."""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from keystoneauth1 import adapter

from climateclient.models import time_of
from climateclient.parameters import When
from climateclient.serialization import read, read_pages, to_query

_PATH = '/calendar'
#: Of a resource without a name so much of its id is shown in short.
_SHORT = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A time in which something is allocated to a lease; ``status`` is that of the lease.

    Those of hosts have no kind and no resource. ``resource_names`` are the addresses of floating
    IPs, or the segment of a network. ``free_until`` is when its whole units are allocated to the
    next lease, if that was requested and there is such a lease.
    """

    lease_id: str
    lease_name: str
    project_id: str
    status: str
    reservation_id: str
    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    kind: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    resource_names: tuple[str, ...] = ()
    free_until: datetime.datetime | None = None

    @property
    def resource(self) -> str:
        """Return in short what users know a resource by: its names, or the beginning of its id."""
        if not self.resource_names:
            return (self.resource_id or '')[:_SHORT]
        first, *more = self.resource_names
        return f'{first} and {len(more)} more' if more else first

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        return cls(
            lease_id=body['lease_id'],
            lease_name=body['lease_name'],
            project_id=body['project_id'],
            status=body['status'],
            reservation_id=body['reservation_id'],
            start_date=time_of(body['start_date']),
            end_date=time_of(body['end_date']),
            kind=body.get('kind'),
            resource_type=body.get('resource_type'),
            resource_id=body.get('resource_id'),
            resource_names=tuple(body.get('resource_names', ())),
            free_until=time_of(body.get('free_until')),
        )


@dataclass(frozen=True, slots=True)
class HostBars:
    """A host and its allocations; ``reservable`` is whether it gets new allocations."""

    id: str
    hypervisor_hostname: str
    pool: str
    reservable: bool
    bars: tuple[Bar, ...] = ()

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        return cls(
            body['id'],
            body['hypervisor_hostname'],
            body['pool'],
            body['reservable'],
            tuple(map(Bar.from_dict, body['bars'])),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """Amounts from a time on, until the next step.

    ``total`` is what there is, ``promised`` is allocated to all projects, ``own`` to this one, and
    ``free`` is available to new allocations.
    """

    time: datetime.datetime | None
    total: int
    promised: int
    own: int
    free: int

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        amounts = (body[name] for name in ('total', 'promised', 'own', 'free'))
        return cls(time_of(body['time']), *amounts)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The steps of whole units of a kind in a pool, or of an amount of them, as ``vcpus``."""

    kind: str
    pool: str
    unit: str
    steps: tuple[Step, ...]

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        steps = tuple(map(Step.from_dict, body['steps']))
        return cls(body['kind'], body['pool'], body['unit'], steps)


class Calendar:
    """The calls about the calendar; each raises what :mod:`climateclient.exceptions` says.

    A time begins now and is a week long if nothing is said, and is at most 92 days long.
    """

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def bars(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        group_by: str | None = None,
        all_projects: bool | None = None,
        lease_id: str | None = None,
        free_until: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[Bar]:
        """Yield the reservations that are in a time, page by page.

        :param group_by: ``resource`` (default) or ``lease``: which stand together
        :param all_projects: those of all projects, which needs the right to see all leases
        :param lease_id: only those of this lease
        :param free_until: read until when they can be extended, too
        """
        values = {
            'from': since,
            'to': until,
            'group_by': group_by,
            'all_projects': all_projects,
            'lease_id': lease_id,
            'free_until': free_until,
            'capacity': False,
        }
        return read_pages(self._http, _PATH, 'bars', Bar.from_dict, values, limit)

    def hosts(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> Iterator[HostBars]:
        """Yield hosts and their allocations in a time, page by page; for operators."""
        values = {'from': since, 'to': until, 'hosts': True, 'capacity': False}
        return read_pages(self._http, _PATH, 'hosts', HostBars.from_dict, values, limit)

    def capacity(self, *, since: When | None = None, until: When | None = None) -> list[Capacity]:
        """Return capacity over time, of the units that the project may use."""
        values = to_query({'from': since, 'to': until, 'limit': 1})
        return read(
            self._http.get(_PATH, params=values),
            'capacity',
            lambda rows: [Capacity.from_dict(row) for row in rows],
        )
