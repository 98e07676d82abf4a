# SPDX-License-Identifier: Apache-2.0
"""The leases of a project: ``client.leases``."""

import builtins
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

from keystoneauth1 import adapter

from climate_common import lease_fields
from climateclient import exceptions
from climateclient.models import DryRun, HistoryEntry, Lease, Reservation
from climateclient.parameters import Changes, Filters, LeaseDetails, When
from climateclient.serialization import read, read_pages, to_json, to_path

_NAMES = {
    'start': 'start_date',
    'end': 'end_date',
    'before_end': 'before_end_date',
    'since': 'from',
}


class Leases:
    """The calls about leases; each raises what :mod:`climateclient.exceptions` says.

    ``generation`` is that of the lease which the new values were made from: the call is refused
    with Conflict if the lease was changed concurrently.
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
        **details: Unpack[LeaseDetails],
    ) -> Lease:
        """Create a lease.

        The request always carries an ``id`` or an idempotency key, so that it can be sent again
        when a response was lost.

        :param end: when it ends; or give ``duration``
        :param start: when it starts; "now" is the service's now
        :param idempotency_key: the same request with the same key gives the same lease; a new
            key if None
        :param details: see :class:`~climateclient.parameters.LeaseDetails`
        :returns: the lease
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Forbidden: it is more than a limit allows
        :raises Conflict: the resource is reserved, or another lease has this id or key
        """
        body = _create_body(name, end, start, details)
        headers = _idempotency(body, idempotency_key)
        return read(
            self._http.post('/leases', json=body, headers=headers), 'lease', Lease.from_dict
        )

    def dry_run(
        self,
        name: str,
        end: When | None = None,
        start: When = 'now',
        **details: Unpack[LeaseDetails],
    ) -> DryRun:
        """Tell whether :meth:`create` would be granted now; nothing is created.

        :raises BadRequest: a value is wrong; ``field`` says which
        """
        body = _create_body(name, end, start, details)
        response = self._http.post(
            '/leases', json=body, headers=_idempotency(body), params={'dry_run': 'true'}
        )
        return read(response, 'dry_run', DryRun.from_dict)

    def list(
        self,
        *,
        sort: str | Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        fields: Sequence[str] | None = None,
        **filters: Unpack[Filters],
    ) -> Iterator[Lease]:
        """Yield the leases of the project; nothing is requested before the first.

        :param sort: ``<key>[:asc|:desc]``, one or several; by default as they were created
        :param limit: the maximum number, over all pages of the service
        :param marker: begin after the lease with this id
        :param fields: the fields that the leases need; leaving out ``reservations`` and ``events``
            makes a list cheaper
        :param filters: see :class:`~climateclient.parameters.Filters`
        """
        values: dict[str, Any] = {_NAMES.get(k, k): v for k, v in filters.items()}
        values |= {'sort': sort, 'marker': marker}
        if fields:
            values['fields'] = list(dict.fromkeys(['id', *fields]))
        return read_pages(self._http, '/leases', 'leases', Lease.from_dict, values, limit)

    def get(self, lease_id: str) -> Lease:
        """Return a lease by its id.

        :raises NotFound: there is none in this project
        """
        return read(self._http.get(_path(lease_id)), 'lease', Lease.from_dict)

    def find(self, name_or_id: str, *, deleted: bool = False) -> Lease:
        """Return a lease by its id or its name, with one request.

        :param deleted: return a deleted lease if no other has the name
        :raises LeaseNameNotFound: there is none
        :raises AmbiguousName: several leases have this name, and not all but one are over
        """
        if is_uuid(name_or_id):
            try:
                return self.get(name_or_id)
            except exceptions.NotFound:
                pass  # a name may look like an id
        named = [*self.list(name=name_or_id)]
        if deleted and not named:
            named = [*self.list(name=name_or_id, deleted=True)]
        return select(named, name_or_id)

    def history(
        self,
        lease_id: str,
        *,
        sort: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[HistoryEntry]:
        """Yield what happened to a lease; a deleted one has its history for a while.

        :param sort: ``time:asc``, the oldest first, which is usual; or ``time:desc``
        :param limit: the maximum number
        :param marker: begin after the entry with this id
        :raises NotFound: there is none in this project
        """
        url = _path(lease_id, 'history')
        values = {'sort': sort, 'marker': marker}
        return read_pages(self._http, url, 'history', HistoryEntry.from_dict, values, limit)

    def update(
        self, lease_id: str, *, generation: int | None = None, **changes: Unpack[Changes]
    ) -> Lease:
        """Change a lease: all that is given, or nothing if one of it cannot be done.

        :param changes: see :class:`~climateclient.parameters.Changes`
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the lease's state, or its generation, does not allow this
        """
        body = _body(changes)
        values: Mapping[str, Any] = changes
        body |= {name: to_json(values[name]) for name in lease_fields.CLEARABLE & values.keys()}
        response = self._http.put(_path(lease_id), json=body, headers=_if_match(generation))
        return read(response, 'lease', Lease.from_dict)

    def start(self, lease_id: str, *, generation: int | None = None) -> Lease:
        """Start a lease whose ``start_policy`` is manual, at or after its start.

        :returns: the lease as it is now; its resources are being started
        :raises Conflict: it starts by itself, or cannot be started yet or any more
        """
        return self._act(lease_id, 'start', generation)

    def end(self, lease_id: str, *, generation: int | None = None) -> Lease:
        """End a lease now. One that has not started is cancelled, and wakes nothing.

        One that is over stays as it is.

        :returns: the lease as it is now; its reservations are being ended
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
            self._http.delete(_path(lease_id), headers=_if_match(generation))
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
        """Add a resource to a lease. The same call again gives the same reservation.

        :param resource_id: the resource, None if the type says in another way which it is
        :param params: what the resource type's plugin takes
        :raises Conflict: the resource is reserved by another lease, or this one is over
        """
        body = {**params, 'resource_type': resource_type}
        if resource_id is not None:
            body['resource_id'] = resource_id
        url = _path(lease_id, 'reservations')
        response = self._http.post(url, json=to_json(body), headers=_if_match(generation))
        return read(response, 'reservation', Reservation.from_dict)

    def update_reservation(
        self, lease_id: str, reservation_id: str, *, generation: int | None = None, **params: Any
    ) -> Reservation:
        """Change a reservation: what the plugin of its type allows, like ``on_end`` of a server.

        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: the lease is over
        """
        url = _path(lease_id, 'reservations', reservation_id)
        response = self._http.put(url, json=to_json(params), headers=_if_match(generation))
        return read(response, 'reservation', Reservation.from_dict)

    def remove_reservation(
        self, lease_id: str, reservation_id: str, *, generation: int | None = None
    ) -> None:
        """Remove a resource from a lease, which goes on; the resource gets its ``on_end``.

        :raises NotFound: there is no such lease, or it has no such reservation
        """
        url = _path(lease_id, 'reservations', reservation_id)
        self._http.delete(url, headers=_if_match(generation))

    def _act(self, lease_id: str, action: str, generation: int | None) -> Lease:
        response = self._http.post(_path(lease_id, action), headers=_if_match(generation))
        return read(response, 'lease', Lease.from_dict)


