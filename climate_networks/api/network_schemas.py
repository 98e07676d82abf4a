# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of network segments that are set apart for leases."""

from typing import Any

from climate_common import limits
from climate_core.api import registered_units
from climate_core.api.schemas import common
from climate_networks.domain import networks

_TYPE: dict[str, Any] = {'type': 'string', 'enum': [*networks.TYPES]}
_HIGHEST = max(networks.TYPES.values())
_OF_OPERATORS: dict[str, Any] = {
    'reservable': registered_units.RESERVABLE,
    'project_ids': {
        **registered_units.IDS,
        'description': 'The projects that may be promised it.',
    },
    'domain_ids': {
        **registered_units.IDS,
        'description': 'The domains all of whose projects may be promised it; none here and in '
        'project_ids: all may.',
    },
}
CREATE: dict[str, Any] = {
    **registered_units.with_extra(
        {
            'network_type': {**_TYPE, 'description': 'The type of the segment.'},
            'physical_network': {
                'anyOf': [limits.NAME_SCHEMA, {'type': 'null'}],
                'description': 'The physical network of a VLAN, as Neutron calls it. The other '
                'types have none.',
            },
            'segment_id': {
                'type': ['integer', 'string'],
                'minimum': 1,
                'maximum': _HIGHEST,
                'minLength': 1,
                'maxLength': 16,
                'description': 'The number of the VLAN, or of the tunnel, that Neutron does not '
                'choose for others.',
            },
            'segment_range': {
                'type': 'string',
                'minLength': 1,
                'maxLength': 64,
                'description': 'In place of it the first and the last of many, as 100-199; '
                f'{networks.MOST} at most.',
            },
            **_OF_OPERATORS,
        }
    ),
    'required': ['network_type'],
    'oneOf': [{'required': ['segment_id']}, {'required': ['segment_range']}],
}
UPDATE: dict[str, Any] = registered_units.with_values(
    {
        **_OF_OPERATORS,
        'generation': {
            'type': 'integer',
            'minimum': 0,
            'description': 'That of the segment as it was seen: if it has another one by now, '
            'nothing is changed (409).',
        },
    }
)
UPDATE['description'] = 'null takes an extra property away.'

_FACTS: dict[str, Any] = {
    'id': {'type': 'string'},
    'network_type': {'type': 'string'},
    'physical_network': {'type': ['string', 'null']},
    'segment_id': {'type': 'integer'},
    'reservable': {'type': 'boolean', 'description': 'Whether it takes new promises.'},
    'created_at': common.STAMP,
    'updated_at': common.STAMP,
}
SHOWN: dict[str, Any] = {
    'type': 'object',
    'description': 'Besides these properties it has the extra ones.',
    'properties': {
        **_FACTS,
        'project_ids': {
            **registered_units.IDS,
            'description': 'Only for those who may see the segments of all projects.',
        },
        'domain_ids': {**registered_units.IDS, 'description': 'The same.'},
        'generation': {
            'type': 'integer',
            'description': 'Counts the changes by operators; for the same.',
        },
    },
    'required': [*_FACTS],
}
ONE: dict[str, Any] = common.envelope('network', SHOWN)
#: Clients of Blazar read one; of a range all are there.
CREATED: dict[str, Any] = common.closed(
    {
        'network': SHOWN,
        'networks': {'type': 'array', 'items': SHOWN, 'description': 'All of a range, in order.'},
    },
    ('network',),
)
MANY: dict[str, Any] = common.page_of('networks', SHOWN)
PROPERTIES = registered_units.properties_schema('segments')
PROPERTIES_QUERY = registered_units.properties_query(
    'segments', 'climate:networks:get_private_properties'
)
PROPERTY = registered_units.property_schema('network')
QUERY: dict[str, dict[str, Any]] = {
    'network_type': {**_TYPE, 'description': 'Only those of this type.'},
    'physical_network': {
        **limits.NAME_SCHEMA,
        'description': 'Only those of this physical network.',
    },
    'segment_id': {
        'type': 'integer',
        'minimum': 1,
        'maximum': _HIGHEST,
        'description': 'Only those with this number.',
    },
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('network segment'),
}
