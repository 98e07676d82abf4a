# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of reservations, and of the types of resources that can be reserved.

What a reservation has beside its type is declared by the plugin of the type.
"""

from typing import Any

from climate_common import limits, resource_types
from climate_core.api.schemas import common
from climate_core.lease import states
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
    'description': 'What the type of the resource lets change, as on_end.',
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
            'description': 'Of one that could not be extended with its lease: when it ends.',
        },
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
    },
}


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


def change_of_plugin(plugin: type[base.ResourcePlugin]) -> dict[str, Any]:
    """Return the schema of a change of a reservation of the plugin's type."""
    return common.closed({name: plugin.schema[name] for name in plugin.changeable})


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
