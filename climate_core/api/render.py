# SPDX-License-Identifier: Apache-2.0
"""Render hosts, floating IPs and segments that operators register, as Blazar does."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from oslo_serialization import jsonutils

from climate_common import dates
from climate_core.lease import views
from climate_hosts.db.hosts import HostAllocation
from climate_hosts.domain import hosts
from climate_networks.domain.floatingips import FloatingIp
from climate_networks.domain.networks import RegisteredSegment

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


def floatingip(one: FloatingIp) -> dict[str, Any]:
    """Return a floating IP as the API shows it."""
    return {
        'id': str(one.id),
        'floating_network_id': one.network_id,
        'subnet_id': one.subnet_id,
        'floating_ip_address': one.address,
        'reservable': one.available,
        'created_at': views.format_stamp(one.created_at),
    }


def network(one: RegisteredSegment, is_operator: bool, hidden: Collection[str]) -> dict[str, Any]:
    """Return a network segment as the API shows it; extra properties never replace other fields.

    :param is_operator: whether its projects and its generation are shown, too
    :param hidden: the names of extra properties that are left out
    """
    projects = {
        'project_ids': list(one.project_ids),
        'domain_ids': list(one.domain_ids),
        'generation': one.generation,
    }
    return {
        **{name: value for name, value in one.extra.items() if name not in hidden},
        'id': str(one.id),
        **one.segment.facts,
        'reservable': one.available,
        **(projects if is_operator else {}),
        'created_at': views.format_stamp(one.created_at),
        'updated_at': views.format_stamp(one.updated_at),
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
