# SPDX-License-Identifier: Apache-2.0
"""What a lease is: plain values without any I/O.

All times are timezone-aware UTC with microseconds. The statuses are the ones of
:mod:`climate_core.lease.states`, as plain strings.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, Final

from climate_core.lease import states

START: Final = 'start_lease'
END: Final = 'end_lease'
BEFORE_START: Final = 'before_start_lease'
BEFORE_END: Final = 'before_end_lease'
#: Stands for the start of a lease that its user starts himself: it only tells.
READY: Final = 'ready_to_start'
#: Deletes the trust of the owner; never shown to users.
RELEASE_TRUST: Final = 'release_trust'
#: Tells the external service that the lease is over. It waits without a time until then, and only
#: leases about which the service was asked have it.
EXTERNAL_END: Final = 'external_end'
#: Frees one reservation that its user took out of the lease; never shown.
END_RESERVATION: Final = 'end_reservation'
#: Does what one reservation needs as soon as it is written, long before the start, as filling a
#: stack; takes it back if that cannot be done. Never shown.
PREPARE: Final = 'prepare_reservation'
#: What is done when a lease is over, so that nothing closes it before.
AFTERWARDS: Final = frozenset({RELEASE_TRUST, EXTERNAL_END})

#: Events that the service makes and a user cannot give. BEFORE_END is none of them: clients of
#: today may give it with a new lease.
OWN_EVENTS: Final = frozenset(
    {START, READY, BEFORE_START, END, END_RESERVATION, PREPARE, *AFTERWARDS}
)
#: Events that are never shown.
HIDDEN_EVENTS: Final = AFTERWARDS | {END_RESERVATION, PREPARE}


#: Of the params of a resource that another one of the lease keeps, as a server of a stack: the id
#: of that one.
KEEPER: Final = 'stack_id'


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """One resource of a lease.

    :param params: what the plugin keeps with it and the API shows; JSON types only
    :param missing_resources: its resource went away without the lease
    :param amounts: how much it holds, by unit: ``servers``, ``vcpus``, ``memory_mb``, ``disk_gb``
        and what other plugins count
    :param woken_at: when its resource was awake
    :param freed_at: when it held its resource no more
    """

    id: str
    lease_id: str
    resource_type: str
    resource_id: str
    status: str
    status_reason: str | None
    params: Mapping[str, Any]
    missing_resources: bool
    resources_changed: bool
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    amounts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    woken_at: datetime.datetime | None = None
    freed_at: datetime.datetime | None = None

    @property
    def live(self) -> bool:
        """Whether it holds its resource."""
        return self.status in states.LIVE


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a lease at a time.

    :param generation: counts the claims; whoever finishes must still have the one it claimed
    :param attempts: failed attempts since the last success
    :param next_at: when it wants attention: due time, or the end of a claim; None when finished
    :param reservation_id: the only reservation that it is about; None when it is about all
    """

    id: str
    lease_id: str
    event_type: str
    time: datetime.datetime
    status: str
    status_reason: str | None
    generation: int
    attempts: int
    next_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    reservation_id: str | None = None

    @property
    def open(self) -> bool:
        """Whether there is still something to do."""
        return self.status in states.OPEN


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The contract between a project and the cloud.

    :param before_end_date: when ``before_end_lease`` is told; None when it is not
    :param degraded: some resource is gone, the others go on
    :param generation: counts the changes; an update may name the one it is based on
    :param start_policy: ``auto``, or ``manual`` when the user starts it himself
    :param before_start: how many seconds before the start ``before_start_lease`` is told
    :param webhook: ``url``, ``secret`` and ``events`` of whom the user wants to be told
    :param request_digest: of the request that made it, if that had an Idempotency-Key
    :param reservations: ordered by creation
    :param events: ordered by time; includes hidden ones, see :attr:`shown_events`
    """

    id: str
    name: str
    project_id: str
    user_id: str
    start_date: datetime.datetime
    end_date: datetime.datetime
    before_end_date: datetime.datetime | None
    status: str
    status_reason: str | None
    degraded: bool
    trust_id: str | None
    generation: int
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    deleted_at: datetime.datetime | None
    start_policy: str = states.StartPolicy.AUTO
    before_start: tuple[int, ...] = ()
    webhook: Mapping[str, Any] | None = None
    request_digest: str | None = None
    reservations: tuple[Reservation, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def live(self) -> tuple[Reservation, ...]:
        """The reservations that hold their resource."""
        return tuple(r for r in self.reservations if r.live)

    @property
    def shown_events(self) -> tuple[Event, ...]:
        """The events that users may see."""
        return tuple(e for e in self.events if e.event_type not in HIDDEN_EVENTS)

    def event(self, event_type: str) -> Event | None:
        """Return the first event of this type, or None."""
        return next((e for e in self.events if e.event_type == event_type), None)