def select(leases: Iterable[Lease], name_or_id: str) -> Lease:
    """Return the lease with this id or, if there is none, the only one with this name.

    Of several with the name it is the only one that is not over: a lease that comes again each
    week keeps its name.

    :raises LeaseNameNotFound: there is none
    :raises AmbiguousName: several leases have this name
    """
    leases = list(leases)
    for lease in leases:
        if lease.id == name_or_id:
            return lease
    named = [lease for lease in leases if lease.name == name_or_id]
    lasting = [lease for lease in named if lease.status != 'TERMINATED']
    if len(lasting) == 1:
        return lasting[0]
    if not named:
        raise exceptions.LeaseNameNotFound(f'No lease has the name or id "{name_or_id}".')
    if len(named) > 1:
        listed = ', '.join(f'{lease.id} ({lease.status})' for lease in named)
        raise exceptions.AmbiguousName(
            f'{len(named)} leases have the name "{name_or_id}", give an id: {listed}',
            ids=tuple(lease.id for lease in named),
        )
    return named[0]


def _create_body(
    name: str, end: When | None, start: When, details: Mapping[str, Any]
) -> dict[str, Any]:
    lists = {key: list(details.get(key) or ()) for key in ('reservations', 'events')}
    return _body({'name': name, 'start': start, 'end': end, **details, **lists})


def _idempotency(body: Mapping[str, Any], key: str | None = None) -> dict[str, str]:
    """Return the header by which a repeated create is recognized, if the lease has no id."""
    if 'id' not in body:
        return {'Idempotency-Key': key or str(uuid.uuid4())}
    if key:
        raise ValueError('Either id or idempotency_key must be given, not both.')
    return {}


def _body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _NAMES.get(key, key): to_json(_as_list(value))
        for key, value in values.items()
        if value is not None
    }


def _as_list(value: Any) -> Any:
    is_several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return builtins.list(value) if is_several else value


def _path(lease_id: str, *more: str) -> str:
    return to_path('leases', lease_id, *more)


def _if_match(generation: int | None) -> dict[str, str]:
    return {} if generation is None else {'If-Match': f'"{generation}"'}


def is_uuid(text: str) -> bool:
    """Tell whether a text is the id of a lease, if it is not a strange name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
