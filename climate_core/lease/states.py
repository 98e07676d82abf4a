# SPDX-License-Identifier: Apache-2.0
"""The states of leases, reservations and events, and the moves between them.

The tables are complete: :func:`check_move` checks them before a state changes, and the
documentation draws its diagrams from them (doc/ext/states.py).
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple


class LeaseStatus(enum.StrEnum):
    """The status of a lease, as the API shows it; :data:`LEASE` has the moves between them."""

    WAITING = 'WAITING'
    IN_PROGRESS = 'IN_PROGRESS'
    PENDING = 'PENDING'
    STARTING = 'STARTING'
    ACTIVE = 'ACTIVE'
    TERMINATING = 'TERMINATING'
    TERMINATED = 'TERMINATED'
    DELETING = 'DELETING'
    ERROR = 'ERROR'
    TIMEDOUT = 'TIMEDOUT'


class ReservationStatus(enum.StrEnum):
    """The status of one resource of a lease."""

    PENDING = 'pending'
    ACTIVE = 'active'
    DELETING = 'deleting'
    DELETED = 'deleted'
    ERROR = 'error'


class EventStatus(enum.StrEnum):
    """The status of an event; one that is IN_PROGRESS is claimed by a manager."""

    UNDONE = 'UNDONE'
    IN_PROGRESS = 'IN_PROGRESS'
    DONE = 'DONE'
    ERROR = 'ERROR'


class StartPolicy(enum.StrEnum):
    """The start policy of a lease: it starts at its start date, or when its user starts it."""

    AUTO = 'auto'
    MANUAL = 'manual'


class LeaseKind(enum.StrEnum):
    """The kind of a lease: when its resources are claimed, and what follows without capacity."""

    #: The resources are claimed, or allocated, at the request; otherwise the request fails.
    IMMEDIATE = 'immediate'
    #: The calendar allocates the resources for its time; otherwise the request fails.
    SCHEDULED = 'scheduled'
    #: It is queued until there is capacity, and retried periodically.
    RETRY = 'retry'
    #: Hosts are drained for it, if a sufficient number of hosts can be drained.
    BEST_EFFORT = 'best_effort'


class Move(NamedTuple):
    """Describe an allowed change of state and its cause."""

    source: str
    target: str
    cause: str


_L, _R, _E = LeaseStatus, ReservationStatus, EventStatus

LEASE: Sequence[Move] = (
    Move(_L.WAITING, _L.PENDING, 'it is granted'),
    Move(_L.WAITING, _L.TERMINATING, 'cancelled, or end is due'),
    Move(_L.WAITING, _L.DELETING, 'delete'),
    Move(_L.WAITING, _L.TERMINATED, 'cancelled, or nothing is reserved any more'),
    Move(_L.WAITING, _L.ERROR, 'its last retry'),
    Move(_L.IN_PROGRESS, _L.PENDING, 'its hosts are drained'),
    Move(_L.IN_PROGRESS, _L.TIMEDOUT, 'its hosts were not drained in time'),
    Move(_L.IN_PROGRESS, _L.TERMINATING, 'cancelled, or end is due'),
    Move(_L.IN_PROGRESS, _L.DELETING, 'delete'),
    Move(_L.IN_PROGRESS, _L.TERMINATED, 'cancelled, or nothing is reserved any more'),
    Move(_L.PENDING, _L.WAITING, 'no capacity for its servers, or another lease preempts it'),
    Move(_L.PENDING, _L.STARTING, 'start is due, or its user starts it'),
    Move(_L.PENDING, _L.TERMINATING, 'cancelled, or end is due before the start was done'),
    Move(_L.PENDING, _L.DELETING, 'delete'),
    Move(_L.PENDING, _L.TERMINATED, 'every resource is lost, or nothing was reserved'),
    Move(_L.PENDING, _L.ERROR, 'a resource cannot be created for it'),
    Move(_L.STARTING, _L.ACTIVE, 'every resource is active'),
    Move(_L.STARTING, _L.WAITING, 'no capacity for its servers; it is retried'),
    Move(_L.STARTING, _L.ERROR, 'a resource cannot be started'),
    Move(_L.STARTING, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.STARTING, _L.DELETING, 'delete'),
    Move(_L.STARTING, _L.TERMINATED, 'every resource is lost, or it ended without any'),
    Move(_L.ACTIVE, _L.WAITING, 'another lease preempts it'),
    Move(_L.ACTIVE, _L.ERROR, 'an added resource cannot be started'),
    Move(_L.ACTIVE, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.ACTIVE, _L.DELETING, 'delete'),
    Move(_L.ACTIVE, _L.TERMINATED, 'every resource is lost, or it ended without any'),
    Move(_L.TERMINATING, _L.TERMINATED, 'every resource is freed'),
    Move(_L.TERMINATING, _L.DELETING, 'delete'),
    Move(_L.ERROR, _L.ACTIVE, 'what failed is lost or removed, the rest is active'),
    Move(_L.ERROR, _L.PENDING, 'what failed before the start is removed'),
    Move(_L.ERROR, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.ERROR, _L.DELETING, 'delete'),
    Move(_L.ERROR, _L.TERMINATED, 'every resource is lost, or it ended without any'),
    Move(_L.TIMEDOUT, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.TIMEDOUT, _L.DELETING, 'delete'),
    Move(_L.TIMEDOUT, _L.TERMINATED, 'it ended without resources'),
    Move(_L.DELETING, _L.TERMINATED, 'every resource is freed; the lease is hidden'),
)

RESERVATION: Sequence[Move] = (
    Move(_R.PENDING, _R.ACTIVE, 'started'),
    Move(_R.PENDING, _R.ERROR, 'cannot be started'),
    Move(_R.PENDING, _R.DELETING, 'removed from the lease'),
    Move(_R.PENDING, _R.DELETED, 'freed, or lost'),
    Move(_R.ACTIVE, _R.PENDING, 'another lease preempts it'),
    Move(_R.ACTIVE, _R.DELETING, 'removed from the lease'),
    Move(_R.ACTIVE, _R.DELETED, 'end action done, or lost'),
    Move(_R.ERROR, _R.PENDING, 'freed, and created again after the next grant'),
    Move(_R.ERROR, _R.DELETING, 'removed from the lease'),
    Move(_R.ERROR, _R.DELETED, 'freed, or lost'),
    Move(_R.DELETING, _R.DELETED, 'end action done'),
)

EVENT: Sequence[Move] = (
    Move(_E.UNDONE, _E.IN_PROGRESS, 'due and claimed'),
    Move(_E.IN_PROGRESS, _E.IN_PROGRESS, 'claim expired and taken over'),
    Move(_E.IN_PROGRESS, _E.UNDONE, 'polled again later'),
    Move(_E.IN_PROGRESS, _E.DONE, 'done'),
    Move(_E.IN_PROGRESS, _E.ERROR, 'permanent failure'),
    Move(_E.UNDONE, _E.DONE, 'not needed any more'),
    Move(_E.DONE, _E.UNDONE, 'a resource was added, or the time moved'),
    Move(_E.ERROR, _E.UNDONE, 'a resource was added'),
)

#: A lease in one of these accepts no changes from a user, except for its deletion.
ENDING = frozenset({_L.TERMINATING, _L.TERMINATED, _L.DELETING})

#: A lease in one of these may not have started.
MAY_BE_BEFORE_START = frozenset({_L.WAITING, _L.IN_PROGRESS, _L.PENDING, _L.ERROR, _L.TIMEDOUT})

#: A lease in one of these is not granted yet, and claims no resources.
UNGRANTED = frozenset({_L.WAITING, _L.IN_PROGRESS})

#: The resource of a reservation in one of these is claimed, and not freed yet.
LIVE = frozenset({_R.PENDING, _R.ACTIVE, _R.ERROR, _R.DELETING})

#: An event in one of these still has something to do.
OPEN = frozenset({_E.UNDONE, _E.IN_PROGRESS})


def is_allowed(table: Sequence[Move], source: str, target: str) -> bool:
    """Return whether the table has a move; a state may always stay."""
    return source == target or any(m.source == source and m.target == target for m in table)


def check_move(table: Sequence[Move], source: str, target: str) -> str:
    """Return ``target``; ValueError, a bug: the table has no such move."""
    if not is_allowed(table, source, target):
        raise ValueError(f'{source} -> {target} is not a move of the state table')
    return str(target)
