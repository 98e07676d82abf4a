# SPDX-License-Identifier: Apache-2.0
"""The flavors of Nova: what servers of a flavor take of a host, and private ones of reservations.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/flavors``, ``/flavors/{id}/os-extra_specs`` and ``/flavors/{id}/os-flavor-access``.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib import parse

from climate_common import amounts, lanes
from climate_core.cloud import errors
from climate_core.cloud.servers import NOVA

if TYPE_CHECKING:
    from climate_core.cloud import connections


@dataclasses.dataclass(frozen=True, slots=True)
class PrivateFlavor:
    """A flavor that only some projects see; its name is its id.

    :param memory_mb: MiB
    :param disk_gb: GiB of the root disk
    """

    id: str
    vcpus: int
    memory_mb: int
    disk_gb: int


def get(conn: 'connections.Connection', flavor_id: str) -> dict[str, Any]:
    """Return a flavor as the API shows it; without ``extra_specs`` if they are hidden.

    :raises climate_core.cloud.errors.Gone: there is none that these rights see
    """
    path = f'/flavors/{parse.quote(flavor_id, safe="")}'
    flavor: dict[str, Any] = NOVA.read(conn, path, 'flavor')
    return flavor


def list_all(conn: 'connections.Connection') -> list[dict[str, Any]]:
    """Return all flavors, private ones too: one call for each thousand."""
    return list(NOVA.pages(conn, '/flavors/detail', 'flavors', {'is_public': 'None'}))


def exists(conn: 'connections.Connection', flavor_id: str) -> bool:
    """Tell whether there is a flavor that these rights see."""
    try:
        get(conn, flavor_id)
    except errors.Gone:
        return False
    return True


def sizes(flavor: Mapping[str, Any]) -> dict[str, int]:
    """Return what a server of a flavor takes of its host, by unit; its root disk is local.

    Swap is in MiB and counts in whole GiB (nova/scheduler/utils.py, ResourceRequest).
    """
    swap = -(-int(flavor['swap'] or 0) // 1024)
    return {
        amounts.VCPUS: flavor['vcpus'],
        amounts.MEMORY_MB: flavor['ram'],
        amounts.DISK_GB: flavor['disk'] + flavor['OS-FLV-EXT-DATA:ephemeral'] + swap,
    }


def create_private(
    conn: 'connections.Connection',
    flavor: PrivateFlavor,
    extra_specs: Mapping[str, str],
    project_ids: Collection[str],
) -> None:
    """Make a private flavor, or what is missing of it; nobody has it before it is complete.

    :param project_ids: the projects that have it
    :raises climate_core.exceptions.Permanent: Nova takes none of its values
    """
    path = f'/flavors/{flavor.id}'
    try:
        found = NOVA.read(conn, path, 'flavor')
    except errors.Gone:
        found = {}
        _create(conn, flavor)
    if not extra_specs.items() <= (found.get('extra_specs') or {}).items():
        NOVA.request(conn, 'POST', f'{path}/os-extra_specs', {'extra_specs': dict(extra_specs)})
    listed = NOVA.read(conn, f'{path}/os-flavor-access', 'flavor_access') if found else ()
    present = {each['tenant_id'] for each in listed}
    for project_id in sorted({*project_ids} - present):
        _grant_access(conn, path, project_id)


def _create(conn: 'connections.Connection', flavor: PrivateFlavor) -> None:
    body = {
        'id': flavor.id,
        'name': flavor.id,
        'vcpus': flavor.vcpus,
        'ram': flavor.memory_mb,
        'disk': flavor.disk_gb,
        'os-flavor-access:is_public': False,
    }
    try:
        NOVA.request(conn, 'POST', '/flavors', {'flavor': body})
    except errors.Busy:
        # Another manager has just made it.
        return


def _grant_access(conn: 'connections.Connection', path: str, project_id: str) -> None:
    try:
        NOVA.request(conn, 'POST', f'{path}/action', {'addTenantAccess': {'tenant': project_id}})
    except errors.Busy:
        # It has it.
        return


def delete(conn: 'connections.Connection', flavor_id: str) -> None:
    """Delete a flavor; one that is gone is fine. Servers keep what they have of it."""
    try:
        NOVA.request(conn, 'DELETE', f'/flavors/{flavor_id}')
    except errors.Gone:
        return


def list_reservation_flavors(conn: 'connections.Connection') -> Iterator[str]:
    """Yield the ids of the private flavors of reservations, which are those of the reservations.

    One call for each thousand flavors.
    """
    for each in list_all(conn):
        named = (each.get('extra_specs') or {}).get(lanes.EXTRA_SPEC)
        if named == each['id'] == each['name'] and not each['os-flavor-access:is_public']:
            yield str(named)
