# SPDX-License-Identifier: Apache-2.0
"""The limits of a project, and what it holds."""

from typing import Any

from climate_common import limits
from climate_core.api.schemas import common
from climate_core.lease.limits import NAMES

_ONE: dict[str, Any] = common.closed(
    {
        'limit': {'type': 'integer', 'minimum': -1, 'description': '-1: there is no limit.'},
        'used': {'type': 'integer', 'minimum': 0, 'description': 'What the live leases hold.'},
    },
    ('limit', 'used'),
)
SHOWN: dict[str, Any] = common.closed(dict.fromkeys(NAMES, _ONE), NAMES)
ONE: dict[str, Any] = common.envelope('limits', SHOWN)
QUERY: dict[str, dict[str, Any]] = {
    'project_id': {
        'type': 'string',
        'minLength': 1,
        'maxLength': limits.NAME_LENGTH,
        'pattern': limits.json_pattern(limits.TEXT_PATTERN),
        'description': 'The limits of this project. Without it: of the own one.',
    },
}
