# SPDX-License-Identifier: Apache-2.0
"""The calls to Nova about the hosts of the pools, with the rights of the service user.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/os-hypervisors``, ``/os-services`` and ``/os-aggregates``.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.servers import NOVA_HOSTS, list_hypervisors


def find_hypervisors(conn: Connection, name: str) -> list[dict[str, Any]]:
    """Return the hypervisors of this name: a node, or all nodes of a service.

    A node with the name comes before a service with it. The search for a node is one call. The
    search for a service reads all nodes, since these may have any name.
    """
    hypervisors = _search_hypervisors(conn, name)
    named = [node for node in hypervisors if node['hypervisor_hostname'] == name]
    # The names of libvirt's nodes begin with that of their service.
    return named or [node for node in list_hypervisors(conn) if node['service']['host'] == name]


def _search_hypervisors(conn: Connection, name: str) -> list[dict[str, Any]]:
    query = {'hypervisor_hostname_pattern': name}
    try:
        return list(NOVA_HOSTS.read(conn, '/os-hypervisors/detail', 'hypervisors', query))
    except errors.Gone:
        return []


def list_aggregates(conn: Connection) -> Mapping[str, list[str]]:
    """Return the names of the host aggregates of each service host that is in one."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for aggregate in NOVA_HOSTS.read(conn, '/os-aggregates', 'aggregates'):
        for host in aggregate['hosts']:
            names[host].append(aggregate['name'])
    return names


def list_isolated_hosts(conn: Connection, trait: str) -> set[str]:
    """Return the service hosts that are in a host aggregate whose servers must ask for a trait."""
    wanted = f'trait:{trait}'
    return {
        host
        for aggregate in NOVA_HOSTS.read(conn, '/os-aggregates', 'aggregates')
        for host in aggregate['hosts']
        if aggregate.get('metadata', {}).get(wanted) == 'required'
    }


def set_service_status(conn: Connection, service_id: str, reason: str | None) -> None:
    """Enable a nova-compute, or disable it for a reason, so that no server is scheduled there.

    Facts: Compute API reference, ``PUT /os-services/{service_id}`` since 2.53.

    :param reason: None: enable it
    """
    body = {'status': 'disabled', 'disabled_reason': reason} if reason else {'status': 'enabled'}
    NOVA_HOSTS.request(conn, 'PUT', f'/os-services/{service_id}', body)
