# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of hosts, their pools and their usage."""

from typing import Any

from climate_common import limits
from climate_core.api import registered_units
from climate_core.api.handlers import usage
from climate_core.api.schemas import common
from climate_hosts.power import states

_NAME, _FLAG = limits.NAME_SCHEMA, registered_units.FLAG
_COMMON: dict[str, dict[str, Any]] = {
    'pool': {**_NAME, 'description': 'The name of its pool; without it: default.'},
    'reservable': registered_units.RESERVABLE,
    'disabled': {**_FLAG, 'description': 'The opposite of ``reservable``.'},
    'disabled_reason': {
        'type': ['string', 'null'],
        'maxLength': 1024,
        'pattern': registered_units.EXTRA_PROPERTY['pattern'],
        'description': 'Why it takes no new allocations.',
    },
}
CREATE: dict[str, Any] = registered_units.with_values(
    {
        'name': {
            **_NAME,
            'description': 'The name of a node, as Nova lists hypervisors, or of a nova-compute '
            'that has a single node.',
        },
        'shared': {
            **_FLAG,
            'description': 'Whether ordinary servers may run there until a lease needs it; '
            'default false.',
        },
        'empty': {
            **_FLAG,
            'description': 'Whether its servers are moved to other hosts, after which it takes '
            'allocations; default false: a host with servers is rejected. Not with ``shared`` or '
            '``disabled``.',
        },
        **_COMMON,
    },
    ('name',),
)
UPDATE: dict[str, Any] = registered_units.with_values(
    {
        **_COMMON,
        'kept_on': {
            **_FLAG,
            'description': 'Whether it is never powered off, and powered on if it is off.',
        },
    }
)
UPDATE['description'] = 'null removes an extra property.'

_INTEGER: dict[str, Any] = {'type': 'integer'}
_TEXT: dict[str, Any] = {'type': ['string', 'null']}
_TEXTS: dict[str, Any] = {'type': 'array', 'items': {'type': 'string'}}
#: The only properties that callers get who may not see hosts.
_ALWAYS: dict[str, Any] = {
    'id': {'type': 'string'},
    'hypervisor_hostname': {'type': 'string'},
    'service_name': {'type': 'string'},
    'reservable': {'type': 'boolean', 'description': 'Whether it takes new allocations.'},
}
SHOWN: dict[str, Any] = {
    'type': 'object',
    'description': 'Besides these properties it has the extra ones.',
    'properties': {
        **_ALWAYS,
        'disabled_reason': _TEXT,
        'pool': {'type': 'string'},
        'hypervisor_type': {'type': 'string'},
        'hypervisor_version': _INTEGER,
        'vcpus': _INTEGER,
        'memory_mb': _INTEGER,
        'local_gb': _INTEGER,
        'cpu_info': {'type': 'string', 'description': 'JSON, as Nova reports it.'},
        'availability_zone': _TEXT,
        'state': {**_TEXT, 'description': 'Of its nova-compute: up or down.'},
        'status': {**_TEXT, 'description': 'Of its nova-compute: enabled or disabled.'},
        'traits': _TEXTS,
        'aggregates': _TEXTS,
        'capacity': {
            'type': 'object',
            'additionalProperties': _INTEGER,
            'description': 'The capacity for shares of it in all, from Placement.',
        },
        'lanes': {
            **_INTEGER,
            'description': 'Number of leases that can have servers on it at the same time.',
        },
        'shared': {
            'type': 'boolean',
            'description': 'Whether ordinary servers may run there while no lease has it.',
        },
        'power': {
            'type': 'string',
            'enum': [states.AWAKE, *(str(each) for each in states.PowerState)],
            'description': 'Whether it is powered off until a lease needs it.',
        },
        'kept_on': {
            'type': 'boolean',
            'description': 'Whether an operator keeps it powered on.',
        },
        'created_at': common.STAMP,
        'updated_at': common.STAMP,
    },
    'required': list(_ALWAYS),
}
ONE: dict[str, Any] = common.envelope('host', SHOWN)
MANY: dict[str, Any] = common.page_of('hosts', SHOWN)

