# SPDX-License-Identifier: Apache-2.0
"""The leases of a project: ``client.leases``."""

import builtins
import datetime
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from keystoneauth1 import adapter

from climateclient import exceptions, wire
from climateclient.models import Check, Entry, Lease, Reservation

#: A time to send: a timezone-aware datetime, or a text that the service understands ("now",
#: "YYYY-MM-DD HH:MM" in UTC, ISO 8601), which is sent as it is.
When = datetime.datetime | str
#: A length to send: a timedelta, seconds, or a text that the service understands ("90m").
Length = datetime.timedelta | int | str


class Details(TypedDict, total=False):
    """What a new lease can have beside its name and its dates.

    ``duration`` is how long it lasts, instead of an end. ``reservations`` are mappings with
    ``resource_type``, mostly ``resource_id``, and what the type's plugin takes (``on_end`` of a
    server, ``name`` and ``template`` of a stack that is to be made), ``events`` mappings with
    ``event_type`` and ``time``. ``before_end`` is when it is told that the end is near,
    ``before_start`` how many seconds before the start that is told (several). ``start_policy`` is
    "auto" or "manual". ``webhook`` is a mapping with ``url``, ``secret`` and perhaps ``events``.
    ``id`` is a uuid for the lease. What is None or missing is the service's to choose.
    """

    duration: Length | None
    reservations: Iterable[Mapping[str, Any]]
    events: Iterable[Mapping[str, Any]]
    before_end: When | None
    before_start: Sequence[int] | None
    start_policy: str | None
    webhook: Mapping[str, Any] | None
    id: str | None


class Filters(TypedDict, total=False):
    """Which leases a list has: all these must fit.

    ``status`` may be several. ``since`` and ``until`` are a window of time that the lease
    overlaps. ``project_id`` of another project is for those who see all leases. ``deleted``
    asks for the deleted ones, which are kept for a while.
    """

    status: str | Sequence[str] | None
    name: str | None
    resource_type: str | None
    resource_id: str | None
    project_id: str | None
    since: When | None
    until: When | None
    deleted: bool | None


class Changes(TypedDict, total=False):
    """What can be changed of a lease; what is None or missing stays.

    ``start`` can be changed before the start only. ``duration`` gives a new end. ``events``
    replace those that users gave before. ``reservations`` are mappings with ``id`` and what
    shall be different. A ``webhook`` of None removes it; to leave it, do not give it.
    """

    name: str | None
    start: When | None
    end: When | None
    duration: Length | None
    before_end: When | None
    before_start: Sequence[int] | None
    start_policy: str | None
    webhook: Mapping[str, Any] | None
    events: Iterable[Mapping[str, Any]] | None
    reservations: Iterable[Mapping[str, Any]] | None


_NAMES = {
    'start': 'start_date',
    'end': 'end_date',
    'before_end': 'before_end_date',
    'since': 'from',
}


