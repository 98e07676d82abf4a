# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of hosts."""

from typing import Any

from climate_core.api.schemas import common

SHOWN: dict[str, Any] = common.closed(
    {
        'id': {'type': 'string'},
        'hypervisor_hostname': {'type': 'string'},
        'service_name': {'type': 'string'},
        'reservable': {'type': 'boolean', 'description': 'Whether it can be reserved as a whole.'},
    },
    ('id', 'hypervisor_hostname', 'service_name', 'reservable'),
)
MANY: dict[str, Any] = common.envelope('hosts', {'type': 'array', 'items': SHOWN})
