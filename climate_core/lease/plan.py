# SPDX-License-Identifier: Apache-2.0
"""What a lease needs next, part one: what users ask for. Pure: values in, values out.

Every function takes a lease as it is and returns it as it shall be; what differs is written by
:func:`climate_core.db.store.save`.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.lease import model, states

#: At equal times: what only tells, then what frees, then what takes, then what cleans up.
_PRIORITY = {
    model.END: 1,
    model.END_RESERVATION: 1,
    model.START: 2,
    model.PREPARE: 2,
    model.EXTERNAL_END: 3,
    model.RELEASE_TRUST: 3,
}

#: The least difference between two times, on every database.
_TICK = datetime.timedelta(microseconds=1)


def priority(event_type: str) -> int:
    """Return the order among events that are due at the same time, lowest first."""
    return _PRIORITY.get(event_type, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What a lease becomes, and what is told about it.

    :param notices: event type of the notification -> reason, for those that have one
    """

    lease: model.Lease
    notices: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def new_event(
    lease_id: str,
    event_type: str,
    time: datetime.datetime,
    now: datetime.datetime,
    reservation_id: str | None = None,
) -> model.Event:
    """Make an event that is due at ``time``.

    :param reservation_id: the only reservation that it is about; None for all
    """
    return model.Event(
        id=uuidutils.generate_uuid(),
        lease_id=lease_id,
        event_type=event_type,
        time=time,
        status=states.EventStatus.UNDONE,
        status_reason=None,
        generation=0,
        attempts=0,
        next_at=time,
        created_at=now,
        updated_at=None,
        reservation_id=reservation_id,
    )


def new_reservation(
    lease_id: str,
    resource_type: str,
    resource_id: str,
    params: Mapping[str, Any],
    now: datetime.datetime,
    amounts: Mapping[str, int] | None = None,
) -> model.Reservation:
    """Make a reservation that waits for the start."""
    return model.Reservation(
        id=uuidutils.generate_uuid(),
        lease_id=lease_id,
        resource_type=resource_type,
        resource_id=resource_id,
        status=states.ReservationStatus.PENDING,
        status_reason=None,
        params=dict(params),
        missing_resources=False,
        resources_changed=False,
        created_at=now,
        updated_at=None,
        amounts=amounts or {},
    )


def first_events(
    lease_id: str,
    start: datetime.datetime,
    end: datetime.datetime,
    before_end: datetime.datetime | None,
    given: Iterable[tuple[str, datetime.datetime]],
    now: datetime.datetime,
    manual: bool = False,
    before_start: Iterable[int] = (),
) -> tuple[model.Event, ...]:
    """Make the events that a lease has at its creation.

    :param before_end: when the coming end is told; None for never
    :param given: types and times of the events that the user wants
    :param manual: the user starts the lease himself
    :param before_start: how many seconds before the start it is told
    """
    wanted = [(model.READY if manual else model.START, start), (model.END, end), *given]
    wanted += [(model.BEFORE_START, time) for time in heads_up(start, before_start, now)]
    if before_end is not None:
        wanted.append((model.BEFORE_END, before_end))
    wanted.sort(key=lambda item: (item[1], priority(item[0])))
    return tuple(new_event(lease_id, kind, time, now) for kind, time in wanted)


def heads_up(
    start: datetime.datetime, seconds: Iterable[int], now: datetime.datetime
) -> list[datetime.datetime]:
    """Return when a coming start is told: never when it is now, once for all that is past."""
    if start <= now:
        return []
    return sorted({max(now, start - datetime.timedelta(seconds=each)) for each in seconds})


def close(event: model.Event, reason: str | None, now: datetime.datetime) -> model.Event:
    """Take an event off the list; whoever works on it can no longer finish it."""
    if not event.open:
        return event
    return dataclasses.replace(
        event,
        status=states.EventStatus.DONE,
        status_reason=reason,
        generation=event.generation + 1,
        next_at=None,
        updated_at=now,
    )


