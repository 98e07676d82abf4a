# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the calendar, of availability, and of the feeds for calendars."""

from typing import Any, Final

from climate_common import dates, limits, resource_types
from climate_core.api import reservations
from climate_core.api.schemas import common
from climate_core.db import timeline
from climate_core.lease import states

#: Maximum number of properties by which capacity is grouped.
MAX_PROPERTIES: Final = 4
QUERY: Final[dict[str, dict[str, Any]]] = {
    'from': {
        **common.DATE,
        'description': 'Default now. A time that counts from now is cut to the whole minute, so '
        'that the same request has the same ETag for a minute. ' + common.DATE['description'],
    },
    'to': {
        **common.DATE,
        'description': 'Default 7 days after from; at most 92 days after it. '
        + common.DATE['description'],
    },
    'group_by': {
        'type': 'string',
        'enum': sorted(timeline.ORDERS),
        'description': 'How bars are grouped: by resource (default), or by lease.',
    },
    'all_projects': {
        'type': 'boolean',
        'description': 'true: the leases of all projects; needs the policy '
        '``climate:leases:get_all``.',
    },
    'hosts': {
        'type': 'boolean',
        'description': 'true: hosts and their allocations, instead of leases; needs the '
        'policy ``climate:hosts:get_allocations``.',
    },
    'lease_id': {**common.UUID, 'description': 'Only the reservations of this lease.'},
    'free_until': {
        'type': 'boolean',
        'description': 'true: bars have ``free_until``.',
    },
    'capacity': {
        'type': 'boolean',
        'description': 'false: without the capacity. Default true.',
    },
    'properties': {
        'type': 'array',
        'maxItems': MAX_PROPERTIES,
        'items': {'type': 'string', 'pattern': limits.json_pattern(limits.PROPERTY_PATTERN)},
        'description': 'Names of properties of hosts that group capacity, as '
        f'availability_zone or an extra property; {MAX_PROPERTIES} at most.',
    },
    'limit': common.PAGE_LIMIT,
    'marker': {
        'type': 'string',
        'pattern': r'^([0-9]{1,18}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})(?!\n)$',
        'description': 'The id of the last reservation of the previous page; with ``hosts`` of '
        'the last host.',
    },
}
_OF_LEASE: Final[dict[str, Any]] = {
    'lease_id': common.UUID,
    'lease_name': {'type': 'string', 'maxLength': limits.NAME_LENGTH},
    'project_id': {'type': 'string'},
    'status': {
        'type': 'string',
        'enum': [*states.LeaseStatus],
        'description': 'Of the lease.',
    },
    'reservation_id': common.UUID,
}
_TIMES: Final[dict[str, Any]] = {
    'start_date': common.ANSWERED_DATE,
    'end_date': common.ANSWERED_DATE,
}
BAR: Final[dict[str, Any]] = common.closed(
    {
        **_OF_LEASE,
        'kind': {'type': 'string', 'enum': [*states.LeaseKind]},
        'resource_type': {'type': 'string'},
        'resource_id': {'type': 'string'},
        'resource_names': {
            'type': 'array',
            'items': {'type': 'string'},
            'description': 'The addresses of floating IPs, or the segment of a network, as VLAN '
            '1201 of physnet1; of other resources none.',
        },
        **_TIMES,
        'free_until': {
            **common.ANSWERED_DATE,
            'type': ['string', 'null'],
            'description': 'Only if requested: until when its whole hosts, addresses or network '
            'are allocated to no other lease, so that the calendar allows an end until then; '
            'null: they have no later allocation, or nothing of the calendar is allocated to it '
            'as a whole.',
        },
    },
    (*_OF_LEASE, 'kind', 'resource_type', 'resource_id', 'resource_names', *_TIMES),
)
HOST_BAR: Final[dict[str, Any]] = {
    **common.closed({**_OF_LEASE, **_TIMES}, (*_OF_LEASE, *_TIMES)),
    'description': 'The times include what prepares and cleans the host.',
}
HOST: Final[dict[str, Any]] = common.closed(
    {
        'id': {'type': 'string'},
        'hypervisor_hostname': {'type': 'string'},
        'pool': {'type': 'string'},
        'reservable': {'type': 'boolean'},
        'bars': {'type': 'array', 'items': HOST_BAR},
    },
    ('id', 'hypervisor_hostname', 'pool', 'reservable', 'bars'),
)
_AMOUNTS: Final = {
    'total': 'Total amount, including units that take no new allocations.',
    'promised': 'Amount that is allocated to all projects.',
    'own': 'Amount that is allocated to this project.',
    'free': 'Free amount of the units that take new allocations.',
}
_STEP: Final[dict[str, Any]] = {
    'time': common.ANSWERED_DATE,
    **{
        name: {'type': 'integer', 'minimum': 0, 'description': about}
        for name, about in _AMOUNTS.items()
    },
}
SERIES: Final[dict[str, Any]] = common.closed(
    {
        'kind': {'type': 'string', 'description': 'As host, floating IP, network segment.'},
        'pool': {'type': 'string'},
        'properties': {
            'type': 'object',
            'description': 'The requested properties, with the values that the hosts have; '
            'null: they have none. Only if properties were requested.',
        },
        'unit': {
            'type': 'string',
            'description': 'The kind, for whole units, which count as allocated while any part of '
            'them is; or an amount of them, as vcpus.',
        },
        'steps': {
            'type': 'array',
            'minItems': 1,
            'items': common.closed(_STEP, tuple(_STEP)),
            'description': 'Each step is valid until the next one, the last one until the end.',
        },
    },
    ('kind', 'pool', 'unit', 'steps'),
)
SHOWN: Final[dict[str, Any]] = common.closed(
    {
        'from': common.ANSWERED_DATE,
        'to': common.ANSWERED_DATE,
        'bars': {
            'type': 'array',
            'items': BAR,
            'description': 'The reservations in this period; not with ``hosts``.',
        },
        'bars_links': common.PAGE_LINKS,
        'hosts': {'type': 'array', 'items': HOST, 'description': 'Only with ``hosts``.'},
        'hosts_links': common.PAGE_LINKS,
        'capacity': {
            'type': 'array',
            'items': SERIES,
            'description': 'Of the units that the project may reserve; operators see all.',
        },
    },
    ('from', 'to'),
)


