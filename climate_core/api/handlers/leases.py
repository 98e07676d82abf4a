# SPDX-License-Identifier: Apache-2.0
"""Requests for leases: read them from the database, send writes to the manager.

The manager returns the lease that it created, so that the API need not read it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import webob

from climate_common import dates, lease_fields, limits
from climate_core import exceptions, policies
from climate_core.api import policy, registered_units, reservations, validation
from climate_core.api.request import (
    Backend,
    Request,
    answer,
    answer_pages,
    drop_unchanged,
    expected_generation,
    lease_parts,
    next_links,
    page_body,
    page_limit,
    select_fields,
    set_etag,
)
from climate_core.api.schemas import leases as schema
from climate_core.context import RequestContext
from climate_core.db import leases as db
from climate_core.db import listing
from climate_core.lease import request as lease_request
from climate_core.lease import states, views
from climate_core.lease.history import HistoryEntry
from climate_core.lease.model import Lease
from climate_core.operations import draft

_DATES = ('start_date', 'end_date', 'before_end_date')
#: What counts in a change also if it is as it was: a date can depend on another one.
_KEPT = (*_DATES, 'generation')


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the leases of the caller's project, or of all projects if the policy allows it."""
    parameters = request.parameters
    query = listing.LeaseQuery(
        project_id=_listed_project(backend, request),
        deleted=parameters.get('deleted', False),
        statuses=parameters.get('status', ()),
        name=_name_filter(parameters),
        lease_id=parameters['lease_id'].lower() if 'lease_id' in parameters else None,
        resource_type=parameters.get('resource_type'),
        resource_id=parameters.get('resource_id'),
        **_window(parameters),
        sort=_sort(parameters),
        limit=page_limit(backend, request),
        parts=lease_parts(parameters.get('fields')),
    )
    viewer_id, fields = request.context.user_id, parameters.get('fields')

    def read(marker: str | None) -> tuple[list[dict[str, Any]], str | None]:
        page = dataclasses.replace(query, marker=marker and marker.lower())
        rows, more = backend.database.read(listing.read_summaries, page)
        places = backend.database.read(db.queue_positions, rows)
        whole = (views.lease_view(each, places.get(each.id), viewer_id) for each in rows)
        leases = [select_fields(lease, fields) for lease in whole] if fields else list(whole)
        return leases, rows[-1].id if more else None

    return answer_pages(request, 'leases', read)


def _name_filter(parameters: Mapping[str, Any]) -> str | None:
    names = {parameters[key] for key in ('name', 'lease_name') if key in parameters}
    if len(names) > 1:
        raise exceptions.BadRequest(
            'lease_name: must be the same as name, or be left out.', field='lease_name'
        )
    return next(iter(names), None)


def _listed_project(backend: Backend, request: Request) -> str | None:
    """Return the project whose leases to list; None: all projects.

    :raises climate_core.exceptions.Forbidden: the caller may not see the requested leases
    """
    context = request.context
    requested: str | None = request.parameters.get('project_id')
    if policy.allows(backend.enforcer, context, policies.GET_ALL_LEASES, {}):
        return requested
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_LEASES, target)
    if requested not in (None, context.project_id) or not context.project_id:
        policy.authorize(backend.enforcer, context, policies.GET_ALL_LEASES, {})
    return context.project_id


def _window(parameters: Mapping[str, Any]) -> dict[str, Any]:
    since, until = _moment(parameters, 'from'), _moment(parameters, 'until')
    if type(since) is type(until) and since is not None and since >= until:  # type: ignore[operator]
        raise exceptions.InvalidDate('until: must be later than from.', field='until')
    return {'since': since, 'until': until}


def _moment(parameters: Mapping[str, Any], name: str) -> listing.Moment | None:
    if name not in parameters:
        return None
    time = lease_request.read_date(parameters[name], limits.FIRST_DATE, name)
    return time - limits.FIRST_DATE if dates.is_relative(parameters[name]) else time


def _sort(parameters: Mapping[str, Any]) -> Sequence[listing.Sort]:
    keys, directions = parameters.get('sort_key', []), parameters.get('sort_dir', [])
    if 'sort' in parameters and (keys or directions):
        raise exceptions.BadRequest('sort: must come without sort_key and sort_dir.', 'sort')
    if len(directions) > len(keys):
        raise exceptions.BadRequest(
            'sort_dir: must not come more often than sort_key.', 'sort_dir'
        )
    pairs = [text.partition(':')[::2] for text in parameters.get('sort', ())]
    pairs += zip(keys, [*directions, *[''] * len(keys)], strict=False)
    sort = [(key, direction == 'desc') for key, direction in pairs]
    if len({key for key, _ in sort}) < len(sort):
        name = 'sort' if 'sort' in parameters else 'sort_key'
        raise exceptions.BadRequest(f'{name}: must name each key only once.', name)
    return sort or listing.LeaseQuery().sort


