# SPDX-License-Identifier: Apache-2.0
"""The few calls to Nova about its hosts, with the service's own rights.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/os-hypervisors``, ``/os-services`` and ``/os-aggregates``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from climate_core.cloud import errors
from climate_core.cloud.services import Service

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: The last microversion that tells the size and the CPU of a hypervisor. The id of one is that of
#: its root provider in Placement since 2.53.
NOVA = Service('Nova', 'compute', '2', '2.87')


def find(conn: 'connections.Connection', name: str) -> list[dict[str, Any]]:
    """Return the hypervisors of this name: a node, or all nodes of a service.

    A node with the name goes before a service with it. The search for the name of a node is one
    call; nodes of a service may be called anything, so all of them are read for its name.
    """
    found = _search(conn, name)
    named = [each for each in found if each['hypervisor_hostname'] == name]
    # The nodes of libvirt begin with the name of their service.
    return named or [each for each in list_all(conn) if each['service']['host'] == name]


def _search(conn: 'connections.Connection', name: str) -> list[dict[str, Any]]:
    query = {'hypervisor_hostname_pattern': name}
    try:
        return list(NOVA.read(conn, '/os-hypervisors/detail', 'hypervisors', query))
    except errors.Gone:
        return []


def list_all(conn: 'connections.Connection') -> Iterator[dict[str, Any]]:
    """Yield all hypervisors with their details, one call for each thousand."""
    yield from NOVA.pages(conn, '/os-hypervisors/detail', 'hypervisors', {})


def list_with_servers(conn: 'connections.Connection') -> Iterator[dict[str, Any]]:
    """Yield all hypervisors as :func:`list_all` does, with ``servers`` if they have any.

    Each of those has a ``uuid``. Facts: Compute API reference, ``with_servers`` since 2.53.
    """
    query = {'with_servers': 'true'}
    yield from NOVA.pages(conn, '/os-hypervisors/detail', 'hypervisors', query)


def list_services(conn: 'connections.Connection') -> dict[str, dict[str, Any]]:
    """Return every nova-compute by its host: ``zone``, ``state``, ``status`` and more."""
    query = {'binary': 'nova-compute'}
    found = NOVA.read(conn, '/os-services', 'services', query)
    return {each['host']: each for each in found}


def list_aggregates(conn: 'connections.Connection') -> Mapping[str, list[str]]:
    """Return the names of the host aggregates of each service host that is in one."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for aggregate in NOVA.read(conn, '/os-aggregates', 'aggregates'):
        for host in aggregate['hosts']:
            names[host].append(aggregate['name'])
    return names


def list_isolated(conn: 'connections.Connection', trait: str) -> set[str]:
    """Return the service hosts that are in a host aggregate whose servers must ask for a trait."""
    wanted = f'trait:{trait}'
    return {
        host
        for aggregate in NOVA.read(conn, '/os-aggregates', 'aggregates')
        for host in aggregate['hosts']
        if aggregate.get('metadata', {}).get(wanted) == 'required'
    }


def set_status(conn: 'connections.Connection', service_id: str, reason: str | None) -> None:
    """Enable a nova-compute, or disable it for a reason, so that no server comes there.

    Facts: Compute API reference, ``PUT /os-services/{service_id}`` since 2.53.

    :param reason: None: enable it
    """
    body = {'status': 'disabled', 'disabled_reason': reason} if reason else {'status': 'enabled'}
    NOVA.request(conn, 'PUT', f'/os-services/{service_id}', body)