#: The decoded parameter ``reservations`` of :data:`AVAILABILITY_QUERY`.
QUERIED_RESERVATIONS: Final[dict[str, Any]] = {
    'type': 'array',
    'minItems': 1,
    'maxItems': limits.RESERVATIONS,
    'items': reservations.CREATE,
}
#: Servers that do not exist yet, which only the availability accepts.
NEW_SERVERS: Final[dict[str, Any]] = common.closed(
    {
        'resource_type': {'type': 'string', 'enum': [resource_types.SERVER]},
        'server': common.closed(
            {
                'flavorRef': {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH},
                'count': {'type': 'integer', 'minimum': 1, 'maximum': limits.NEW_SERVERS},
            },
            ('flavorRef',),
        ),
    },
    ('resource_type', 'server'),
)
AVAILABILITY_QUERY: Final[dict[str, dict[str, Any]]] = {
    'reservations': {
        'type': 'string',
        'minLength': 1,
        'maxLength': 8192,
        'description': 'A list of reservations in JSON, as a new lease has it.',
    },
    'duration': {
        'type': 'string',
        'minLength': 1,
        'maxLength': limits.TIME_LENGTH,
        'description': f'How long the lease would last: {dates.DURATION_FORMS}.',
    },
    'from': {
        **common.DATE,
        'description': f'Default now; not in the past. {common.DATE["description"]}',
    },
    'to': {
        **common.DATE,
        'description': 'When the lease ends at the latest; default 30 days after from. '
        + common.DATE['description'],
    },
    'limit': {
        'type': 'integer',
        'minimum': 1,
        'maximum': 100,
        'description': 'Maximum number. Default 5.',
    },
}
WINDOW: Final[dict[str, Any]] = common.closed(
    {
        'start_date': common.ANSWERED_DATE,
        'end_date': common.ANSWERED_DATE,
        'guaranteed': {
            'type': 'boolean',
            'description': 'Whether a lease that is created now for this time is certain to be '
            'granted.',
        },
    },
    ('start_date', 'end_date', 'guaranteed'),
)
WINDOWS: Final[dict[str, Any]] = common.envelope('windows', {'type': 'array', 'items': WINDOW})


CREATE_FEED: Final[dict[str, Any]] = common.closed(
    {
        'name': {**limits.NAME_SCHEMA, 'description': 'A name for the program that reads it.'},
    },
    ('name',),
)
_FEED: Final[dict[str, Any]] = {
    'id': common.UUID,
    'name': {'type': 'string'},
    'project_id': {'type': 'string'},
    'user_id': {'type': 'string'},
    'created_at': common.STAMP,
}
_NEW_FEED: Final[dict[str, Any]] = {
    **_FEED,
    'token': {'type': 'string', 'description': 'Shown only once, and not stored.'},
    'url': {'type': 'string', 'description': 'The URL for a calendar; it contains the token.'},
}
FEED_CREATED: Final[dict[str, Any]] = common.envelope(
    'feed', common.closed(_NEW_FEED, tuple(_NEW_FEED))
)
FEEDS: Final[dict[str, Any]] = common.envelope(
    'feeds', {'type': 'array', 'items': common.closed(_FEED, tuple(_FEED))}
)
#: The query of the contents of a feed.
FEED_QUERY: Final[dict[str, dict[str, Any]]] = {
    'token': {'type': 'string', 'description': 'The token of the feed.'}
}