def rearm(event: model.Event, time: datetime.datetime, now: datetime.datetime) -> model.Event:
    """Make an event due at ``time``, once more if it was done."""
    return dataclasses.replace(
        event,
        status=states.EventStatus.UNDONE,
        status_reason=None,
        generation=event.generation + 1,
        attempts=0,
        next_at=time,
        updated_at=now,
    )


def with_events(lease: model.Lease, *events: model.Event) -> model.Lease:
    """Put events into a lease in place of those with the same id, or beside the others."""
    by_id = {e.id: e for e in lease.events} | {e.id: e for e in events}
    return dataclasses.replace(lease, events=tuple(by_id.values()))


def begun(lease: model.Lease, now: datetime.datetime) -> bool:
    """Tell whether the start of a lease has begun, or is due."""
    if lease.status not in (states.LeaseStatus.PENDING, states.LeaseStatus.ERROR):
        return True
    return lease.event(model.START) is not None and now >= lease.start_date


def prepare(
    lease: model.Lease, reservation_ids: Iterable[str], now: datetime.datetime
) -> model.Lease:
    """Have reservations prepared now; the start does it if that has begun."""
    if begun(lease, now):
        return lease
    wanted = (new_event(lease.id, model.PREPARE, now, now, each) for each in reservation_ids)
    return with_events(lease, *wanted)


def unprepared(lease: model.Lease) -> frozenset[str]:
    """Return the ids of the reservations whose resource was taken back, or is being so."""
    failed = {
        event.reservation_id
        for event in lease.events
        if event.event_type == model.PREPARE
        and (event.open or event.status == states.EventStatus.ERROR)
    }
    wrong = states.ReservationStatus.ERROR
    return frozenset(r.id for r in lease.reservations if r.id in failed and r.status == wrong)


def in_order(
    present: Sequence[model.Reservation], joining: Iterable[model.Reservation]
) -> tuple[model.Reservation, ...]:
    """Return reservations that join others, with times of creation that keep their order.

    Reservations are read by that time, so each gets one that is later than all before it.

    :param present: those that the lease has, in their order
    """
    last = present[-1].created_at if present else None
    ordered = []
    for each in joining:
        if last is not None and each.created_at <= last:
            each = dataclasses.replace(each, created_at=last + _TICK)
        last = each.created_at
        ordered.append(each)
    return tuple(ordered)


def join(
    lease: model.Lease,
    reservations: Sequence[model.Reservation],
    now: datetime.datetime,
    preparing: Iterable[str] = (),
) -> Change:
    """Add resources to a lease; if it has started already, they are woken as soon as possible.

    A lease in ERROR takes more as well: what failed does not keep the others from being woken.
    What joins comes after all that the lease has.

    :param preparing: the ids of those that are to be prepared
    :raises climate_core.exceptions.InvalidState: it is over, or about to be
    """
    if lease.status in states.ENDING:
        raise exceptions.InvalidState(
            f'Lease {lease.id} is {lease.status}: nothing can be added to it.'
        )
    start = lease.event(model.START)
    joining = in_order(lease.reservations, reservations)
    joined = dataclasses.replace(lease, reservations=(*lease.reservations, *joining))
    if start is not None and not start.open:
        joined = with_events(joined, rearm(start, now, now))
    return Change(prepare(joined, preparing, now), {'lease.update': None})


def over(lease: model.Lease, now: datetime.datetime, reason: str | None) -> model.Lease:
    """Make a lease that holds nothing any more TERMINATED, and hide it if it is being deleted."""
    deleting = lease.status == states.LeaseStatus.DELETING
    after = dataclasses.replace(
        lease,
        status=states.check(states.LEASE, lease.status, states.LeaseStatus.TERMINATED),
        status_reason=reason,
        deleted_at=now if deleting else lease.deleted_at,
    )
    closed = [
        close(e, 'The lease is over.', now)
        for e in lease.events
        if e.event_type not in model.AFTERWARDS
    ]
    return release(tell_external(with_events(after, *closed), now), now)


