# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of floating IPs and network segments that are registered for leases."""

from typing import Any

from climate_common import limits
from climate_core.api import registered_units
from climate_core.api.schemas import common
from climate_networks import units

_ADDRESS: dict[str, Any] = {'type': 'string', 'minLength': 1, 'maxLength': 15}
CREATE_FLOATING_IP: dict[str, Any] = {
    **common.closed(
        {
            'floating_network_id': {**common.UUID, 'description': 'The external network.'},
            'floating_ip_address': {
                **_ADDRESS,
                'description': 'An IPv4 address in a subnet of the network that Neutron never '
                'allocates: in no allocation pool, and not the gateway.',
            },
            'floating_ip_range': {
                'type': 'string',
                'minLength': 1,
                'maxLength': 64,
                'description': 'In place of it the first and the last of many, as '
                f'203.0.113.20-203.0.113.99; {units.MAX_ADDRESSES} at most.',
            },
        },
        ('floating_network_id',),
    ),
    'oneOf': [{'required': ['floating_ip_address']}, {'required': ['floating_ip_range']}],
}
FLOATING_IP: dict[str, Any] = common.closed(
    {
        'id': {'type': 'string'},
        'floating_network_id': {'type': 'string'},
        'subnet_id': {'type': 'string'},
        'floating_ip_address': {'type': 'string'},
        'reservable': {'type': 'boolean', 'description': 'Whether it takes new promises.'},
        'created_at': common.STAMP,
    }
)
ONE_FLOATING_IP: dict[str, Any] = common.envelope('floatingip', FLOATING_IP)
#: Clients of Blazar read one; of a range all are there.
CREATED_FLOATING_IPS: dict[str, Any] = common.closed(
    {
        'floatingip': FLOATING_IP,
        'floatingips': {
            'type': 'array',
            'items': FLOATING_IP,
            'description': 'All of a range, in order.',
        },
    },
    ('floatingip',),
)
FLOATING_IPS: dict[str, Any] = common.page_of('floatingips', FLOATING_IP)
FLOATING_IP_QUERY: dict[str, dict[str, Any]] = {
    'floating_network_id': {**common.UUID, 'description': 'Only those of this network.'},
    'floating_ip_address': {**_ADDRESS, 'description': 'Only this address.'},
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('floating IP'),
}


_NETWORK_TYPE: dict[str, Any] = {'type': 'string', 'enum': [*units.NETWORK_TYPES]}
_MAX_SEGMENT_ID = max(units.NETWORK_TYPES.values())
_OPERATOR_FIELDS: dict[str, Any] = {
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
CREATE_NETWORK: dict[str, Any] = {
    **registered_units.with_extra(
        {
            'network_type': {**_NETWORK_TYPE, 'description': 'The type of the segment.'},
            'physical_network': {
                'anyOf': [limits.NAME_SCHEMA, {'type': 'null'}],
                'description': 'The physical network of a VLAN, as Neutron calls it. The other '
                'types have none.',
            },
            'segment_id': {
                'type': ['integer', 'string'],
                'minimum': 1,
                'maximum': _MAX_SEGMENT_ID,
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
                f'{units.MAX_SEGMENTS} at most.',
            },
            **_OPERATOR_FIELDS,
        }
    ),
    'required': ['network_type'],
    'oneOf': [{'required': ['segment_id']}, {'required': ['segment_range']}],
}
UPDATE_NETWORK: dict[str, Any] = registered_units.with_values(
    {
        **_OPERATOR_FIELDS,
        'generation': {
            'type': 'integer',
            'minimum': 0,
            'description': 'That of the segment as it was seen: if it has another one by now, '
            'nothing is changed (409).',
        },
    }
)
UPDATE_NETWORK['description'] = 'null takes an extra property away.'

_NETWORK_FIELDS: dict[str, Any] = {
    'id': {'type': 'string'},
    'network_type': {'type': 'string'},
    'physical_network': {'type': ['string', 'null']},
    'segment_id': {'type': 'integer'},
    'reservable': {'type': 'boolean', 'description': 'Whether it takes new promises.'},
    'created_at': common.STAMP,
    'updated_at': common.STAMP,
}
NETWORK: dict[str, Any] = {
    'type': 'object',
    'description': 'Besides these properties it has the extra ones.',
    'properties': {
        **_NETWORK_FIELDS,
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
    'required': [*_NETWORK_FIELDS],
}
ONE_NETWORK: dict[str, Any] = common.envelope('network', NETWORK)
#: Clients of Blazar read one; of a range all are there.
CREATED_NETWORKS: dict[str, Any] = common.closed(
    {
        'network': NETWORK,
        'networks': {
            'type': 'array',
            'items': NETWORK,
            'description': 'All of a range, in order.',
        },
    },
    ('network',),
)
NETWORKS: dict[str, Any] = common.page_of('networks', NETWORK)
PROPERTIES = registered_units.properties_schema('segments')
PROPERTIES_QUERY = registered_units.properties_query(
    'segments', 'climate:networks:get_private_properties'
)
PROPERTY = registered_units.property_schema('network')
NETWORK_QUERY: dict[str, dict[str, Any]] = {
    'network_type': {**_NETWORK_TYPE, 'description': 'Only those of this type.'},
    'physical_network': {
        **limits.NAME_SCHEMA,
        'description': 'Only those of this physical network.',
    },
    'segment_id': {
        'type': 'integer',
        'minimum': 1,
        'maximum': _MAX_SEGMENT_ID,
        'description': 'Only those with this number.',
    },
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('network segment'),
}
