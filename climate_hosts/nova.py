# SPDX-License-Identifier: Apache-2.0
"""The calls to Nova about hosts and the private flavors of reservations, as the service user.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/os-hypervisors``, ``/os-services``, ``/os-aggregates``, ``/flavors``,
``/flavors/{id}/os-extra_specs`` and ``/flavors/{id}/os-flavor-access``.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.servers import (
    NOVA,
    NOVA_HOSTS,
    get_flavor,
    list_flavors,
    list_hypervisors,
)
from climate_core.cloud.services import Service

#: The last microversion that does not validate extra specs: a flavor may have any from before.
_NOVA_UNVALIDATED = Service('Nova', 'compute', '2', '2.85')


def find_hypervisors(conn: Connection, name: str) -> list[dict[str, Any]]:
    """Return the hypervisors of this name: a node, or all nodes of a service.

    A node with the name comes before a service with it. The search for a node is one call. The
    search for a service reads all nodes, since these may have any name.
    """
    hypervisors = _search_hypervisors(conn, name)
    named = [node for node in hypervisors if node['hypervisor_hostname'] == name]
    # The names of libvirt's nodes start with that of their service.
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
    """Return the service hosts that are in a host aggregate whose servers must require a trait."""
    required = f'trait:{trait}'
    return {
        host
        for aggregate in NOVA_HOSTS.read(conn, '/os-aggregates', 'aggregates')
        for host in aggregate['hosts']
        if aggregate.get('metadata', {}).get(required) == 'required'
    }


def set_service_status(conn: Connection, service_id: str, reason: str | None) -> None:
    """Enable a nova-compute, or disable it for a reason, so that no server is scheduled there.

    Facts: Compute API reference, ``PUT /os-services/{service_id}`` since 2.53.

    :param reason: None: enable it
    """
    body = {'status': 'disabled', 'disabled_reason': reason} if reason else {'status': 'enabled'}
    NOVA_HOSTS.request(conn, 'PUT', f'/os-services/{service_id}', body)


def flavor_exists(conn: Connection, flavor_id: str) -> bool:
    """Return whether these rights see a flavor."""
    try:
        get_flavor(conn, flavor_id)
    except errors.Gone:
        return False
    return True


def create_reservation_flavor(
    conn: Connection,
    reservation_id: str,
    like: Mapping[str, Any],
    project_ids: Collection[str],
) -> None:
    """Create the private flavor of a reservation, or complete it.

    Its id is that of the reservation, and its name contains that, as in Blazar. No project has
    access before it is complete.

    :param like: a flavor that gives servers the same, as nova-api shows it at microversion 2.61
        or later
    :param project_ids: the projects with access
    :raises climate_core.exceptions.Permanent: Nova rejects its values
    """
    path = f'/flavors/{reservation_id}'
    extra_specs = {**like['extra_specs'], **dict.fromkeys(lanes.MARKS, reservation_id)}
    try:
        existing = NOVA.read(conn, path, 'flavor')
    except errors.Gone:
        existing = {}
        _create_flavor(conn, reservation_id, like)
    if not extra_specs.items() <= (existing.get('extra_specs') or {}).items():
        body = {'extra_specs': extra_specs}
        _NOVA_UNVALIDATED.request(conn, 'POST', f'{path}/os-extra_specs', body)
    rows = NOVA.read(conn, f'{path}/os-flavor-access', 'flavor_access') if existing else ()
    present = {row['tenant_id'] for row in rows}
    for project_id in sorted({*project_ids} - present):
        _grant_access(conn, path, project_id)


def _flavor_name(reservation_id: str) -> str:
    return f'reservation:{reservation_id}'


def _create_flavor(conn: Connection, reservation_id: str, like: Mapping[str, Any]) -> None:
    body = {
        'id': reservation_id,
        'name': _flavor_name(reservation_id),
        'vcpus': like['vcpus'],
        'ram': like['ram'],
        'disk': like['disk'],
        'OS-FLV-EXT-DATA:ephemeral': like['OS-FLV-EXT-DATA:ephemeral'],
        'swap': like['swap'] or 0,
        'os-flavor-access:is_public': False,
    }
    try:
        NOVA.request(conn, 'POST', '/flavors', {'flavor': body})
    except errors.Busy:
        # Another manager has just created it.
        return


def _grant_access(conn: Connection, path: str, project_id: str) -> None:
    try:
        NOVA.request(conn, 'POST', f'{path}/action', {'addTenantAccess': {'tenant': project_id}})
    except errors.Busy:
        # The project has access already.
        return


def delete_flavor(conn: Connection, flavor_id: str) -> None:
    """Delete a flavor; it is no error if it does not exist. Its servers keep their capacity."""
    try:
        NOVA.request(conn, 'DELETE', f'/flavors/{flavor_id}')
    except errors.Gone:
        return


def list_reservation_flavors(conn: Connection) -> Iterator[str]:
    """Yield the ids of the private flavors of reservations, which equal those of the reservations.

    One call for each thousand flavors.
    """
    for flavor in list_flavors(conn):
        named = str((flavor.get('extra_specs') or {}).get(lanes.EXTRA_SPEC))
        own = named == flavor['id'] and flavor['name'] == _flavor_name(named)
        if own and not flavor['os-flavor-access:is_public']:
            yield named
