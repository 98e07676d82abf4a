# SPDX-License-Identifier: Apache-2.0
"""Leases, reservations and events as plain values without any I/O.

All times are timezone-aware UTC with microseconds. The statuses are the ones of
:mod:`climate_core.lease.states`, as plain strings.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from oslo_utils import uuidutils

from climate_common.event_types import BEFORE_END as BEFORE_END
from climate_common.event_types import BEFORE_START as BEFORE_START
from climate_common.event_types import END as END
from climate_common.event_types import END_RESERVATION as END_RESERVATION
from climate_common.event_types import EXTERNAL_END as EXTERNAL_END
from climate_common.event_types import MAKE_ROOM as MAKE_ROOM
from climate_common.event_types import PREEMPT as PREEMPT
from climate_common.event_types import PREPARE as PREPARE
from climate_common.event_types import READY as READY
from climate_common.event_types import REALLOCATE as REALLOCATE
from climate_common.event_types import RELEASE_TRUST as RELEASE_TRUST
from climate_common.event_types import RETRY as RETRY
from climate_common.event_types import START as START
from climate_core import exceptions
from climate_core.lease import states

#: The prefix of the id of a resource that is to be created for its lease, and does not exist yet.
UNMADE: Final = 'new:'
#: The params with the specification of servers and volumes that are created for their lease.
SPECIFICATIONS: Final = ('server', 'volume')
#: The parameter of a reservation with its group; never shown.
GROUP: Final = '_group'
#: The parameter of a reservation with the amounts that it claims when it is granted; never shown.
HOLDS: Final = '_holds'
#: The parameter of a server with what it requires of its host; never shown.
NEEDS: Final = '_needs'
#: The parameter of a reservation whose resource and amounts are reported by its service, and not
#: verified yet; never shown.
REPORTED: Final = '_reported'
#: The parameter of a reservation with the sealed secrets of its group; never shown.
SEALED: Final = '_sealed'
#: The parameter of a resource with parts, as a stack, with the parts that need capacity, by type;
#: never shown.
PARTS: Final = '_parts'
#: Stands for unknown properties of such a part: a property and the name of the part.
UNKNOWN: Final = 'unknown'

#: Type and id of a resource.
ResourceKey = tuple[str, str]


class Allocation(NamedTuple):
    """Pieces of one unit that the calendar allocates to a reservation for a time.

    The calendar reads, chooses and writes it. The times are numbers
    (:mod:`climate_common.dates`). They include the time that cleans the unit.

    :param lane: the place among the concurrent allocations, from 0 on
    :param piece: the amounts of one piece; None: the piece is the whole unit
    :param unit_generation: that of the unit when it was written, which no two allocations of a
        unit share; 0: it is not written yet
    :param released: it was released while the lease was running
    """

    unit_id: int
    reservation_id: str
    start: int
    end: int
    lane: int = 0
    pieces: int = 1
    piece: Mapping[str, int] | None = None
    unit_generation: int = 0
    released: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedUnit:
    """A part of a unit that is allocated to a reservation, as its plugin and users see it.

    :param pieces: the number of pieces of the unit; 1 of a whole unit
    :param lane: the place among the allocations of the same time
    :param unit: the row of the unit in the table of its kind
    """

    unit_id: int
    start: datetime
    end: datetime
    pieces: int = 1
    lane: int = 0
    unit: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A resource of a lease, or an amount of resources.

    :param params: what its plugin stores and the API shows; JSON types only
    :param missing_resources: whether its resource was deleted outside of the lease
    :param amounts: what it claims, by unit: ``servers``, ``vcpus``, ``memory_mb``, ``disk_gb`` and
        the units of other plugins
    :param woken_at: when its resource was started
    :param freed_at: when its resource was freed
    :param parent_id: the id of the resource of the same lease that its resource is a part of
    :param progress: what its plugin stores between two calls; JSON types, never shown
    :param unit_kind: the kind of units that the calendar allocates; None: the service of the
        resource claims it
    :param allocations: its allocations, in a stable order
    :param released: the allocations that it lost while its lease was active, as a failed host
    :param given_up: whether it is what its lease had until it was preempted
    """

    id: str
    lease_id: str
    resource_type: str
    resource_id: str
    status: str = states.ReservationStatus.PENDING
    status_reason: str | None = None
    params: Mapping[str, Any]
    missing_resources: bool = False
    resources_changed: bool = False
    created_at: datetime
    updated_at: datetime | None = None
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    woken_at: datetime | None = None
    freed_at: datetime | None = None
    parent_id: str | None = None
    progress: Mapping[str, Any] | None = None
    unit_kind: str | None = None
    allocations: tuple[AllocatedUnit, ...] = ()
    released: tuple[AllocatedUnit, ...] = ()
    given_up: bool = False

    @property
    def key(self) -> ResourceKey:
        """Return the type and the id of its resource."""
        return self.resource_type, self.resource_id

    @property
    def live(self) -> bool:
        """Return whether its resource is claimed, and not freed yet."""
        return self.status in states.LIVE

    @property
    def group(self) -> str | None:
        """Return the group of the resources that are created for the lease together.

        None: its resource is not created for the lease.
        """
        return self.params.get(GROUP)

    @property
    def parts(self) -> Mapping[str, Sequence[Mapping[str, Any]]] | None:
        """Return the parts of its resource that need capacity, by type.

        None: no parts are known.
        """
        return self.params.get(PARTS)

    @property
    def is_made(self) -> bool:
        """Return whether its resource exists, or existed."""
        return not self.resource_id.startswith(UNMADE)

    @property
    def is_uncreated(self) -> bool:
        """Return whether its resource is created for the lease, and does not exist yet."""
        return bool(self.group) and not self.is_made


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens to a lease at a time.

    :param generation: counts the claims; only the last claim can be finished
    :param attempts: failed attempts since the last success
    :param next_at: the due time, or the end of a claim; None: it is finished
    :param reservation_id: the only reservation that it is about; None: it is about the lease
    """

    id: str
    lease_id: str
    event_type: str
    time: datetime
    status: str = states.EventStatus.UNDONE
    status_reason: str | None = None
    generation: int = 0
    attempts: int = 0
    next_at: datetime | None
    created_at: datetime
    updated_at: datetime | None = None
    reservation_id: str | None = None

    @property
    def open(self) -> bool:
        """Return whether there is still something to do."""
        return self.status in states.OPEN


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The contract between a project and the cloud.

    :param before_end_date: when ``before_end_lease`` is due; None: never
    :param degraded: whether a resource is missing while other resources are active
    :param generation: counts the changes; an update may name the generation that it is based on
    :param start_policy: ``auto``, or ``manual`` if its user starts it
    :param before_start: the seconds before the start at which ``before_start_lease`` is due
    :param webhook: ``url``, ``secret`` and ``events`` of the receiver of its notifications
    :param request_digest: of the request that created it, if that had an Idempotency-Key
    :param kind: one of :class:`.states.LeaseKind`
    :param retries_left: the retries of a queued lease; also of a lease whose servers are being
        created, which is queued again if Nova has no capacity for them
    :param priority: queued leases with a higher priority come first
    :param preemptible: whether other leases may preempt it
    :param duration: the seconds that it lasts after its grant; None: it ends at its end date
    :param reservations: ordered by creation
    :param events: ordered by time, with hidden ones
    """

    id: str
    name: str
    project_id: str
    user_id: str
    start_date: datetime
    end_date: datetime
    before_end_date: datetime | None = None
    status: str = states.LeaseStatus.PENDING
    status_reason: str | None = None
    degraded: bool = False
    trust_id: str | None = None
    generation: int = 0
    created_at: datetime
    updated_at: datetime | None = None
    deleted_at: datetime | None = None
    start_policy: str = states.StartPolicy.AUTO
    before_start: tuple[int, ...] = ()
    webhook: Mapping[str, Any] | None = None
    request_digest: str | None = None
    kind: str = states.LeaseKind.IMMEDIATE
    retries_left: int | None = None
    priority: int = 0
    preemptible: bool = False
    duration: int | None = None
    reservations: tuple[Reservation, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def live(self) -> tuple[Reservation, ...]:
        """Return the reservations whose resource is claimed, and not freed yet."""
        return tuple(r for r in self.reservations if r.live)

    @property
    def uncreated(self) -> tuple[Reservation, ...]:
        """Return the live reservations to be created, or to be filled as a stack."""
        waits = states.EventStatus.UNDONE
        unfilled = {e.reservation_id for e in self.events_of(PREPARE) if e.status == waits}
        return tuple(
            r
            for r in self.live
            if r.is_uncreated or (r.parts and r.progress is None and r.id in unfilled)
        )

    @property
    def early_ends(self) -> Mapping[str, datetime]:
        """Return the ends of reservations that end before the lease, by their ids."""
        ends = [e for e in self.events_of(END_RESERVATION) if e.open]
        if not ends:
            # As of nearly all leases: a list reads it of each lease.
            return {}
        staying = {r.id for r in self.live if r.status != states.ReservationStatus.DELETING}
        return {e.reservation_id: e.time for e in ends if e.reservation_id in staying}

    @property
    def next_retry_at(self) -> datetime | None:
        """Return when a queued lease is retried; None for other leases."""
        if self.status != states.LeaseStatus.WAITING:
            return None
        return next((e.time for e in self.events_of(RETRY) if e.open), None)

    @property
    def never_granted(self) -> bool:
        """Return whether it was queued until its last retry and never granted."""
        if self.status == states.LeaseStatus.TIMEDOUT:
            return True
        never = not self.events_of(START, READY)
        return self.status == states.LeaseStatus.ERROR and never and bool(self.events_of(RETRY))

    @property
    def preempted_at(self) -> datetime | None:
        """Return when it is preempted; None: it is not."""
        return next((e.time for e in self.events_of(PREEMPT) if e.open), None)

    @property
    def is_being_preempted(self) -> bool:
        """Return whether its preemption has started."""
        return any(e.open and e.generation for e in self.events_of(PREEMPT))

    def event(self, event_type: str) -> Event | None:
        """Return the first event of this type, or None."""
        return next(iter(self.events_of(event_type)), None)

    def events_of(self, *event_types: str, reservation_id: str | None = None) -> tuple[Event, ...]:
        """Return the events of these types, or only those about one reservation."""
        return tuple(
            e
            for e in self.events
            if e.event_type in event_types and reservation_id in (None, e.reservation_id)
        )

    def get_reservation(self, reservation_id: str) -> Reservation:
        """Return a reservation, even if its resource is freed."""
        for reservation in self.reservations:
            if reservation.id == reservation_id:
                return reservation
        raise reservation_not_found(self.id, reservation_id)

    def has_started(self, now: datetime) -> bool:
        """Return whether the lease has started, or its start is due."""
        if self.status not in states.MAY_BE_BEFORE_START:
            return True
        return self.event(START) is not None and now >= self.start_date

    def moved_to(self, status: str, reason: str | None) -> 'Lease':
        """Return the lease in a status of the state table, with the reason for it."""
        status = states.check_move(states.LEASE, self.status, status)
        return dataclasses.replace(self, status=status, status_reason=reason)

    def with_events(self, *events: Event) -> 'Lease':
        """Return the lease with more events, which replace those with the same ids."""
        by_id = {e.id: e for e in self.events} | {e.id: e for e in events}
        return dataclasses.replace(self, events=tuple(by_id.values()))

    def with_reservations(self, *reservations: Reservation) -> 'Lease':
        """Return the lease with reservations that replace those with the same ids."""
        new = {r.id: r for r in reservations}
        changed = tuple(new.get(r.id, r) for r in self.reservations)
        return dataclasses.replace(self, reservations=changed)


def queue_order(of: Any) -> tuple[Any, ...]:
    """Return the sort key of queued leases: preemptible leases are last.

    Leases that preempt others come before leases of the kind retry.

    :param of: a lease, or the columns of their table
    """
    waits = of.kind == states.LeaseKind.RETRY
    return of.preemptible, -of.priority, waits, of.created_at, of.id


def secrets_owner(lease_id: str, params: Mapping[str, Any]) -> str:
    """Return the owner that the sealed secrets of a group of reservations are bound to."""
    return f'{lease_id}/{params[GROUP]}'


def reservation_not_found(lease_id: str, reservation_id: str) -> exceptions.ReservationNotFound:
    """Return the error for a reservation that a lease does not have."""
    return exceptions.ReservationNotFound(f'Lease {lease_id} has no reservation {reservation_id}.')


def order_joining(
    present: Sequence[Reservation], joining: Iterable[Reservation]
) -> tuple[Reservation, ...]:
    """Return reservations that join a lease, with increasing times of creation.

    Reservations are sorted by that time when they are read.
    """
    ordered = [*present]
    for reservation in joining:
        if ordered and reservation.created_at <= ordered[-1].created_at:
            later = ordered[-1].created_at + timedelta(microseconds=1)
            reservation = dataclasses.replace(reservation, created_at=later)
        ordered.append(reservation)
    return tuple(ordered[len(present) :])


def new_event(
    lease_id: str,
    event_type: str,
    time: datetime,
    now: datetime,
    reservation_id: str | None = None,
) -> Event:
    """Return a new event that is due at ``time``, or now if that has passed."""
    return Event(
        id=uuidutils.generate_uuid(),
        lease_id=lease_id,
        event_type=event_type,
        time=time,
        next_at=max(time, now),
        created_at=now,
        reservation_id=reservation_id,
    )


def new_reservation(
    lease_id: str,
    resource_type: str,
    resource_id: str,
    params: Mapping[str, Any],
    now: datetime,
    amounts: Mapping[str, int] | None = None,
    parent_id: str | None = None,
    unit_kind: str | None = None,
) -> Reservation:
    """Return a new pending reservation."""
    return Reservation(
        id=uuidutils.generate_uuid(),
        lease_id=lease_id,
        resource_type=resource_type,
        resource_id=resource_id,
        params=dict(params),
        created_at=now,
        amounts=amounts or {},
        parent_id=parent_id,
        unit_kind=unit_kind,
    )
