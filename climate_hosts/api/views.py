# SPDX-License-Identifier: Apache-2.0
"""Hosts, pools and allocations as the API shows them, in the form of Blazar."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from oslo_serialization import jsonutils

from climate_common import dates
from climate_core.lease import views
from climate_hosts.db.hosts import HostAllocation
from climate_hosts.domain import hosts

#: Details of a host that are shown unchanged.
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


def host(row: hosts.Host, hidden: Collection[str]) -> dict[str, Any]:
    """Return a host as the API shows it; extra properties never replace other fields.

    :param hidden: the names of the extra properties to leave out
    """
    details = row.details
    return {
        **{name: value for name, value in row.extra.items() if name not in hidden},
        'id': str(row.id),
        'hypervisor_hostname': row.hypervisor_hostname,
        'service_name': row.service_name,
        'pool': row.pool,
        'reservable': row.available,
        'disabled_reason': row.reason,
        **{name: details[name] for name in _DETAILS if name in details},
        'cpu_info': jsonutils.dumps(details.get('cpu_info', {})),
        'capacity': dict(row.capacity),
        'lanes': len(row.lane_ids),
        'shared': row.is_shared,
        'power': row.power_state,
        'kept_on': row.kept_on,
        'created_at': views.format_stamp(row.created_at),
        'updated_at': views.format_stamp(row.updated_at),
    }


def pool(row: hosts.Pool) -> dict[str, Any]:
    """Return a pool of hosts as the API shows it, with the projects that may use it."""
    return {
        'name': row.name,
        'hosts': row.hosts,
        'generation': row.generation,
        'project_ids': list(row.project_ids),
        'domain_ids': list(row.domain_ids),
    }


def allocation(host: hosts.Host, promised: Iterable[HostAllocation]) -> dict[str, Any]:
    """Return the reservations to which a host is allocated, as the API shows them."""
    return {
        'resource_id': str(host.id),
        'hypervisor_hostname': host.hypervisor_hostname,
        'reservations': [
            {
                'id': each.reservation_id,
                'lease_id': each.lease_id,
                'lease_name': each.lease_name,
                'start_date': dates.serialize(each.start_date),
                'end_date': dates.serialize(each.end_date),
            }
            for each in promised
            if each.host_id == host.id
        ],
    }
