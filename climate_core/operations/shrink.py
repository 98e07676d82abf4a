# SPDX-License-Identifier: Apache-2.0
"""Release a part of what the calendar allocates to an active lease.

Climate chooses units that are not in use and closes them; then the transaction of the change
releases them in the calendar. Before anything is closed, the event by which the reservation
follows the calendar is made due in a minute: a manager that stops in between leaves nothing
closed that the lease still has. The change is only written if that event is unchanged.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import RetainedAllocation
from climate_core.cloud.errors import for_user
from climate_core.db import events, leases, store
from climate_core.db.engine import DATABASE_ERRORS, Stale, signal
from climate_core.lease import model, states
from climate_core.lease.events import start
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from climate_core.operations.services import Services
from climate_core.plugins.base import Shrinkable

LOG = log.getLogger(__name__)

#: Seconds until closed units that were not released are opened, besides one per unit.
UNDO_SECONDS: Final = 60
_WRITE_ERRORS: Final[tuple[type[Exception], ...]] = (Stale, *DATABASE_ERRORS)
_CAUSE: Final = Cause('reservation.update')
BUSY: Final = 'The hosts of the lease are being changed. Try again in a few seconds.'


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedUnits:
    """The units that were closed to be released.

    :param less: the pieces that reservations retain, by their ids
    :param generations: of the events that open the units again, by the same ids
    """

    less: Mapping[str, RetainedAllocation]
    generations: Mapping[str, int]

    def check(self, lease: model.Lease) -> None:
        """Reject the release of units that may be in use again.

        :param lease: with its row locked
        :raises climate_core.exceptions.InvalidState: they may
        """
        if self.generations != _generations(lease, self.less):
            raise exceptions.InvalidState(BUSY)


@contextlib.contextmanager
def closed_units(
    services: Services, lease: model.Lease, shrinking: Mapping[str, int]
) -> Iterator[ClosedUnits]:
    """Close the units that an active lease releases, while its change is written.

    If the change is not written, the units are opened again.

    :param shrinking: the new number of units, by the ids of the reservations that release some
    :raises climate_core.exceptions.InvalidState: they are in use, or the lease is not active
    """
    chosen = [lease.get_reservation(reservation_id) for reservation_id in shrinking]
    _check_active(lease, chosen)
    less = {}
    with for_user():
        for reservation in chosen:
            plugin = _get_plugin(services, reservation)
            left = plugin.choose_retained(reservation, shrinking[reservation.id])
            less[reservation.id] = RetainedAllocation(left, plugin.cleaning(reservation))
    generations = services.database.write(_announce, lease, less, services.clock.now())
    try:
        with for_user():
            for reservation in chosen:
                _get_plugin(services, reservation).close_released(
                    reservation, less[reservation.id].left
                )
        yield ClosedUnits(less, generations)
    except Exception:
        try:
            services.database.write(_reopen, lease.id, [*less], services.clock.now())
        except _WRITE_ERRORS:
            LOG.warning(
                'The closed units of lease %s are opened again by its next event', lease.id
            )
        raise


def _get_plugin(services: Services, reservation: model.Reservation) -> Shrinkable:
    plugin = services.plugins[reservation.resource_type]
    if not isinstance(plugin, Shrinkable):
        raise exceptions.InvalidState(
            f'The {plugin.title.lower()} of an active lease cannot release a part of it.'
        )
    return plugin


def _announce(
    session: orm.Session,
    seen: model.Lease,
    less: Mapping[str, RetainedAllocation],
    now: datetime.datetime,
) -> Mapping[str, int]:
    """Add events that open the closed units later, unless the change is written first."""
    lease = leases.get(session, seen.id, lock=True)
    chosen = [lease.get_reservation(reservation_id) for reservation_id in less]
    _check_active(lease, chosen)
    if any(
        reservation.allocations != seen.get_reservation(reservation.id).allocations
        for reservation in chosen
    ):
        raise exceptions.InvalidState(BUSY)
    units = sum(len(kept.left) for kept in less.values())
    later = now + datetime.timedelta(seconds=UNDO_SECONDS + units)
    after = start.add_reallocations(lease, less, now, later)
    store.save(session, lease, Change(after), now, _CAUSE)
    return _generations(after, less)


def _reopen(
    session: orm.Session, lease_id: str, reservation_ids: Iterable[str], now: datetime.datetime
) -> None:
    """Reschedule the events that open what reservations have in the calendar to now."""
    lease = leases.find(session, lease_id, lock=True)
    if lease is not None and lease.status not in states.ENDING:
        after = start.add_reallocations(lease, reservation_ids, now)
        store.save(session, lease, Change(after), now, _CAUSE)
        signal(session, events.DUE)


def _generations(lease: model.Lease, reservation_ids: Iterable[str]) -> dict[str, int]:
    """Return the generations of events that are due later and not claimed."""
    return {
        reservation_id: event.generation
        for reservation_id in reservation_ids
        for event in lease.events_of(model.REALLOCATE, reservation_id=reservation_id)
        if event.status == states.EventStatus.UNDONE
    }


def _check_active(lease: model.Lease, reservations: Iterable[model.Reservation]) -> None:
    """Reject a release of units that are not open yet, or are being opened."""
    if lease.status != states.LeaseStatus.ACTIVE:
        raise exceptions.InvalidState(
            f'The lease is {lease.status}: its resources can be released in part only while '
            'it is ACTIVE, or before its start.'
        )
    for reservation in reservations:
        follows = lease.events_of(model.REALLOCATE, reservation_id=reservation.id)
        # Until it has followed the calendar, one of its lanes may be another reservation's.
        busy = any(event.open for event in follows)
        if busy or reservation.status != states.ReservationStatus.ACTIVE:
            raise exceptions.InvalidState(BUSY)
