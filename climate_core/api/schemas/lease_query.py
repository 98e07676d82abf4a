# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the queries for leases."""

from typing import Any

from climate_common import limits
from climate_core.api.schemas import common, lease, paging
from climate_core.db import listing
from climate_core.lease import states

_DIRECTIONS = ('asc', 'desc')
_TEXT: dict[str, Any] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
}


def _list(*allowed: str, **more: str) -> dict[str, Any]:
    return {'type': 'array', 'items': {'type': 'string', 'enum': list(allowed)}, **more}


FIELDS: dict[str, Any] = paging.fields(lease.SHOWN)

MANY: dict[str, dict[str, Any]] = {
    'status': _list(*states.LeaseStatus, description='Only leases in one of these.'),
    'name': {**_TEXT, 'description': 'Only leases with exactly this name.'},
    'resource_type': {
        **_TEXT,
        'maxLength': limits.TYPE_LENGTH,
        'description': 'Only leases with a reservation of this type, whatever became of it.',
    },
    'resource_id': {
        **_TEXT,
        'description': 'Only leases with a reservation of this resource, whatever became of it.',
    },
    'project_id': {
        **_TEXT,
        'description': 'Only leases of this project. Another than the own one needs the policy '
        '``climate:leases:get_all``.',
    },
    'from': {
        **common.DATE,
        'description': 'Only leases that end after this time. ' + common.DATE['description'],
    },
    'until': {
        **common.DATE,
        'description': 'Only leases that start before this time. ' + common.DATE['description'],
    },
    'deleted': {
        'type': 'boolean',
        'description': 'true: only deleted leases, which are kept until they are purged, instead '
        'of only the others.',
    },
    'sort': _list(
        *(each for key in listing.SORT_KEYS for each in (key, f'{key}:asc', f'{key}:desc')),
        description='What the leases are sorted by, first things first. Without it: '
        '``created_at``.',
    ),
    'sort_key': _list(*listing.SORT_KEYS, description='Another way to write ``sort``.'),
    'sort_dir': _list(*_DIRECTIONS, description='The direction of each ``sort_key``.'),
    'limit': paging.LIMIT,
    'marker': {
        **common.UUID,
        'description': 'The id of the last lease of the page before.',
    },
    'fields': FIELDS,
}
ONE: dict[str, dict[str, Any]] = {'fields': FIELDS}
