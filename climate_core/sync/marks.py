# SPDX-License-Identifier: Apache-2.0
"""Mark servers that a lease deletes or moves at its end, and whose owners may not know it.

These are servers that entered a reservation with open matching. A manager remembers the marks that
it has set; one that restarts sets all of them again. A mark that cannot be set or removed now, as
that of a server that is being migrated, is set or removed next time.

Every manager compares all reservations and so remembers all marks, whichever manager set them
first. Setting a mark twice changes nothing, and a mark is removed only if it is still the one that
the manager remembers. So managers need no common record. The mark of a server stays only if every
manager that saw the server in its reservation stopped before the server left it. No decision
depends on a mark. It names the lease and its end, and the next mark replaces it.
"""

import contextlib
from collections.abc import Iterator, Mapping

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.db import leases, reservations
from climate_core.db.engine import Database
from climate_core.lease import states
from climate_core.lease.model import Reservation
from climate_core.plugins.base import ResourcePlugin


def update(
    database: Database, plugin: ResourcePlugin, before: Mapping[str, str]
) -> dict[str, str]:
    """Mark servers that entered a reservation, and remove the marks of those that left it.

    :param before: the marks that this process has set, by the ids of servers
    :returns: the marks that are set now, also those that could not be removed
    """
    if not plugin.has_lanes:
        return {}
    wanted: dict[str, str] = {}
    for each in _open_reservations(database, plugin.resource_type):
        lease = database.read(leases.find, each.lease_id)
        if lease is not None and lease.deleted_at is None:
            wanted |= plugin.find_matched(lease, lease.get_reservation(each.id))
    marked = {one: mark for one, mark in wanted.items() if before.get(one) == mark}
    for server_id in sorted(wanted.keys() - marked.keys()):
        with contextlib.suppress(*errors.EXPECTED):
            plugin.set_mark(server_id, wanted[server_id])
            marked[server_id] = wanted[server_id]
    for server_id in sorted(before.keys() - wanted.keys()):
        try:
            plugin.remove_mark(server_id, before[server_id])
        except errors.Gone:
            continue
        except errors.EXPECTED:
            marked[server_id] = before[server_id]
    return marked


def _open_reservations(database: Database, resource_type: str) -> Iterator[Reservation]:
    """Yield the active reservations of a type with open matching."""
    after = ''
    while page := database.read(reservations.read_held_page, resource_type, after):
        for each in page:
            is_active = each.status == states.ReservationStatus.ACTIVE
            if is_active and each.params.get('matching') == lanes.OPEN:
                yield each
        after = page[-1].id
