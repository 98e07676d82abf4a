# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of usage and limits of projects."""

from typing import Any

from climate_common import resource_types
from climate_core.api.schemas import common
from climate_core.lease.limits import NAMES


def _hours(about: str) -> dict[str, Any]:
    each: dict[str, Any] = {'type': 'number', 'minimum': 0}
    schema = common.closed(
        dict.fromkeys(resource_types.UNIT_HOURS, each), tuple(resource_types.UNIT_HOURS)
    )
    return {**schema, 'description': about}


SHOWN: dict[str, Any] = common.closed(
    {
        'project_id': {'type': 'string'},
        'start': common.ANSWERED_DATE,
        'end': {
            **common.ANSWERED_DATE,
            'description': 'Not later than now, but with ``planned``. '
            + common.ANSWERED_DATE['description'],
        },
        'leases': {
            'type': 'integer',
            'minimum': 0,
            'description': 'How many leases had, or have, something reserved in the period, '
            'or gave it up to other leases.',
        },
        'reserved': _hours('From the making of each reservation until it is freed.'),
        'used': _hours('From the waking of each resource until it is freed.'),
        'preempted': _hours(
            'What preemptible leases gave up, from then on until they had it again, or their end. '
            'It is not in ``reserved`` and ``used``.'
        ),
        'planned': _hours(
            'What is held or promised from now on, until the end of each reservation; only with '
            '``planned``.'
        ),
    },
    ('project_id', 'start', 'end', 'leases', 'reserved', 'used', 'preempted'),
)
MANY: dict[str, Any] = common.envelope('usage', {'type': 'array', 'items': SHOWN})
QUERY: dict[str, dict[str, Any]] = {
    'start': {
        **common.DATE,
        'description': 'When the period starts; without it, with the month, or with ``planned`` '
        '4 weeks before the present one. ' + common.DATE['description'],
    },
    'end': {
        **common.DATE,
        'description': 'When the period ends; without it, now, or with ``planned`` 8 weeks after '
        'the present one begins. ' + common.DATE['description'],
    },
    'planned': {
        'type': 'boolean',
        'description': 'true: by week, from Monday in UTC, and project, with what is still to '
        'come of leases that are promised; 371 days at most.',
    },
    'project_id': {
        **common.TEXT,
        'description': 'Only this project. Without it: all of them for whom the policy '
        '``climate:usage:get_all`` allows it, and the own one for everybody else.',
    },
}


_LIMIT: dict[str, Any] = common.closed(
    {
        'limit': {'type': 'integer', 'minimum': -1, 'description': '-1: there is no limit.'},
        'used': {'type': 'integer', 'minimum': 0, 'description': 'What the live leases hold.'},
    },
    ('limit', 'used'),
)
_LIMITS: dict[str, Any] = common.closed(dict.fromkeys(NAMES, _LIMIT), NAMES)
LIMITS: dict[str, Any] = common.envelope('limits', _LIMITS)
LIMITS_QUERY: dict[str, dict[str, Any]] = {
    'project_id': {
        **common.TEXT,
        'description': 'The limits of this project. Without it: of the own one.',
    },
}
