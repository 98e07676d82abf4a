# SPDX-License-Identifier: Apache-2.0
"""The limits of a project, and what it holds."""

from typing import Any

from climate_common.limits import NAME_LENGTH, TEXT_PATTERN, json_pattern
from climate_core.api.schemas import common
from climate_core.lease import limits

_ONE: dict[str, Any] = common.closed(
    {
        'limit': {'type': 'integer', 'minimum': -1, 'description': '-1: there is no limit.'},
        'used': {'type': 'integer', 'minimum': 0, 'description': 'What the live leases hold.'},
    },
    ('limit', 'used'),
)
SHOWN: dict[str, Any] = common.closed(dict.fromkeys(limits.NAMES, _ONE), limits.NAMES)
ONE: dict[str, Any] = common.envelope('limits', SHOWN)
QUERY: dict[str, dict[str, Any]] = {
    'project_id': {
        'type': 'string',
        'minLength': 1,
        'maxLength': NAME_LENGTH,
        'pattern': json_pattern(TEXT_PATTERN),
        'description': 'The limits of this project. Without it: of the own one.',
    },
}