class Leases:
    """Calls about leases. Every call raises what :mod:`climateclient.exceptions` says.

    ``generation`` is that of the lease which the new values were made from: the call is refused
    with Conflict if somebody else has changed the lease meanwhile.
    """

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def create(
        self,
        name: str,
        end: When | None = None,
        start: When = 'now',
        *,
        idempotency_key: str | None = None,
        **details: Unpack[Details],
    ) -> Lease:
        """Make a lease.

        The request always carries something that the service knows it by, so that it can be sent
        again when an answer was lost: the ``id``, or else a key.

        :param end: when it ends; or give ``duration``
        :param start: when it starts; "now" is the service's now
        :param idempotency_key: the same request with the same key gives the same lease; a new
            key if None
        :param details: see :class:`Details`
        :returns: the lease
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Forbidden: it is more than a limit allows
        :raises Conflict: the resource is reserved, or another lease has this id or key
        """
        body = _new(name, end, start, details)
        answer = self._http.post('/leases', json=body, headers=_known_by(body, idempotency_key))
        return wire.read(answer, 'lease', Lease.from_dict)

    def check(
        self,
        name: str,
        end: When | None = None,
        start: When = 'now',
        **details: Unpack[Details],
    ) -> Check:
        """Ask whether :meth:`create` would make a lease now; nothing is made.

        :raises BadRequest: a value is wrong; ``field`` says which
        """
        body = _new(name, end, start, details)
        answer = self._http.post(
            '/leases', json=body, headers=_known_by(body), params={'dry_run': 'true'}
        )
        return wire.read(answer, 'dry_run', Check.from_dict)

    def list(
        self,
        *,
        sort: str | Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        fields: Sequence[str] | None = None,
        **filters: Unpack[Filters],
    ) -> Iterator[Lease]:
        """The leases of the project, one by one; nothing is asked for before the first.

        :param sort: ``<key>[:asc|:desc]``, one or several; else in the order they were made
        :param limit: so many at most; the service gives them in pages, which are not seen here
        :param marker: begin after the lease with this id
        :param fields: what the leases need to have; leaving out ``reservations`` and ``events``
            makes a list cheaper
        :param filters: see :class:`Filters`
        """
        values: dict[str, Any] = {_NAMES.get(k, k): v for k, v in filters.items()}
        values |= {'sort': sort, 'marker': marker}
        if fields:
            values['fields'] = list(dict.fromkeys(['id', *fields]))
        return wire.pages(self._http, '/leases', 'leases', Lease.from_dict, values, limit)

    def get(self, lease_id: str) -> Lease:
        """One lease by its id.

        :raises NotFound: there is none in this project
        """
        return wire.read(self._http.get(_path(lease_id)), 'lease', Lease.from_dict)

    def find(self, name_or_id: str, *, deleted: bool = False) -> Lease:
        """One lease by its id or its name. A name costs one request, and so does an id.

        :param deleted: look for a deleted one, if no other has the name
        :raises LeaseNameNotFound: there is none
        :raises AmbiguousName: several leases have this name
        """
        if is_uuid(name_or_id):
            try:
                return self.get(name_or_id)
            except exceptions.NotFound:
                pass  # a name may look like an id
        named = [*self.list(name=name_or_id)]
        if deleted and not named:
            named = [*self.list(name=name_or_id, deleted=True)]
        return pick(named, name_or_id)

    def history(
        self, lease_id: str, *, limit: int | None = None, marker: str | None = None
    ) -> Iterator[Entry]:
        """What happened to a lease, oldest first; also to one that was deleted, for a while.

        :param limit: so many at most
        :param marker: begin after the entry with this id
        :raises NotFound: there is none in this project
        """
        url = _path(lease_id, 'history')
        return wire.pages(self._http, url, 'history', Entry.from_dict, {'marker': marker}, limit)

    def update(
        self, lease_id: str, *, generation: int | None = None, **changes: Unpack[Changes]
    ) -> Lease:
        """Change a lease: all of what is given, or nothing if one thing cannot be done.

        :param changes: see :class:`Changes`
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the lease's state, or its generation, does not allow this
        """
        body = _body(changes)
        if 'webhook' in changes:
            body['webhook'] = wire.encode(changes['webhook'])
        answer = self._http.put(_path(lease_id), json=body, headers=_if(generation))
        return wire.read(answer, 'lease', Lease.from_dict)

    def start(self, lease_id: str, *, generation: int | None = None) -> Lease:
        """Start a lease whose ``start_policy`` is manual, at or after its start.

        :returns: the lease as it is now; its resources wake up meanwhile
        :raises Conflict: it starts by itself, or cannot be started yet or any more
        """
        return self._act(lease_id, 'start', generation)

    def end(self, lease_id: str, *, generation: int | None = None) -> Lease:
        """End a lease now. One that has not started is cancelled, and wakes nothing.

        One that is over stays as it is.

        :returns: the lease as it is now; what it holds is ended meanwhile
        :raises Conflict: its generation is another one
        """
        return self._act(lease_id, 'end', generation)

    def delete(
        self, lease_id: str, *, ignore_missing: bool = False, generation: int | None = None
    ) -> None:
        """Delete a lease; what it holds is ended first, which may take a while.

        :param ignore_missing: a lease that does not exist counts as deleted
        :raises NotFound: there is none in this project
        """
        try:
            self._http.delete(_path(lease_id), headers=_if(generation))
        except exceptions.NotFound:
            if not ignore_missing:
                raise

    def add_reservation(
        self,
        lease_id: str,
        resource_type: str,
        resource_id: str | None = None,
        *,
        generation: int | None = None,
        **params: Any,
    ) -> Reservation:
        """Let one more resource join a lease. Repeating it gives the same reservation.

        :param resource_id: the resource, where the type has no other way to say which
        :param params: what the resource type's plugin takes
        :raises Conflict: the resource is reserved by another lease, or this one is over
        """
        body = {**params, 'resource_type': resource_type}
        if resource_id is not None:
            body['resource_id'] = resource_id
        url = _path(lease_id, 'reservations')
        answer = self._http.post(url, json=wire.encode(body), headers=_if(generation))
        return wire.read(answer, 'reservation', Reservation.from_dict)

    def update_reservation(
        self, lease_id: str, reservation_id: str, *, generation: int | None = None, **params: Any
    ) -> Reservation:
        """Change what the resource type's plugin lets be changed, like ``on_end`` of a server.

        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the lease is over
        """
        url = _path(lease_id, 'reservations', reservation_id)
        answer = self._http.put(url, json=wire.encode(params), headers=_if(generation))
        return wire.read(answer, 'reservation', Reservation.from_dict)

    def remove_reservation(
        self, lease_id: str, reservation_id: str, *, generation: int | None = None
    ) -> None:
        """Take a resource out of a lease, which goes on; the resource is ended as chosen for it.

        :raises NotFound: there is no such lease, or it has no such reservation
        """
        url = _path(lease_id, 'reservations', reservation_id)
        self._http.delete(url, headers=_if(generation))

    def _act(self, lease_id: str, action: str, generation: int | None) -> Lease:
        answer = self._http.post(_path(lease_id, action), headers=_if(generation))
        return wire.read(answer, 'lease', Lease.from_dict)


