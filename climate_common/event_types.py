# SPDX-License-Identifier: Apache-2.0
"""The names of the types of events that the lease service creates; users name other types.

``climate_core.lease.events`` has what they do. Clients do not import it, and reject types that
users cannot add before they send a request.
"""

from typing import Final

START: Final = 'start_lease'
#: Stands for the start of a lease that its user starts: it only notifies.
READY: Final = 'ready_to_start'
BEFORE_START: Final = 'before_start_lease'
END: Final = 'end_lease'
BEFORE_END: Final = 'before_end_lease'
END_RESERVATION: Final = 'end_reservation'
PREPARE: Final = 'prepare_reservation'
REALLOCATE: Final = 'reallocate_reservation'
RETRY: Final = 'retry_lease'
MAKE_ROOM: Final = 'make_room'
PREEMPT: Final = 'preempt_lease'
RELEASE_TRUST: Final = 'release_trust'
EXTERNAL_END: Final = 'external_end'

ALL: Final = frozenset(
    {
        START,
        READY,
        BEFORE_START,
        END,
        BEFORE_END,
        END_RESERVATION,
        PREPARE,
        REALLOCATE,
        RETRY,
        MAKE_ROOM,
        PREEMPT,
        RELEASE_TRUST,
        EXTERNAL_END,
    }
)
#: Types that a user cannot add; Blazar's clients send BEFORE_END with a new lease.
RESERVED_TYPES: Final = ALL - {BEFORE_END}


def is_user_event(event_type: str) -> bool:
    """Return whether a user named the type of an event."""
    return event_type not in ALL


def is_before_end(event_type: str) -> bool:
    """Return whether events of a type notify of the coming end of the lease."""
    return event_type == BEFORE_END
