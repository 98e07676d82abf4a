# SPDX-License-Identifier: Apache-2.0
"""End what cannot be extended with its lease before the rest of it. Pure.

A lease has one end date. With ``partial`` a later one is for all that can have it: what the
calendar does not promise any longer keeps what it has until the end that it had, and leaves the
lease then, by the event ``end_reservation``. It stays so when the end date changes again, until
that is not later than its own end, or a change with ``partial`` gets more for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, overload

from climate_core import exceptions
from climate_core.lease import model, schedule, states
from climate_core.lease.listed import ListedEvent, ListedLease, Time
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


@overload
def times(lease: Lease) -> dict[str, datetime]: ...
@overload
def times(lease: ListedLease) -> dict[str, Time]: ...
def times(lease: Lease | ListedLease) -> Mapping[str, Time]:
    """Return when resources end that end before their lease, by the ids of their reservations."""
    ends = _events(lease)
    if not ends:
        # Of nearly all leases, and all that are listed are asked.
        return {}
    leaving = {each.id for each in lease.live if each.status != states.ReservationStatus.DELETING}
    return {each.reservation_id: each.time for each in ends if each.reservation_id in leaving}


def resumed(before: Lease, after: Lease) -> set[str]:
    """Return the ids of the reservations that end with their lease again after a change."""
    kept = {each.id for each in after.live if each.status != states.ReservationStatus.DELETING}
    return kept & (times(before).keys() - times(after).keys())


def follow(before: Lease, after: Lease, partial: bool, now: datetime) -> Lease:
    """Return a lease whose end date was changed, in which what can ends with it again.

    :param partial: whether the calendar is asked again for what ends early
    :raises climate_core.exceptions.BadRequest: with ``partial`` it does not end later
    """
    if partial and after.end_date < before.end_date:
        raise exceptions.BadRequest(
            'partial: must be left out: the lease does not end later.', field='partial'
        )
    early = times(after)
    again = [
        each
        for each in _events(after)
        if each.reservation_id in early
        and each.time > now
        and (partial or after.end_date <= each.time)
    ]
    return schedule.cancel_events(after, again, _FOLLOWS, now)


def add(before: Lease, after: Lease, reservation_ids: Iterable[str], now: datetime) -> Lease:
    """Return a lease some of whose resources keep the end that they had before a change."""
    had = times(before)
    return after.with_events(
        *(
            model.new_event(
                after.id, model.END_RESERVATION, had.get(each, before.end_date), now, each
            )
            for each in sorted(reservation_ids)
        )
    )


@overload
def _events(lease: Lease) -> list[model.Event]: ...
@overload
def _events(lease: Lease | ListedLease) -> list[model.Event | ListedEvent]: ...
def _events(lease: Lease | ListedLease) -> Sequence[model.Event | ListedEvent]:
    return [each for each in lease.events_of(model.END_RESERVATION) if each.open]