def create(backend: Backend, request: Request) -> webob.Response:
    """Create a lease in the caller's project; a repeated request returns the same lease.

    With the id of a lease of the project, the reservations that it does not have are added to
    it. For the id of a lease of another project the response is the same 409 as for a different
    lease of the same project: it states only that the id is taken.

    The same request with the same Idempotency-Key returns the same lease, whatever its status is
    by then. With dry_run nothing is written: the response lists what would be rejected.
    """
    context = request.context
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.CREATE_LEASE, target)
    if not context.project_id:
        raise exceptions.Forbidden(
            'A lease belongs to a project: send a token that is scoped to one.'
        )
    values = _normal(request.read_body(schema.CREATE)) | _key(request)
    if {'id', 'idempotency_key'} <= values.keys():
        raise exceptions.BadRequest(
            'id: must come without an Idempotency-Key; send one of them.', field='id'
        )
    if values.get('priority'):
        policy.authorize(backend.enforcer, context, policies.SET_PRIORITY, target, 'priority')
    listed = [
        reservations.check_reservation(backend, reservation, f'reservations[{number}]')
        for number, reservation in enumerate(values.get('reservations', ()))
    ]
    if listed:
        values['reservations'] = listed
    best_effort = values.get('kind') == states.LeaseKind.BEST_EFFORT
    # For other types the manager rejects the kind, also for administrators.
    if best_effort and draft.may_be_best_effort([each['resource_type'] for each in listed]):
        policy.authorize(backend.enforcer, context, policies.EVACUATE_HOSTS, target, 'kind')
    with backend.reserving.turn(context, values):
        if request.parameters.get('dry_run'):
            _authorize_present(backend, context, values)
            checked = backend.manager_client.check_lease(context, values)
            return answer(
                200,
                {
                    'dry_run': registered_units.add_known_properties_to_dry_run(
                        backend, context, checked
                    )
                },
            )
        made = _create(backend, context, values)
    if not isinstance(made, str):
        return set_etag(answer(201, {'lease': made}), made['generation'])
    lease = backend.database.read(db.get, made)
    if lease.user_id != context.user_id:
        # The lease existed already: a repeated request of another user.
        policy.authorize_lease(backend.enforcer, context, policies.GET_LEASES, lease)
    return _answer(backend, context, 201, lease)


def _key(request: Request) -> dict[str, str]:
    key = request.headers.get('Idempotency-Key')
    if key is None:
        return {}
    validation.check(key, schema.CREATE_HEADERS['Idempotency-Key'], 'Idempotency-Key')
    return {'idempotency_key': key}


def _create(
    backend: Backend, context: RequestContext, values: dict[str, Any]
) -> views.CreatedLease:
    """Have the manager create the lease; resources join an existing one if the policy allows."""
    may_join = _authorize_present(backend, context, values)
    try:
        return backend.manager_client.create_lease(context, values | may_join)
    except exceptions.LeaseAppeared:
        # Another request created the lease after _authorize_present read the database.
        may_join = _authorize_present(backend, context, values)
        return backend.manager_client.create_lease(context, values | may_join)


def show(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Show one lease."""
    fields = request.parameters.get('fields')
    lease = backend.database.read(db.get, lease_id, parts=lease_parts(fields))
    policy.authorize_lease(backend.enforcer, request.context, policies.GET_LEASES, lease)
    body = {'lease': select_fields(_render(backend, request.context, lease), fields)}
    return set_etag(answer(200, body), lease.generation)


def update(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Change a lease: all requested changes are applied, or none.

    Before the start both ends may be moved, afterwards only the end.
    """
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.UPDATE_LEASE, lease)
    shown = _render(backend, request.context, lease)
    body = request.read_body(schema.UPDATE, lambda sent: _read_change(sent, shown))
    values = _normal(body)
    # null clears these fields.
    values |= {name: body[name] for name in lease_fields.CLEARABLE & body.keys()}
    if 'reservations' in values:
        policy.authorize_lease(
            backend.enforcer, request.context, policies.UPDATE_RESERVATION, lease
        )
        values['reservations'] = reservations.check_changes(backend, lease, values['reservations'])
    if values.get('priority', lease.priority) != lease.priority:
        policy.authorize_lease(
            backend.enforcer, request.context, policies.SET_PRIORITY, lease, 'priority'
        )
    generation = expected_generation(request, values.pop('generation', None))
    if values or generation is not None:
        backend.manager_client.update_lease(request.context, lease_id, values, generation)
    return _read_back(backend, request.context, 200, lease_id)


