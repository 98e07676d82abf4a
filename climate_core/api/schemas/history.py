# SPDX-License-Identifier: Apache-2.0
"""The history of a lease: what is answered."""

from typing import Any, Final

from climate_core.api.schemas import common, paging
from climate_core.lease import history

NEWEST_FIRST: Final = 'time:desc'

SHOWN: dict[str, Any] = common.closed(
    {
        'id': {'type': 'integer', 'description': 'Grows with time.'},
        'time': common.ANSWERED_DATE,
        'action': {
            'type': 'string',
            'description': 'What happened: ``lease.create``, ``lease.update``, '
            '``event.start_lease`` ...',
        },
        'result': {'type': 'string', 'enum': list(history.RESULTS)},
        'reason': {'type': ['string', 'null'], 'description': 'Why it failed, or is tried again.'},
        'user_id': {
            'type': ['string', 'null'],
            'description': 'Who did it; null: the service itself.',
        },
        'request_id': {
            'type': ['string', 'null'],
            'description': 'X-OpenStack-Request-ID of the request; for an event that of the '
            'calls to other services.',
        },
        'changes': {
            'type': 'object',
            'description': 'By field: [before, after]. Under ``reservations``, by id, the same '
            'for each reservation.',
        },
    }
)
MANY: dict[str, Any] = paging.many('history', SHOWN)
QUERY: dict[str, dict[str, Any]] = {
    'limit': paging.LIMIT,
    'marker': {
        'type': 'integer',
        'minimum': 0,
        'maximum': 2**63 - 1,
        'description': 'The id of the last entry of the page before.',
    },
    'sort': {
        'type': 'string',
        'enum': ['time:asc', NEWEST_FIRST],
        'description': 'Which entries come first. Without it: the oldest.',
    },
}
