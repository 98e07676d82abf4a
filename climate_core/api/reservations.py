# SPDX-License-Identifier: Apache-2.0
"""Reservations in requests: their schemas, the forms of Blazar's clients, and the calls.

What a reservation has beside its type is declared by the plugin of the type.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import webob

from climate_common import limits, resource_types
from climate_core import exceptions, policies
from climate_core.api import policy, validation
from climate_core.api.request import (
    Backend,
    Request,
    answer,
    drop_unchanged,
    expected_generation,
    set_etag,
)
from climate_core.api.schemas import common
from climate_core.db import leases as db
from climate_core.lease import model, states, views
from climate_core.lease.request import prefix_field
from climate_core.plugins import base

RESOURCE_TYPE: dict[str, Any] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': limits.TYPE_LENGTH,
    'description': 'The type of the resource, see GET /v1/plugins.',
}

#: The fields of all types; :func:`of_plugin` has the others.
CREATE: dict[str, Any] = {
    'type': 'object',
    'properties': {'resource_type': RESOURCE_TYPE},
    'required': ['resource_type'],
}

#: A change; :func:`change_of_plugin` has the fields.
CHANGE: dict[str, Any] = {
    'type': 'object',
    'description': 'The fields that the type of the resource lets change, as on_end.',
}
#: A change in a list of changes.
LISTED_CHANGE: dict[str, Any] = {
    **CHANGE,
    'properties': {'id': common.UUID},
    'required': ['id'],
}

SHOWN: dict[str, Any] = {
    'type': 'object',
    'description': 'Besides these properties it has those of its plugin.',
    'properties': {
        'id': common.UUID,
        'lease_id': common.UUID,
        'resource_id': {'type': 'string'},
        'resource_type': RESOURCE_TYPE,
        'status': {'type': 'string', 'enum': [str(each) for each in states.ReservationStatus]},
        'status_reason': common.REASON,
        'missing_resources': {'type': 'boolean'},
        'resources_changed': {'type': 'boolean'},
        'end_date': {
            **common.ANSWERED_DATE,
            'description': 'End of a reservation that could not be extended with its lease.',
        },
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
    },
}
ONE: dict[str, Any] = common.envelope('reservation', SHOWN)
PLUGIN: dict[str, Any] = common.closed(
    {
        'resource_type': {'type': 'string'},
        'title': {'type': 'string'},
        'description': {'type': 'string'},
        'schema': {
            'type': 'object',
            'description': 'JSON Schema of a reservation of this type.',
        },
    }
)
PLUGINS: dict[str, Any] = common.envelope('plugins', {'type': 'array', 'items': PLUGIN})


@functools.cache
def of_plugin(plugin: type[base.ResourcePlugin]) -> dict[str, Any]:
    """Return the schema of a whole reservation of the plugin's type."""
    properties = {
        'resource_type': {
            'type': 'string',
            'enum': [resource_types.api_name(plugin.resource_type)],
        },
        **plugin.schema,
    }
    return common.closed(properties, ('resource_type', *plugin.required))


@functools.cache
def change_of_plugin(plugin: type[base.ResourcePlugin]) -> dict[str, Any]:
    """Return the schema of a change of a reservation of the plugin's type."""
    return common.closed({name: plugin.schema[name] for name in plugin.changeable})


#: The fields of the sizes of servers.
_SIZES: Final = frozenset({resource_types.VCPUS, resource_types.MEMORY_MB, resource_types.DISK_GB})
#: Fields that Blazar's command line always sends -> the value of an omitted option
#: (python-blazarclient 4.6.0, v1/shell_commands/leases.py).
_OMITTED = {
    'vcpus': '',
    'memory_mb': '',
    'disk_gb': '',
    'amount': '',
    'affinity': 'None',
    'resource_properties': '',
}
#: Types -> fields that they do not have -> the values with which clients of Chameleon send them.
_IGNORED: Final[Mapping[str, Mapping[str, Sequence[Any]]]] = {
    resource_types.HOST: {'on_start': ('', 'default', None)},
    resource_types.FLOATING_IP: {'resource_properties': ('', '[]', None)},
}
#: Types whose ``resource_properties`` choose units of the calendar, also by their ``id``.
_FILTERED: Final = frozenset(
    {resource_types.HOST, resource_types.CAPACITY, resource_types.NETWORK}
)
#: Types that are internal -> how requests name them.
_INTERNAL_TYPES = {
    resource_types.SIZES: f'capacity for servers by sizes is {resource_types.SERVER}, without a '
    'resource_id',
    resource_types.HELD_FLOATING_IP: f'a floating IP that you have is '
    f'{resource_types.FLOATING_IP}, with its resource_id',
}