def _read_change(sent: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change without what clients send back as they read it.

    :raises climate_core.exceptions.BadRequest: it changes what only the service sets
    """
    change = drop_unchanged(sent, shown, _KEPT)
    for name in sorted(change.keys() & shown.keys() - schema.UPDATE['properties'].keys()):
        raise exceptions.BadRequest(
            f'{name}: cannot be changed. Leave it out, or send what GET shows.', field=name
        )
    if change.get('reservations'):
        listed = reservations.drop_unchanged_items(change['reservations'], shown['reservations'])
        change['reservations'] = listed
    return change


def delete(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Delete a lease and release its resources."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.DELETE_LEASE, lease)
    backend.manager_client.delete_lease(request.context, lease_id, expected_generation(request))
    return answer(204)


def start(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Start a lease with ``start_policy`` manual, at or after its start date."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.START_LEASE, lease)
    backend.manager_client.start_lease(request.context, lease_id, expected_generation(request))
    return _read_back(backend, request.context, 202, lease_id)


def end(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """End a lease now and release its resources; before its start that cancels it."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.END_LEASE, lease)
    backend.manager_client.end_lease(request.context, lease_id, expected_generation(request))
    return _read_back(backend, request.context, 202, lease_id)


def _authorize_present(
    backend: Backend, context: RequestContext, values: Mapping[str, Any]
) -> dict[str, bool]:
    """Enforce the policies of an existing lease with the chosen id.

    :returns: ``may_join``: False if no lease of the project has the id
    :raises climate_core.exceptions.Forbidden: the caller may not add resources to the lease
    :raises climate_core.exceptions.LeaseNotFound: the caller may not see the lease
    """
    if 'id' not in values:
        return {}
    lease = backend.database.read(db.find, values['id'])
    if lease is None or lease.project_id != context.project_id or lease.deleted_at is not None:
        # No such lease, or the manager reports that the id is taken.
        return {'may_join': False}
    rule = policies.CREATE_RESERVATION if values.get('reservations') else policies.GET_LEASES
    policy.authorize_lease(backend.enforcer, context, rule, lease)
    return {'may_join': True}


def _read_back(
    backend: Backend, context: RequestContext, status: int, lease_id: str
) -> webob.Response:
    return _answer(backend, context, status, backend.database.read(db.get, lease_id))


def _answer(
    backend: Backend, context: RequestContext, status: int, lease: Lease
) -> webob.Response:
    shown = _render(backend, context, lease)
    return set_etag(answer(status, {'lease': shown}), lease.generation)


def _render(backend: Backend, context: RequestContext, lease: Lease) -> dict[str, Any]:
    """Render a lease, with its place in the queue if it is queued."""
    if lease.status != states.LeaseStatus.WAITING:
        return views.lease_view(lease, viewer_id=context.user_id)
    places = backend.database.read(db.queue_positions, [lease])
    return views.lease_view(lease, places.get(lease.id), context.user_id)


def _normal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without aliases and nulls, after a check of its dates.

    :raises climate_core.exceptions.InvalidDate: naming the invalid field
    """
    normal = {name: value for name, value in values.items() if value is not None}
    if 'before_end_notification' in normal:
        normal.setdefault('before_end_date', normal.pop('before_end_notification'))
    if 'id' in normal:
        normal['id'] = normal['id'].lower()
    if 'reservations' in normal:
        normal['reservations'] = reservations.convert_reservations(normal['reservations'])
    if 'events' in normal:
        normal['events'] = [
            {'event_type': event['event_type'], 'time': event.get('time', event.get('event_date'))}
            for event in normal['events']
        ]
    for name in _DATES:
        if name in normal:
            _check_date(normal[name], name)
    if 'duration' in normal:
        lease_request.read_duration(normal['duration'])
    for number, event in enumerate(normal.get('events', ())):
        _check_date(event['time'], f'events[{number}].time')
    return normal


def _check_date(text: str, field: str) -> None:
    """Reject a malformed date. The manager resolves "now" and validates the rest."""
    lease_request.read_date(text, limits.FIRST_DATE, field)


def list_history(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """List the changes of a lease; also of a deleted one, until it is purged.

    :raises climate_core.exceptions.LeaseNotFound: there is none, or its user may not see it
    """
    lease = backend.database.read(db.find, lease_id, parts=())
    if lease is None:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    policy.authorize_lease(backend.enforcer, request.context, policies.GET_LEASE_HISTORY, lease)
    limit = page_limit(backend, request)
    after = request.parameters.get('marker')
    newest_first = request.parameters.get('sort') == schema.NEWEST_FIRST
    rows, more = backend.database.read(
        listing.read_history_page, lease_id, after, limit, newest_first
    )
    entries = [_history_entry(number, entry) for number, entry in rows]
    links = next_links(request, str(rows[-1][0])) if more else None
    return answer(200, page_body('history', entries, links))


def _history_entry(number: int, entry: HistoryEntry) -> dict[str, Any]:
    shown = {'id': number, **dataclasses.asdict(entry), 'time': dates.serialize(entry.time)}
    del shown['lease_id']
    return shown
