# SPDX-License-Identifier: Apache-2.0
"""List the states of leases, reservations and events, and the moves between them.

The tables below are complete: the engine asks :func:`check` before it writes a state, and the
pictures in the documents are drawn from them (doc/ext/states.py).
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
    """The kind of a lease: when its resources are held, and what follows if there are too few."""

    #: All is held, or promised by the calendar, at the request; otherwise the request fails.
    IMMEDIATE = 'immediate'
    #: The calendar promises it for its time; otherwise the request fails.
    SCHEDULED = 'scheduled'
    #: It waits until there is enough, and is tried again and again.
    RETRY = 'retry'
    #: Hosts are emptied for it, if there are enough that can be.
    BEST_EFFORT = 'best_effort'


class Move(NamedTuple):
    """Describe an allowed change of state and its cause."""

    source: str
    target: str
    cause: str


_L, _R, _E = LeaseStatus, ReservationStatus, EventStatus

LEASE: Sequence[Move] = (
    Move(_L.WAITING, _L.PENDING, 'there is enough for it by now'),
    Move(_L.WAITING, _L.TERMINATING, 'cancelled, or end is due'),
    Move(_L.WAITING, _L.DELETING, 'delete'),
    Move(_L.WAITING, _L.TERMINATED, 'cancelled, or nothing is wanted any more'),
    Move(_L.WAITING, _L.ERROR, 'it was tried as often as it may be'),
    Move(_L.IN_PROGRESS, _L.PENDING, 'its hosts are empty by now'),
    Move(_L.IN_PROGRESS, _L.TIMEDOUT, 'its hosts were not empty in time'),
    Move(_L.IN_PROGRESS, _L.TERMINATING, 'cancelled, or end is due'),
    Move(_L.IN_PROGRESS, _L.DELETING, 'delete'),
    Move(_L.IN_PROGRESS, _L.TERMINATED, 'cancelled, or nothing is wanted any more'),
    Move(_L.PENDING, _L.WAITING, 'its servers found no room, or another lease is preferred'),
    Move(_L.PENDING, _L.STARTING, 'start is due, or its user starts it'),
    Move(_L.PENDING, _L.TERMINATING, 'cancelled, or end is due before the start was done'),
    Move(_L.PENDING, _L.DELETING, 'delete'),
    Move(_L.PENDING, _L.TERMINATED, 'every resource is gone, or nothing was reserved'),
    Move(_L.PENDING, _L.ERROR, 'a resource that is made for it cannot be held'),
    Move(_L.STARTING, _L.ACTIVE, 'every resource is awake'),
    Move(_L.STARTING, _L.WAITING, 'of the kind retry: its servers found no room'),
    Move(_L.STARTING, _L.ERROR, 'a resource cannot be woken'),
    Move(_L.STARTING, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.STARTING, _L.DELETING, 'delete'),
    Move(_L.STARTING, _L.TERMINATED, 'every resource is gone, or ended while it held none'),
    Move(_L.ACTIVE, _L.WAITING, 'preemptible: another lease needs what it has'),
    Move(_L.ACTIVE, _L.ERROR, 'a resource that joined cannot be woken'),
    Move(_L.ACTIVE, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.ACTIVE, _L.DELETING, 'delete'),
    Move(_L.ACTIVE, _L.TERMINATED, 'every resource is gone, or ended while it held none'),
    Move(_L.TERMINATING, _L.TERMINATED, 'every resource is freed'),
    Move(_L.TERMINATING, _L.DELETING, 'delete'),
    Move(_L.ERROR, _L.ACTIVE, 'what failed is gone or taken out, the rest is awake'),
    Move(_L.ERROR, _L.PENDING, 'what failed before the start is taken out'),
    Move(_L.ERROR, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.ERROR, _L.DELETING, 'delete'),
    Move(_L.ERROR, _L.TERMINATED, 'every resource is gone, or ended while it held none'),
    Move(_L.TIMEDOUT, _L.TERMINATING, 'end is due, or its user ends it'),
    Move(_L.TIMEDOUT, _L.DELETING, 'delete'),
    Move(_L.TIMEDOUT, _L.TERMINATED, 'ended while it held none'),
    Move(_L.DELETING, _L.TERMINATED, 'every resource is freed; the lease is hidden'),
)

RESERVATION: Sequence[Move] = (
    Move(_R.PENDING, _R.ACTIVE, 'awake'),
    Move(_R.PENDING, _R.ERROR, 'cannot be woken'),
    Move(_R.PENDING, _R.DELETING, 'taken out of the lease'),
    Move(_R.PENDING, _R.DELETED, 'freed, or gone'),
    Move(_R.ACTIVE, _R.PENDING, 'preemptible: given up, and waits for it again'),
    Move(_R.ACTIVE, _R.DELETING, 'taken out of the lease'),
    Move(_R.ACTIVE, _R.DELETED, 'end action done, or gone'),
    Move(_R.ERROR, _R.PENDING, 'freed, and made again when the lease is granted'),
    Move(_R.ERROR, _R.DELETING, 'taken out of the lease'),
    Move(_R.ERROR, _R.DELETED, 'freed, or gone'),
    Move(_R.DELETING, _R.DELETED, 'end action done'),
)

EVENT: Sequence[Move] = (
    Move(_E.UNDONE, _E.IN_PROGRESS, 'due and claimed'),
    Move(_E.IN_PROGRESS, _E.IN_PROGRESS, 'claim expired and taken over'),
    Move(_E.IN_PROGRESS, _E.UNDONE, 'look again later'),
    Move(_E.IN_PROGRESS, _E.DONE, 'done'),
    Move(_E.IN_PROGRESS, _E.ERROR, 'failed for good'),
    Move(_E.UNDONE, _E.DONE, 'not needed any more'),
    Move(_E.DONE, _E.UNDONE, 'a resource joined, or the time moved'),
    Move(_E.ERROR, _E.UNDONE, 'a resource joined'),
)

#: A lease in one of these takes no more changes from a user, except that it may be deleted.
ENDING = frozenset({_L.TERMINATING, _L.TERMINATED, _L.DELETING})

#: A lease in one of these may not have begun to start.
MAY_BE_BEFORE_START = frozenset({_L.WAITING, _L.IN_PROGRESS, _L.PENDING, _L.ERROR, _L.TIMEDOUT})

#: A lease in one of these holds nothing yet, and is to get it.
UNGRANTED = frozenset({_L.WAITING, _L.IN_PROGRESS})

#: A reservation in one of these holds its resource.
LIVE = frozenset({_R.PENDING, _R.ACTIVE, _R.ERROR, _R.DELETING})

#: An event in one of these still has something to do.
OPEN = frozenset({_E.UNDONE, _E.IN_PROGRESS})


def is_allowed(table: Sequence[Move], source: str, target: str) -> bool:
    """Tell whether the table has the move; staying where one is is always allowed."""
    return source == target or any(m.source == source and m.target == target for m in table)


def check_move(table: Sequence[Move], source: str, target: str) -> str:
    """Return ``target``; ValueError if the table has no such move: a mistake in the program."""
    if not is_allowed(table, source, target):
        raise ValueError(f'{source} -> {target} is not a move of the state table')
    return str(target)