def pick(leases: Iterable[Lease], name_or_id: str) -> Lease:
    """The one lease of these that has this id or, failing that, this name.

    :raises LeaseNameNotFound: there is none
    :raises AmbiguousName: several leases have this name
    """
    leases = list(leases)
    for lease in leases:
        if lease.id == name_or_id:
            return lease
    named = [lease for lease in leases if lease.name == name_or_id]
    if not named:
        raise exceptions.LeaseNameNotFound(f'No lease has the name or id "{name_or_id}".')
    if len(named) > 1:
        listed = ', '.join(f'{lease.id} ({lease.status})' for lease in named)
        raise exceptions.AmbiguousName(
            f'{len(named)} leases have the name "{name_or_id}", give an id: {listed}',
            ids=tuple(lease.id for lease in named),
        )
    return named[0]


def _new(name: str, end: When | None, start: When, details: Mapping[str, Any]) -> dict[str, Any]:
    lists = {key: list(details.get(key) or ()) for key in ('reservations', 'events')}
    return _body({'name': name, 'start': start, 'end': end, **details, **lists})


def _known_by(body: Mapping[str, Any], key: str | None = None) -> dict[str, str]:
    """The header that a new lease is known by, if it has no id."""
    if 'id' not in body:
        return {'Idempotency-Key': key or str(uuid.uuid4())}
    if key:
        raise ValueError('A lease is known by its id or by a key, not by both.')
    return {}


def _body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _NAMES.get(key, key): wire.encode(_listed(value))
        for key, value in values.items()
        if value is not None
    }


def _listed(value: Any) -> Any:
    is_several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return builtins.list(value) if is_several else value


def _path(lease_id: str, *more: str) -> str:
    return wire.path('leases', lease_id, *more)


def _if(generation: int | None) -> dict[str, str]:
    return {} if generation is None else {'If-Match': f'"{generation}"'}


def is_uuid(text: str) -> bool:
    """Tell whether a text is the id of a lease, if it is not a strange name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
