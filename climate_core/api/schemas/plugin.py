# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the types of resources that can be reserved."""

from typing import Any

from climate_core.api.schemas import common

SHOWN: dict[str, Any] = common.closed(
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
MANY: dict[str, Any] = common.envelope('plugins', {'type': 'array', 'items': SHOWN})
