# SPDX-License-Identifier: Apache-2.0
"""Change, start, end and delete leases, and change what is in them.

Each is one transaction that reads the lease with a lock and writes all or nothing. Where a
``generation`` is taken it is the one that the user has seen, None if that does not matter; all
raise :class:`climate_core.exceptions.GenerationConflict` when the lease has another one, and
:class:`climate_core.exceptions.LeaseNotFound` when there is none.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases, store
from climate_core.lease import changes, model
from climate_core.lease.results import Change
from climate_core.manager import admission, draft
from climate_core.manager.parts import Parts, asked

if TYPE_CHECKING:
    from climate_core.context import RequestContext

_Change = Callable[[model.Lease, datetime.datetime], Change]


def update_lease(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    values: Mapping[str, Any],
    generation: int | None = None,
) -> str:
    """Change a lease; its events move in the same transaction.

    :param values: see :func:`climate_core.lease.update.apply`
    :returns: its id
    :raises climate_core.exceptions.ClimateError: it is refused
    """
    rules = changes.update.Rules(
        late=parts.conf.manager.late_start_seconds,
        before_start=parts.conf.manager.before_start_seconds,
        webhooks=draft.webhook_rules(parts.conf),
    )

    def change(lease: model.Lease, now: datetime.datetime) -> Change:
        for place, item in enumerate(values.get('reservations') or ()):
            draft.at(place, _check_item, parts, lease, item)
        changed = changes.update.apply(lease, values, now, rules)
        admission.check_time(parts, changed.lease, now, lease)
        return changed

    generation = _ask(parts, lease_id, generation, change)
    _write(parts, context, 'lease.update', lease_id, generation, change)
    return lease_id


def delete_lease(
    parts: Parts, context: 'RequestContext', lease_id: str, generation: int | None = None
) -> None:
    """Delete a lease: at once if it holds nothing, otherwise when all it holds is freed."""
    _write(parts, context, 'lease.delete', lease_id, generation, changes.delete.apply)


def start_lease(
    parts: Parts, context: 'RequestContext', lease_id: str, generation: int | None = None
) -> None:
    """Start a lease that waits for its user.

    :raises climate_core.exceptions.InvalidState: it does not, or not yet
    """
    _write(parts, context, 'lease.start', lease_id, generation, changes.start.apply)


def end_lease(
    parts: Parts, context: 'RequestContext', lease_id: str, generation: int | None = None
) -> None:
    """End a lease now, or cancel it before its start; it stays readable."""
    _write(parts, context, 'lease.end', lease_id, generation, changes.end.apply)


def update_reservation(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    reservation_id: str,
    values: Mapping[str, Any],
    generation: int | None = None,
) -> str:
    """Change what the plugin of a reservation lets change.

    :returns: the id of the reservation
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.BadRequest: this cannot be changed
    :raises climate_core.exceptions.InvalidState: its end has begun
    """

    def change(lease: model.Lease, now: datetime.datetime) -> Change:
        _check_params(parts, lease, reservation_id, values)
        return changes.change_reservation.apply(lease, reservation_id, values, now)

    _write(parts, context, 'reservation.update', lease_id, generation, change)
    return reservation_id


def remove_reservation(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    reservation_id: str,
    generation: int | None = None,
) -> None:
    """Free one resource and take it out of a lease that goes on.

    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.InvalidState: the lease is ending
    """

    def change(lease: model.Lease, now: datetime.datetime) -> Change:
        return changes.remove_reservation.apply(lease, reservation_id, now)

    _write(parts, context, 'reservation.delete', lease_id, generation, change)


def _write(
    parts: Parts,
    context: 'RequestContext',
    action: str,
    lease_id: str,
    generation: int | None,
    change: _Change,
) -> None:
    now = parts.clock.now()

    def attempt(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        if generation is not None and generation != lease.generation:
            raise exceptions.GenerationConflict
        store.save(session, lease, change(lease, now), now, asked(context, action))

    parts.database.write(attempt)


def _ask(parts: Parts, lease_id: str, generation: int | None, change: _Change) -> int | None:
    """Ask the external service about a change, before the transaction: it may take its time.

    :returns: the generation that the lease must still have; what was permitted is that change
    :raises climate_core.exceptions.LeaseNotPermitted: it does not permit it
    """
    if not parts.external.on_update:
        return generation
    lease = parts.database.read(leases.get, lease_id)
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict
    after = change(lease, parts.clock.now()).lease
    if not admission.asks(parts, after, lease):
        return generation
    admission.check(parts, after, lease)
    return lease.generation


def _check_item(parts: Parts, lease: model.Lease, item: Mapping[str, Any]) -> None:
    try:
        _check_params(parts, lease, str(item.get('id')), item)
    except exceptions.ReservationNotFound as exc:
        # Here it is not the thing that was asked for, but a mistake in the body.
        raise exceptions.BadRequest(exc.message, field='id') from exc


def _check_params(
    parts: Parts, lease: model.Lease, reservation_id: str, values: Mapping[str, Any]
) -> None:
    plugin = parts.plugins.get(lease.get_reservation(reservation_id).resource_type)
    changeable = plugin.changeable if plugin is not None else ()
    for field in sorted(values.keys() - {'id', *changeable}):
        raise exceptions.BadRequest(
            f'{field} of this reservation cannot be changed, only: '
            f'{", ".join(changeable) or "nothing"}.',
            field=field,
        )
