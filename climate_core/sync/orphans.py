# SPDX-License-Identifier: Apache-2.0
"""Find resources without a lease, and reservations without a resource."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

from climate_core.cloud import errors
from climate_core.db import reservations
from climate_core.db.engine import Database
from climate_core.lease.model import Reservation
from climate_core.plugins.base import ResourcePlugin
from climate_core.sync import lost_resources

#: Reservations that are read at once.
_PAGE = 10_000
_CHUNK = 500


@contextlib.contextmanager
def unseen(title: str, noted: dict[str, str]) -> Iterator[None]:
    """Note a service that does not answer, and go on with the others.

    :param title: of the plugin, or of what else is looked for
    :param noted: takes the title, and why its resources were not looked for
    """
    try:
        yield
    except errors.EXPECTED as exc:
        noted[title] = str(exc) or type(exc).__name__


def resources(database: Database, plugin: ResourcePlugin) -> Iterator[str]:
    """Yield the resources that wait for a lease that does not exist, or that one has left behind.

    One that was made a moment ago may still get its lease: see
    :meth:`climate_core.plugins.base.ResourcePlugin.unleased_since`.
    """
    waiting = iter(plugin.list_unleased())
    while chunk := list(islice(waiting, _CHUNK)):
        yield from sorted(database.read(reservations.find_unheld, plugin.resource_type, chunk))
    made = iter(plugin.list_made())
    while part := list(islice(made, _CHUNK)):
        reservation_ids = {(each.reservation_id, each.is_ours) for each in part}
        left = database.read(
            reservations.find_unheld_created, plugin.resource_type, reservation_ids
        )
        yield from sorted(each.resource_id for each in part if each.reservation_id in left)


def lost(
    database: Database, plugin: ResourcePlugin, lease_id: str | None = None
) -> Iterator[tuple[Reservation, str]]:
    """Yield the reservations that have lost their resource, and what happened to it.

    By the rule of :func:`climate_core.sync.lost_resources.mark_lost`: what a lease has freed
    itself, as a server that found no capacity, is not lost.

    :param lease_id: only those of this lease
    """
    by_lease = defaultdict[str, list[tuple[Reservation, str]]](list)
    for held, reason in reservations_without_resource(database, plugin, lease_id):
        by_lease[held.lease_id].append((held, reason))
    for each, gone in by_lease.items():
        noted = database.read(lost_resources.filter_lost, each, [held.id for held, _ in gone])
        yield from ((held, reason) for held, reason in gone if held.id in noted)


def reservations_without_resource(
    database: Database, plugin: ResourcePlugin, lease_id: str | None = None
) -> Iterator[tuple[Reservation, str]]:
    """Yield the reservations whose resource is gone, lost or not, and what happened to it.

    :param lease_id: only those of this lease
    """
    after, find_missing = '', plugin.compare_pages()
    while page := database.read(reservations.read_held_page, plugin.resource_type, after, _PAGE):
        asked = [r for r in page if lease_id in (None, r.lease_id)]
        reasons: Mapping[str, str] = find_missing(asked) if asked else {}
        yield from ((r, reasons[r.id]) for r in asked if r.id in reasons)
        after = page[-1].id
