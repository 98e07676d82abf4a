# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of feeds of leases for calendars."""

from typing import Any, Final

from climate_common import limits
from climate_core.api.schemas import common

CREATE: Final[dict[str, Any]] = common.closed(
    {
        'name': {**limits.NAME_SCHEMA, 'description': 'What reads it, to know it by.'},
    },
    ('name',),
)
_SHOWN: Final[dict[str, Any]] = {
    'id': common.UUID,
    'name': {'type': 'string'},
    'project_id': {'type': 'string'},
    'user_id': {'type': 'string'},
    'created_at': common.STAMP,
}
_NEW: Final[dict[str, Any]] = {
    **_SHOWN,
    'token': {'type': 'string', 'description': 'Shown this once, and kept by nobody.'},
    'url': {'type': 'string', 'description': 'For a calendar; it has the token.'},
}
CREATED: Final[dict[str, Any]] = common.envelope('feed', common.closed(_NEW, tuple(_NEW)))
MANY: Final[dict[str, Any]] = common.envelope(
    'feeds', {'type': 'array', 'items': common.closed(_SHOWN, tuple(_SHOWN))}
)
#: Of the feed itself.
READ_QUERY: Final[dict[str, dict[str, Any]]] = {
    'token': {'type': 'string', 'description': 'The token of the feed.'}
}
