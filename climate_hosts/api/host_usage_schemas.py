# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the usage of hosts."""

from typing import Any

from climate_core.api.schemas import common, usage

_SHOWN: dict[str, Any] = common.closed(
    {
        'hypervisor_hostname': {'type': 'string'},
        'start': usage.SHOWN['properties']['start'],
        'end': usage.SHOWN['properties']['end'],
        'asleep_hours': {
            'type': 'number',
            'minimum': 0,
            'description': 'How many hours of the period it was switched off.',
        },
        'saved_kwh': {
            'type': ['number', 'null'],
            'description': 'The energy that it did not need; null where it is not known.',
        },
    },
    ('hypervisor_hostname', 'start', 'end', 'asleep_hours', 'saved_kwh'),
)
USAGE: dict[str, Any] = common.envelope('usage', {'type': 'array', 'items': _SHOWN})
QUERY: dict[str, dict[str, Any]] = {name: usage.QUERY[name] for name in ('start', 'end')}
