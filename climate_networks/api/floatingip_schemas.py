# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of floating IPs that are set apart for leases."""

from typing import Any

from climate_core.api.schemas import common
from climate_networks.domain import floatingips

_ADDRESS: dict[str, Any] = {'type': 'string', 'minLength': 1, 'maxLength': 15}
CREATE: dict[str, Any] = {
    **common.closed(
        {
            'floating_network_id': {**common.UUID, 'description': 'The external network.'},
            'floating_ip_address': {
                **_ADDRESS,
                'description': 'An IPv4 address in a subnet of the network that Neutron gives to '
                'nobody: in no allocation pool, and not the gateway.',
            },
            'floating_ip_range': {
                'type': 'string',
                'minLength': 1,
                'maxLength': 64,
                'description': 'In place of it the first and the last of many, as '
                f'203.0.113.20-203.0.113.99; {floatingips.MOST} at most.',
            },
        },
        ('floating_network_id',),
    ),
    'oneOf': [{'required': ['floating_ip_address']}, {'required': ['floating_ip_range']}],
}
SHOWN: dict[str, Any] = common.closed(
    {
        'id': {'type': 'string'},
        'floating_network_id': {'type': 'string'},
        'subnet_id': {'type': 'string'},
        'floating_ip_address': {'type': 'string'},
        'reservable': {'type': 'boolean', 'description': 'Whether it takes new promises.'},
        'created_at': common.STAMP,
    }
)
ONE: dict[str, Any] = common.envelope('floatingip', SHOWN)
#: Clients of Blazar read one; of a range all are there.
CREATED: dict[str, Any] = common.closed(
    {
        'floatingip': SHOWN,
        'floatingips': {
            'type': 'array',
            'items': SHOWN,
            'description': 'All of a range, in order.',
        },
    },
    ('floatingip',),
)
MANY: dict[str, Any] = common.page_of('floatingips', SHOWN)
QUERY: dict[str, dict[str, Any]] = {
    'floating_network_id': {**common.UUID, 'description': 'Only those of this network.'},
    'floating_ip_address': {**_ADDRESS, 'description': 'Only this address.'},
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('floating IP'),
}
