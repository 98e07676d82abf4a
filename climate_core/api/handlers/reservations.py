# SPDX-License-Identifier: Apache-2.0
"""Requests for reservations of a lease, and for the types of resources."""

from collections.abc import Mapping, Sequence
from typing import Any

import webob

from climate_common import resource_types
from climate_core import exceptions, policies
from climate_core.api import blazar, policy, validation
from climate_core.api.request import Backend, Request, answer, expected_generation, set_etag
from climate_core.api.schemas import reservations as schema
from climate_core.db import leases as db
from climate_core.lease import model, views
from climate_core.plugins import base


def create(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Add a resource; one that is in the lease already is answered as it is."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.CREATE_RESERVATION, lease)
    values = check_reservation(
        backend, blazar.convert_reservation(request.read_body(schema.CREATE))
    )
    generation = expected_generation(request)
    with backend.reserving.turn(request.context, values):
        reservation_id = backend.manager.add_reservation(
            request.context, lease_id, values, generation
        )
    return _answer(backend, 201, lease_id, reservation_id)


def update(
    backend: Backend, request: Request, lease_id: str, reservation_id: str
) -> webob.Response:
    """Change the fields of a reservation that its plugin declares changeable, until its end."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.UPDATE_RESERVATION, lease)
    reservation = lease.get_reservation(reservation_id)
    values = _check_change(backend, reservation, request.read_body(schema.CHANGE))
    generation = expected_generation(request)
    backend.manager.update_reservation(
        request.context, lease_id, reservation_id, values, generation
    )
    return _answer(backend, 200, lease_id, reservation_id)


def delete(
    backend: Backend, request: Request, lease_id: str, reservation_id: str
) -> webob.Response:
    """Remove a resource from a lease, which goes on; its end action is done."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.DELETE_RESERVATION, lease)
    generation = expected_generation(request)
    backend.manager.remove_reservation(request.context, lease_id, reservation_id, generation)
    return answer(204)


def check_changes(
    backend: Backend, lease: model.Lease, listed: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Validate a list of changes of reservations, which are named by ``id``.

    Some clients repeat the type of the resource.

    :returns: the list without the types
    :raises climate_core.exceptions.BadRequest: naming the invalid field
    """
    checked = []
    for number, change in enumerate(listed):
        within, reservation_id = f'reservations[{number}]', change['id'].lower()
        reservation = next((r for r in lease.reservations if r.id == reservation_id), None)
        if reservation is None:
            field = f'{within}.id'
            raise exceptions.BadRequest(
                f'{field}: the lease has no reservation {reservation_id}.', field=field
            )
        values = {name: value for name, value in change.items() if name != 'id'}
        if values.get('resource_type') == resource_types.api_name(reservation.resource_type):
            del values['resource_type']
        checked.append(
            {'id': reservation_id, **_check_change(backend, reservation, values, within)}
        )
    return checked


def _check_change(
    backend: Backend, reservation: model.Reservation, values: Mapping[str, Any], within: str = ''
) -> dict[str, Any]:
    plugin = _plugin(backend, reservation.resource_type, within)
    can_be = ', '.join(sorted(plugin.changeable)) or 'nothing'
    for name in sorted(values.keys() - {*plugin.changeable}):
        field = f'{within}.{name:.80}' if within else name[:80]
        reason = f'is not known here; {can_be} can be changed'
        if name in plugin.schema:
            reason = f'cannot be changed after the reservation is made; {can_be} can be'
        raise exceptions.BadRequest(
            f'{field}: {reason}. For another one add a new reservation and remove this one.',
            field=field,
        )
    return dict(validation.check(values, schema.change_of_plugin(plugin), within))


def _answer(backend: Backend, status: int, lease_id: str, reservation_id: str) -> webob.Response:
    lease = backend.database.read(db.get, lease_id)
    reservation = views.reservation_view(lease.get_reservation(reservation_id), lease)
    return set_etag(answer(status, {'reservation': reservation}), lease.generation)


def check_reservation(
    backend: Backend, values: Mapping[str, Any], within: str = ''
) -> dict[str, Any]:
    """Validate a reservation against the schema of its plugin, and return it.

    :param within: its place in the body
    :raises climate_core.exceptions.UnknownResourceType: the type has no enabled plugin
    :raises climate_core.exceptions.BadRequest: naming the invalid field
    """
    kind = values['resource_type']
    plugin = _plugin(backend, kind, within)
    for name in sorted({'min', 'max'} & values.keys() - plugin.schema.keys()):
        field = f'{within}.{name}' if within else name
        raise exceptions.BadRequest(
            f'{field}: must be left out: a reservation of {kind} is one resource.',
            field=field,
        )
    named = {**values, 'resource_type': resource_types.api_name(kind)}
    return {**validation.check(named, schema.of_plugin(plugin), within), 'resource_type': kind}


def _plugin(backend: Backend, kind: str, within: str) -> type[base.ResourcePlugin]:
    plugin = backend.plugins.get(kind)
    if plugin is None:
        known = ', '.join(resource_types.api_names(backend.plugins)) or 'nothing'
        raise exceptions.UnknownResourceType(
            f'{kind!r} cannot be reserved here, only {known}.',
            field=f'{within}.resource_type' if within else 'resource_type',
        )
    return plugin


def list_plugins(backend: Backend, request: Request) -> webob.Response:
    """List every type of resource, with the schema of a reservation."""
    policy.authorize(backend.enforcer, request.context, policies.GET_PLUGINS, {})
    return answer(
        200, {'plugins': [_serialize_plugin(plugin) for plugin in backend.plugins.values()]}
    )


def _serialize_plugin(plugin: type[base.ResourcePlugin]) -> dict[str, Any]:
    return {
        'resource_type': resource_types.api_name(plugin.resource_type),
        'title': plugin.title,
        'description': plugin.description,
        'schema': schema.of_plugin(plugin),
    }