def convert_reservations(listed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert each item of a list with :func:`convert_reservation`; errors name its place."""
    converted = []
    for number, values in enumerate(listed):
        with prefix_field(f'reservations[{number}]'):
            converted.append(convert_reservation(values))
    return converted


def convert_reservation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a reservation of Blazar's clients to the fields of this API.

    Blazar filters resources by ``resource_properties``; the filter ``["==", "$id", "<id>"]`` is
    ``resource_id`` here, but for units of the calendar. Two forms have an internal type:
    ``virtual:instance`` with sizes and without a resource, which is capacity for servers, and
    ``virtual:floatingip`` with a resource. Empty fields of other clients are dropped. Other
    fields stay as they are, for the schemas to validate.

    :raises climate_core.exceptions.UnknownResourceType: the request names an internal type
    """
    values = _drop_ignored(values)
    resource_type = values.get('resource_type')
    if resource_type in _INTERNAL_TYPES:
        raise exceptions.UnknownResourceType(
            f'resource_type: {_INTERNAL_TYPES[resource_type]}, and not {resource_type}.',
            field='resource_type',
        )
    if resource_type in _FILTERED:
        return dict(values)
    resource_id = _requested_id(values.get('resource_properties'))
    if 'resource_id' in values:
        held = {'resource_type': resource_types.HELD_FLOATING_IP}
        return {**values, **(held if resource_type == resource_types.FLOATING_IP else {})}
    if resource_id is None:
        return _by_sizes(values)
    rest = {
        name: value
        for name, value in values.items()
        if name != 'resource_properties' and (name not in _OMITTED or value != _OMITTED[name])
    }
    return {**rest, 'resource_id': resource_id}


def _drop_ignored(values: Mapping[str, Any]) -> Mapping[str, Any]:
    ignored = _IGNORED.get(str(values.get('resource_type')), {})
    return {
        name: value
        for name, value in values.items()
        if name not in ignored or value not in ignored[name]
    }


def _by_sizes(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name for name in _SIZES if values.get(name) not in (None, '')}
    if values.get('resource_type') != resource_types.SERVER or not given:
        return dict(values)
    # Clients send omitted fields as empty strings, Heat sends null.
    sent = {name: value for name, value in values.items() if value is not None and value != ''}
    return {**sent, 'resource_type': resource_types.SIZES}


def _requested_id(text: Any) -> str | None:
    try:
        condition = limits.decode(text)
    except (TypeError, ValueError):
        return None
    match condition:
        case ['=' | '==', '$id', str(resource_id)]:
            return resource_id
    return None


def create(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """Add a resource; if the lease has it already, its reservation is returned unchanged."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.CREATE_RESERVATION, lease)
    values = check_reservation(backend, convert_reservation(request.read_body(CREATE)))
    generation = expected_generation(request)
    with backend.reserving.turn(request.context, values):
        reservation_id = backend.manager_client.add_reservation(
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
    shown = views.reservation_view(reservation, lease)
    body = request.read_body(CHANGE, lambda sent: drop_unchanged(sent, shown))
    values = _check_change(backend, reservation, body)
    generation = expected_generation(request)
    backend.manager_client.update_reservation(
        request.context, lease_id, reservation_id, values, generation
    )
    return _answer(backend, 200, lease_id, reservation_id)


def delete(
    backend: Backend, request: Request, lease_id: str, reservation_id: str
) -> webob.Response:
    """Remove a resource from a lease, which continues; its end action is applied."""
    lease = backend.database.read(db.get, lease_id)
    policy.authorize_lease(backend.enforcer, request.context, policies.DELETE_RESERVATION, lease)
    generation = expected_generation(request)
    backend.manager_client.remove_reservation(
        request.context, lease_id, reservation_id, generation
    )
    return answer(204)


def drop_unchanged_items(listed: Any, shown: Sequence[Mapping[str, Any]]) -> Any:
    """Return a list of changes without the values, and the items, that change nothing.

    :param listed: as it was sent; what is no list of changes stays for the schema to reject
    :param shown: the reservations of the lease as the API shows them
    """
    if not isinstance(listed, list):
        return listed
    by_id = {reservation['id']: reservation for reservation in shown}
    changes = []
    for item in listed:
        known = by_id.get(str(item.get('id')).lower()) if isinstance(item, dict) else None
        change = item if known is None else drop_unchanged(item, known, {'id'})
        if known is None or change.keys() != {'id'}:
            changes.append(change)
    return changes


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
            reason = f'cannot be changed after the reservation is created; {can_be} can be'
        raise exceptions.BadRequest(
            f'{field}: {reason}. For another one add a new reservation and remove this one.',
            field=field,
        )
    values = validation.convert_numbers(values, plugin.schema)
    return dict(validation.check(values, change_of_plugin(plugin), within))


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
    resource_type = values['resource_type']
    plugin = _plugin(backend, resource_type, within)
    for name in sorted({'min', 'max'} & values.keys() - plugin.schema.keys()):
        field = f'{within}.{name}' if within else name
        raise exceptions.BadRequest(
            f'{field}: must be left out: a reservation of {resource_type} is one resource.',
            field=field,
        )
    named = {
        **validation.convert_numbers(values, plugin.schema),
        'resource_type': resource_types.api_name(resource_type),
    }
    return {**validation.check(named, of_plugin(plugin), within), 'resource_type': resource_type}


def _plugin(backend: Backend, resource_type: str, within: str) -> type[base.ResourcePlugin]:
    plugin = backend.plugins.get(resource_type)
    if plugin is None:
        known = ', '.join(resource_types.api_names(backend.plugins)) or 'nothing'
        raise exceptions.UnknownResourceType(
            f'{resource_type!r} cannot be reserved here, only {known}.',
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
        'schema': of_plugin(plugin),
    }