_NAME_FILTER: dict[str, Any] = {**_NAME, 'description': 'Only hosts with exactly this name.'}
QUERY: dict[str, dict[str, Any]] = {
    'pool': {**_NAME, 'description': 'Only hosts of this pool.'},
    'reservable': {
        'type': 'boolean',
        'description': 'Only hosts that take allocations, or only those that take none.',
    },
    'hypervisor_hostname': _NAME_FILTER,
    'service_name': {**_NAME, 'description': 'Only nodes of this nova-compute.'},
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('host'),
}

ALLOCATION: dict[str, Any] = common.closed(
    {
        'resource_id': {'type': 'string', 'description': 'The id of the host.'},
        'hypervisor_hostname': {'type': 'string'},
        'reservations': {
            'type': 'array',
            'items': common.closed(
                {
                    'id': common.UUID,
                    'lease_id': common.UUID,
                    'lease_name': {'type': 'string'},
                    'start_date': common.ANSWERED_DATE,
                    'end_date': common.ANSWERED_DATE,
                }
            ),
            'description': 'To which it is allocated, in the order of their start.',
        },
    }
)
ONE_ALLOCATION: dict[str, Any] = common.envelope('allocation', ALLOCATION)
ALLOCATIONS: dict[str, Any] = common.page_of('allocations', ALLOCATION)
ALLOCATIONS_QUERY: dict[str, dict[str, Any]] = {
    'lease_id': {**common.UUID, 'description': 'Only reservations of this lease.'},
    'reservation_id': {**common.UUID, 'description': 'Only this reservation.'},
    'limit': common.PAGE_LIMIT,
    'marker': common.unit_marker('host'),
}

PROPERTIES = registered_units.properties_schema('hosts')
PROPERTIES_QUERY = registered_units.properties_query(
    'hosts', 'climate:hosts:get_private_properties'
)
PROPERTY = registered_units.property_schema('physical:host')

_IDS = registered_units.IDS
_GENERATION: dict[str, Any] = {'type': 'integer', 'minimum': 0, 'maximum': 2**31 - 1}
UPDATE_POOL: dict[str, Any] = common.closed(
    {
        'generation': {
            **_GENERATION,
            'description': 'The generation of the pool that the client read: the request is '
            'rejected with 409 if the pool has another one. 0: its access was never set.',
        },
        'project_ids': {**_IDS, 'description': 'The projects that may use it.'},
        'domain_ids': {**_IDS, 'description': 'The domains all of whose projects may use it.'},
    }
)
_POOL: dict[str, Any] = common.closed(
    {
        'name': {'type': 'string'},
        'hosts': {'type': 'integer', 'description': 'Number of its hosts.'},
        'generation': {
            **_GENERATION,
            'description': 'Number of changes of its access.',
        },
        'project_ids': _IDS,
        'domain_ids': {
            **_IDS,
            'description': 'None here and in project_ids: all projects may use it.',
        },
    }
)
POOL_NAME = _NAME
POOL: dict[str, Any] = common.envelope('pool', _POOL)
POOLS: dict[str, Any] = common.envelope('pools', {'type': 'array', 'items': _POOL})


_USAGE: dict[str, Any] = common.closed(
    {
        'hypervisor_hostname': {'type': 'string'},
        'start': usage.SHOWN['properties']['start'],
        'end': usage.SHOWN['properties']['end'],
        'asleep_hours': {
            'type': 'number',
            'minimum': 0,
            'description': 'Number of hours of the period in which it was powered off.',
        },
        'saved_kwh': {
            'type': ['number', 'null'],
            'description': 'The energy that this saved; null where it is not known.',
        },
    },
    ('hypervisor_hostname', 'start', 'end', 'asleep_hours', 'saved_kwh'),
)
USAGE: dict[str, Any] = common.envelope('usage', {'type': 'array', 'items': _USAGE})
USAGE_QUERY: dict[str, dict[str, Any]] = {name: usage.QUERY[name] for name in ('start', 'end')}
