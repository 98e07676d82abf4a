# SPDX-License-Identifier: Apache-2.0
"""What becomes of the work on an event, and what the event is then. Pure."""

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence

from climate_core.lease import model, plan, states

_R, _E = states.ReservationStatus, states.EventStatus


class Result(enum.Enum):
    DONE = 'done'
    WAIT = 'wait'
    RETRY = 'retry'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one reservation, or of the whole event.

    :param seconds: when to look again, for WAIT and RETRY
    :param reason: a sentence for the user, for RETRY and FAILED; for WAIT if that takes long
    """

    result: Result
    seconds: float = 0.0
    reason: str | None = None


DONE = Outcome(Result.DONE)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What is to be done for an event.

    :param lease: the lease while it is done
    :param reservations: those to work on, in order
    :param pointless: why nothing shall be done, if so; the event is closed
    :param notices: what is told before it is done, as in :class:`plan.Change`
    """

    lease: model.Lease
    reservations: tuple[model.Reservation, ...] = ()
    pointless: str | None = None
    notices: Mapping[str, str | None] = dataclasses.field(default_factory=dict)


def again(event: model.Event, todo: Sequence[Outcome], now: datetime.datetime) -> model.Event:
    failing = [o for o in todo if o.result is Result.RETRY]
    # Resources that are on their way are not kept waiting by one that fails.
    seconds = min(o.seconds for o in todo)
    return dataclasses.replace(
        event,
        status=_E.UNDONE,
        status_reason=failing[0].reason if failing else None,
        attempts=event.attempts + 1 if failing else 0,
        next_at=now + datetime.timedelta(seconds=max(0.0, seconds)),
        updated_at=now,
    )


def finish(event: model.Event, reason: str | None, now: datetime.datetime) -> model.Event:
    return dataclasses.replace(
        event,
        status=_E.DONE,
        status_reason=reason,
        next_at=None,
        attempts=0,
        updated_at=now,
    )


def lasting(lease: model.Lease) -> str | None:
    """Say what went wrong for good: what cannot be woken, and what was lost."""
    wrong = (r for r in lease.reservations if r.status == _R.ERROR or r.missing_resources)
    return plan.tell_reasons(wrong) or None
