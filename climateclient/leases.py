# SPDX-License-Identifier: Apache-2.0
"""The leases of a project: ``client.leases``."""

import builtins
import datetime
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import requests
from keystoneauth1 import adapter

from climateclient import exceptions
from climateclient.models import Lease, Reservation

T = TypeVar('T')

#: A time to send: a timezone-aware datetime, or a text that the service understands ("now",
#: "YYYY-MM-DD HH:MM" in UTC, ISO 8601), which is sent as it is.
When = datetime.datetime | str


class Leases:
    """Calls about leases. Every call raises what :mod:`climateclient.exceptions` says."""

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def create(
        self,
        name: str,
        end: When,
        start: When = 'now',
        *,
        reservations: Iterable[Mapping[str, Any]] = (),
        events: Iterable[Mapping[str, Any]] = (),
        before_end: When | None = None,
        id: str | None = None,
    ) -> Lease:
        """Make a lease.

        The request always carries an id, so that it can be sent again when an answer was
        lost: the service gives the same lease for the same id, name and dates.

        :param name: its name
        :param end: when it ends
        :param start: when it starts; "now" is the service's now
        :param reservations: each a mapping with ``resource_type``, mostly ``resource_id``, and
            what the type's plugin takes (``on_end`` of a server)
        :param events: each a mapping with ``event_type`` and ``time``
        :param before_end: when the notification that the end is near is sent; the service's
            default if None
        :param id: a uuid for the lease, the same one when a create is repeated; a new one
            if None
        :returns: the lease
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the resource is reserved, or another lease has this id
        """
        body: dict[str, Any] = {
            'id': id or str(uuid.uuid4()),
            'name': name,
            'start_date': encode(start),
            'end_date': encode(end),
            'reservations': [encode(dict(each)) for each in reservations],
            'events': [encode(dict(each)) for each in events],
        }
        if before_end is not None:
            body['before_end_date'] = encode(before_end)
        return read(self._http.post('/leases', json=body), 'lease', Lease.from_dict)

    def list(self) -> builtins.list[Lease]:
        """All leases of the project, in the service's order."""
        return read(
            self._http.get('/leases'), 'leases', lambda rows: [Lease.from_dict(r) for r in rows]
        )

    def get(self, lease_id: str) -> Lease:
        """One lease by its id.

        :raises NotFound: there is none in this project
        """
        return read(self._http.get(_path(lease_id)), 'lease', Lease.from_dict)

    def find(self, name_or_id: str) -> Lease:
        """One lease by its id or its name. An id costs one request, a name one or two.

        :raises LeaseNameNotFound: there is none
        :raises AmbiguousName: several leases have this name
        """
        if _is_uuid(name_or_id):
            try:
                return self.get(name_or_id)
            except exceptions.NotFound:
                pass  # a name may look like an id
        return pick(self.list(), name_or_id)

    def update(
        self,
        lease_id: str,
        *,
        name: str | None = None,
        start: When | None = None,
        end: When | None = None,
        before_end: When | None = None,
        generation: int | None = None,
    ) -> Lease:
        """Change a lease; what is None stays.

        :param start: possible before the start only
        :param generation: the lease's generation that the new values were made from; the
            change is refused if somebody else has changed the lease meanwhile
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the lease's state, or its generation, does not allow this
        """
        values = {
            'name': name,
            'start_date': start,
            'end_date': end,
            'before_end_date': before_end,
            'generation': generation,
        }
        body = {key: encode(value) for key, value in values.items() if value is not None}
        return read(self._http.put(_path(lease_id), json=body), 'lease', Lease.from_dict)

    def delete(self, lease_id: str, *, ignore_missing: bool = False) -> None:
        """Delete a lease; what it holds is ended first, which may take a while.

        :param ignore_missing: a lease that does not exist counts as deleted
        :raises NotFound: there is none in this project
        """
        try:
            self._http.delete(_path(lease_id))
        except exceptions.NotFound:
            if not ignore_missing:
                raise

    def add_reservation(
        self, lease_id: str, resource_type: str, resource_id: str | None = None, **params: Any
    ) -> Reservation:
        """Let one more resource join a lease. Repeating it gives the same reservation.

        :param resource_id: the resource, where the type has no other way to say which
        :param params: what the resource type's plugin takes
        :raises Conflict: the resource is reserved by another lease, or this one is over
        """
        body = {**params, 'resource_type': resource_type}
        if resource_id is not None:
            body['resource_id'] = resource_id
        answer = self._http.post(f'{_path(lease_id)}/reservations', json=encode(body))
        return read(answer, 'reservation', Reservation.from_dict)


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


def encode(value: Any) -> Any:
    """Make a value fit for JSON: times become ISO 8601 in UTC, at any depth.

    :raises ValueError: a datetime has no timezone, so nobody knows when it is
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f'The time {value} has no timezone.')
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, Mapping):
        return {key: encode(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    return value


def read(response: requests.Response, key: str, make: Callable[[Any], T]) -> T:
    """What an answer holds under a key, made into a value.

    :raises UnexpectedAnswer: the answer does not look like that
    """
    try:
        return make(response.json()[key])
    except (ValueError, KeyError, TypeError) as error:
        raise exceptions.UnexpectedAnswer(
            f'{response.url} did not answer as the lease service does ({error!r}). '
            'Is it the endpoint of Climate, with /v1 at its end?'
        ) from error


def _path(lease_id: str) -> str:
    return f'/leases/{requests.utils.quote(lease_id, safe="")}'


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
