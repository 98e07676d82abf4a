# SPDX-License-Identifier: Apache-2.0
"""End what cannot be extended with its lease before the rest of it. Pure.

A lease has one end date. With ``partial`` a later one is for all that can have it: what the
calendar does not promise any longer keeps what it has until the end that it had, and leaves the
lease then, by the event ``end_reservation``. It stays so when the end date changes again, until
that is not later than its own end, or a change with ``partial`` gets more for it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.model import Lease

_FOLLOWS = 'It ends with its lease.'


def read(values: Mapping[str, Any]) -> bool:
    """Return whether a change of a lease is for what can be extended alone.

    :raises climate_core.exceptions.BadRequest: it is no extension
    """
    partial = bool(values.get('partial'))
    moves_end = any(values.get(name) is not None for name in ('end_date', 'duration'))
    if partial and (not moves_end or values.get('start_date') is not None):
        raise exceptions.BadRequest(
            'partial: must be left out unless end_date or duration let the lease end later, and '
            'start_date stays as it is.',
            field='partial',
        )
    return partial


def times(lease: Lease) -> Mapping[str, datetime]:
    """Return the ends of reservations that end before their lease, by their ids."""
    return lease.early_ends


def resumed(before: Lease, after: Lease) -> set[str]:
    """Return the ids of the reservations that end with their lease again after a change."""
    kept = {each.id for each in after.live if each.status != states.ReservationStatus.DELETING}
    return kept & (before.early_ends.keys() - after.early_ends.keys())


def follow(before: Lease, after: Lease, partial: bool, now: datetime) -> Lease:
    """Return a lease whose end date was changed, in which what can ends with it again.

    :param partial: whether the calendar is asked again for what ends early
    :raises climate_core.exceptions.BadRequest: with ``partial`` it does not end later
    """
    if partial and after.end_date < before.end_date:
        raise exceptions.BadRequest(
            'partial: must be left out: the lease does not end later.', field='partial'
        )
    early = after.early_ends
    again = [
        each
        for each in after.events_of(model.END_RESERVATION)
        if each.open
        and each.reservation_id in early
        and each.time > now
        and (partial or after.end_date <= each.time)
    ]
    return schedule.cancel_events(after, again, _FOLLOWS, now)


def add(before: Lease, after: Lease, reservation_ids: Iterable[str], now: datetime) -> Lease:
    """Return a lease some of whose resources keep the end that they had before a change."""
    had = before.early_ends
    return after.with_events(
        *(
            model.new_event(
                after.id, model.END_RESERVATION, had.get(each, before.end_date), now, each
            )
            for each in sorted(reservation_ids)
        )
    )
