# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the calendar."""

from typing import Any, Final

from climate_common import limits
from climate_core.api.schemas import common, paging
from climate_core.db import timeline_rows
from climate_core.lease import states

#: By so many properties capacity is told apart at most.
PROPERTIES: Final = 4
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
        'enum': sorted(timeline_rows.ORDERS),
        'description': 'Which bars stand together: those of a resource (default), or of a lease.',
    },
    'all_projects': {
        'type': 'boolean',
        'description': 'true: the leases of all projects; needs the policy '
        '``climate:leases:get_all``.',
    },
    'hosts': {
        'type': 'boolean',
        'description': 'true: hosts and what is promised of them, instead of leases; needs the '
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
        'maxItems': PROPERTIES,
        'items': {'type': 'string', 'pattern': limits.json_pattern(limits.PROPERTY_PATTERN)},
        'description': 'Names of properties of hosts by which capacity is told apart, as '
        f'availability_zone or an extra property; {PROPERTIES} at most.',
    },
    'limit': paging.LIMIT,
    'marker': {
        'type': 'string',
        'pattern': r'^([0-9]{1,18}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})(?!\n)$',
        'description': 'The id of the last reservation of the page before; with ``hosts`` of the '
        'last host.',
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
            'description': 'Only if it was asked for: until when the whole hosts, addresses or '
            'network of it are promised to nobody else, so that the calendar has nothing against '
            'an end until then; null: nothing is promised after it, or it has nothing whole of '
            'the calendar.',
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
    'total': 'What there is, also where no new promises are made.',
    'promised': 'What is promised of it to all projects.',
    'own': 'What is promised of it to this project.',
    'free': 'What is left where new promises are made.',
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
            'description': 'What hosts have in common of the properties that were asked for; '
            'null: they have none. Only if some were.',
        },
        'unit': {
            'type': 'string',
            'description': 'The kind, for whole ones, which count as promised while something of '
            'them is; or an amount of them, as vcpus.',
        },
        'steps': {
            'type': 'array',
            'minItems': 1,
            'items': common.closed(_STEP, tuple(_STEP)),
            'description': 'Each holds until the next one, the last one until the end.',
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
            'description': 'The reservations that are in this time; not with ``hosts``.',
        },
        'bars_links': paging.LINKS,
        'hosts': {'type': 'array', 'items': HOST, 'description': 'Only with ``hosts``.'},
        'hosts_links': paging.LINKS,
        'capacity': {
            'type': 'array',
            'items': SERIES,
            'description': 'Of what the project may have promises of; operators see all.',
        },
    },
    ('from', 'to'),
)
