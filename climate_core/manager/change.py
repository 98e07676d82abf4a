# SPDX-License-Identifier: Apache-2.0
"""Change and delete leases."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, store
from climate_core.lease import plan, update
from climate_core.manager.parts import Parts, asked

if TYPE_CHECKING:
    from climate_core.context import RequestContext


def update_lease(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    values: Mapping[str, Any],
    generation: int | None = None,
) -> str:
    """Change the name or the dates of a lease; its events move in the same transaction.

    :param generation: the one that the user has seen, None if that does not matter
    :returns: its id
    :raises climate_core.exceptions.GenerationConflict: the lease has another one
    :raises climate_core.exceptions.ClimateError: it is refused
    """
    now, late = parts.clock.now(), parts.conf.manager.late_start_seconds

    def change(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        if generation is not None and generation != lease.generation:
            raise exceptions.GenerationConflict
        changed = update.update(lease, values, now, late)
        store.save(session, lease, changed, now, asked(context, 'lease.update'))

    parts.database.write(change)
    return lease_id


def delete_lease(
    parts: Parts, context: 'RequestContext', lease_id: str, generation: int | None = None
) -> None:
    """Delete a lease: at once if it holds nothing, otherwise when all it holds is freed.

    :raises climate_core.exceptions.LeaseNotFound: there is none
    """
    now = parts.clock.now()

    def change(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        if generation is not None and generation != lease.generation:
            raise exceptions.GenerationConflict
        store.save(session, lease, plan.delete(lease, now), now, asked(context, 'lease.delete'))

    parts.database.write(change)


def start_lease(
    _parts: Parts, _context: 'RequestContext', lease_id: str, _generation: int | None = None
) -> None:
    """Start a lease that waits for its user."""
    raise exceptions.InvalidState(f'Lease {lease_id} starts by itself.')


def end_lease(
    _parts: Parts, _context: 'RequestContext', lease_id: str, _generation: int | None = None
) -> None:
    """Free what a lease holds now."""
    raise exceptions.InvalidState(f'Lease {lease_id} cannot be ended yet.')


def update_reservation(
    _parts: Parts,
    _context: 'RequestContext',
    lease_id: str,
    _reservation_id: str,
    _values: Mapping[str, Any],
    _generation: int | None = None,
) -> str:
    """Change what the plugin of a reservation lets change."""
    raise exceptions.InvalidState(f'Nothing of lease {lease_id} can be changed.')


def remove_reservation(
    _parts: Parts,
    _context: 'RequestContext',
    lease_id: str,
    _reservation_id: str,
    _generation: int | None = None,
) -> None:
    """Free one resource and take it out of a lease that goes on."""
    raise exceptions.InvalidState(f'Nothing can be taken out of lease {lease_id}.')