_TRUST = model.RELEASE_TRUST


def external_end(lease_id: str, now: datetime.datetime) -> model.Event:
    """Make the event by which the external service will hear of the end; it is not due yet."""
    event = new_event(lease_id, model.EXTERNAL_END, now, now)
    return dataclasses.replace(event, next_at=None)


def tell_external(lease: model.Lease, now: datetime.datetime) -> model.Lease:
    """Have the external service told, if it waits for that."""
    event = lease.event(model.EXTERNAL_END)
    if event is None or event.status != states.EventStatus.UNDONE or event.next_at is not None:
        return lease
    return with_events(lease, dataclasses.replace(rearm(event, now, now), time=now))


def release(lease: model.Lease, now: datetime.datetime) -> model.Lease:
    """Have the owner's trust deleted, if there is one and nobody is at it."""
    if lease.trust_id is None or any(e.event_type == _TRUST and e.open for e in lease.events):
        return lease
    return with_events(lease, new_event(lease.id, _TRUST, now, now))


def delete(lease: model.Lease, now: datetime.datetime) -> Change:
    """Delete a lease: at once if it holds nothing, otherwise by an end that is due now."""
    deleting = dataclasses.replace(
        lease,
        status=states.check(states.LEASE, lease.status, states.LeaseStatus.DELETING)
        if lease.status != states.LeaseStatus.TERMINATED
        else lease.status,
    )
    if not lease.live:
        gone = over(deleting, now, lease.status_reason)
        return Change(dataclasses.replace(gone, deleted_at=now), {'lease.delete': None})
    if lease.status == states.LeaseStatus.DELETING:
        return Change(lease)
    closed = [
        close(e, 'The lease is deleted.', now)
        for e in lease.events
        if e.event_type != model.END and e.event_type not in model.AFTERWARDS
    ]
    return Change(with_events(deleting, *closed, end_now(lease, now)))


def end_now(lease: model.Lease, now: datetime.datetime) -> model.Event:
    """Make the end of a lease due now."""
    end = lease.event(model.END)
    if end is None:
        return new_event(lease.id, model.END, now, now)
    # Whoever works on the end sees at its finish what the lease is by then.
    in_progress = end.status == states.EventStatus.IN_PROGRESS
    return end if in_progress else rearm(end, now, now)


def healed(lease: model.Lease, now: datetime.datetime) -> str:
    """Return the status of a lease that had a failure when some of its resources are gone."""
    _L, _R = states.LeaseStatus, states.ReservationStatus
    started = begun(lease, now)
    wrong = (_R.ERROR, _R.PENDING) if started else (_R.ERROR,)
    if lease.status != _L.ERROR or any(r.status in wrong for r in lease.reservations):
        return lease.status
    return states.check(states.LEASE, lease.status, _L.ACTIVE if started else _L.PENDING)


#: Why a lease whose time has come is PENDING.
WAITS_FOR_USER: Final = 'Waiting to be started by its user.'


def waits_for_user(lease: model.Lease) -> str | None:
    """Say that only the word of its user is missing, if that is so."""
    told = any(
        e.event_type == model.READY and e.status == states.EventStatus.DONE for e in lease.events
    )
    return WAITS_FOR_USER if told and lease.status == states.LeaseStatus.PENDING else None


#: Of so many resources it is told what is wrong: MariaDB has 64 KiB for a text.
_TOLD = 10


def tell_reasons(reservations: Iterable[model.Reservation]) -> str:
    """Say what is wrong with resources; of many, with the first ones, and how many more."""
    wrong = list(reservations)
    told = [f'{r.resource_type} {r.resource_id}: {r.status_reason}' for r in wrong[:_TOLD]]
    more = [f'and {len(wrong) - _TOLD} more'] if len(wrong) > _TOLD else []
    return '; '.join([*told, *more])
