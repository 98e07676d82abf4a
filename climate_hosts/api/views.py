# SPDX-License-Identifier: Apache-2.0
"""Hosts, pools and allocations as the API shows them, in the form of Blazar."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from oslo_serialization import jsonutils

from climate_common import dates
from climate_core.lease import views
from climate_hosts.db.hosts import HostAllocation
from climate_hosts.domain import hosts

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


def host(one: hosts.Host, hidden: Collection[str]) -> dict[str, Any]:
    """Return a host as the API shows it; extra properties never replace other fields.

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
        'disabled_reason': one.reason,
        **{name: details[name] for name in _DETAILS if name in details},
        'cpu_info': jsonutils.dumps(details.get('cpu_info', {})),
        'capacity': dict(one.capacity),
        'lanes': len(one.lane_ids),
        'shared': one.is_shared,
        'power': one.power_state,
        'kept_on': one.kept_on,
        'created_at': views.format_stamp(one.created_at),
        'updated_at': views.format_stamp(one.updated_at),
    }


def pool(one: hosts.Pool) -> dict[str, Any]:
    """Return a pool of hosts as the API shows it, with the projects that may use it."""
    return {
        'name': one.name,
        'hosts': one.hosts,
        'generation': one.generation,
        'project_ids': list(one.project_ids),
        'domain_ids': list(one.domain_ids),
    }


def allocation(host: hosts.Host, promised: Iterable[HostAllocation]) -> dict[str, Any]:
    """Return the reservations that one host is promised to, as the API shows them."""
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
