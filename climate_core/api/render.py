# SPDX-License-Identifier: Apache-2.0
"""Leases and hosts as they are on the wire, in the format that today's clients read.

Three formats of time in one answer are the price of that: dates carry microseconds and a ``T``,
``created_at`` and ``updated_at`` have neither. All are UTC.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from oslo_serialization import jsonutils

from climate_common import dates
from climate_core.db.hosts import Promised
from climate_core.lease import events, hosts, model, serialize

#: What is shown of the details of a host as it is.
_DETAILS: Final = (
    'hypervisor_type',
    'hypervisor_version',
    'vcpus',
    'memory_mb',
    'local_gb',
    'availability_zone',
    'state',
    'status',
    'traits',
    'aggregates',
)


def lease(one: model.Lease) -> dict[str, Any]:
    """A lease; neither the owner's trust nor the secret of the webhook is ever shown."""
    return {
        **serialize.lease(one),
        'before_end_date': dates.serialize(one.before_end_date),
        'start_policy': str(one.start_policy),
        'before_start': list(one.before_start),
        'webhook': _webhook(one.webhook),
        'generation': one.generation,
        'created_at': _stamp(one.created_at),
        'updated_at': _stamp(one.updated_at),
        'reservations': [reservation(each) for each in one.reservations],
        'events': [event(each) for each in events.shown(one)],
    }


def reservation(one: model.Reservation) -> dict[str, Any]:
    """A reservation; what its plugin keeps stands beside the rest and never replaces it."""
    return {
        **serialize.reservation(one),
        'lease_id': one.lease_id,
        'created_at': _stamp(one.created_at),
        'updated_at': _stamp(one.updated_at),
    }


def event(one: model.Event) -> dict[str, Any]:
    """An event; claims and attempts are the engine's own affair."""
    return {
        **serialize.event(one),
        'lease_id': one.lease_id,
        'created_at': _stamp(one.created_at),
        'updated_at': _stamp(one.updated_at),
    }


def host(one: hosts.Host, hidden: Collection[str]) -> dict[str, Any]:
    """A host; its extra properties stand beside the rest and never replace it.

    :param hidden: the names of extra properties that are left out
    """
    details = one.details
    return {
        **{name: value for name, value in one.extra.items() if name not in hidden},
        'id': str(one.id),
        'hypervisor_hostname': one.hypervisor_hostname,
        'service_name': one.service_name,
        'pool': one.pool,
        'reservable': one.available,
        'disabled_reason': one.disabled_reason,
        **{name: details[name] for name in _DETAILS if name in details},
        'cpu_info': jsonutils.dumps(details.get('cpu_info', {})),
        'capacity': dict(one.capacity),
        'lanes': len(one.lane_ids),
        'created_at': _stamp(one.created_at),
        'updated_at': _stamp(one.updated_at),
    }


def pool(one: hosts.Pool) -> dict[str, Any]:
    """A pool of hosts, and who may use it."""
    return {
        'name': one.name,
        'hosts': one.hosts,
        'generation': one.generation,
        'project_ids': list(one.project_ids),
        'domain_ids': list(one.domain_ids),
    }


def allocation(host_id: int, promised: Iterable[Promised]) -> dict[str, Any]:
    """What a host is promised to, of what several are promised to."""
    return {
        'resource_id': str(host_id),
        'reservations': [
            {
                'id': each.reservation_id,
                'lease_id': each.lease_id,
                'start_date': dates.serialize(each.start_date),
                'end_date': dates.serialize(each.end_date),
            }
            for each in promised
            if each.host_id == host_id
        ],
    }


def _webhook(one: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if one is None else {'url': one['url'], 'events': list(one['events'])}


def _stamp(time: datetime.datetime | None) -> str | None:
    if time is None:
        return None
    return time.astimezone(datetime.UTC).strftime('%Y-%m-%d %H:%M:%S')
