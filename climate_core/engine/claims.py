# SPDX-License-Identifier: Apache-2.0
"""Store the claims of this process and renew them.

A claim that is not renewed expires, and any manager resumes the event, also the same manager after
a restart.
"""

import dataclasses
import time
from typing import Final

from sqlalchemy import orm

from climate_core.db import events
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.lease import model, states
from climate_core.threads import Backoff, Worker

#: Seconds after the claim in which it needs no confirmation before services are called.
_CONFIRMED_SECONDS: Final = 1.0


class ClaimLost(Exception):
    """A claim expired and another manager has the event, or the event was superseded.

    A write raises it before anything is written.
    """


@dataclasses.dataclass(eq=False, slots=True)
class EventClaim:
    """An event that this manager works on.

    :param renew_at: when to renew it, by this process's monotonic clock
    :param lost: another manager has it now, or the event was superseded
    """

    event_id: str
    lease_id: str
    event_type: str
    generation: int
    renew_at: float
    lost: bool = False

    @property
    def info(self) -> dict[str, str | None]:
        """Return its fields for test points and the log."""
        return {
            'event_id': self.event_id,
            'event_type': self.event_type,
            'lease_id': self.lease_id,
        }


class Claims(Worker):
    """Take claims and keep them alive while their work goes on.

    :param ttl: seconds after which a claim expires; it is renewed after a third of that
    """

    name = 'claims'
    expected_errors = DATABASE_ERRORS
    failure_message = 'Could not renew claims; the renewal is retried'

    def __init__(self, database: Database, ttl: float) -> None:
        super().__init__(ttl, pause=Backoff(ttl / 10, ttl / 10))
        self.database = database
        self._ttl = ttl
        self._claims: set[EventClaim] = set()

    def poll(self) -> float | None:
        self.renew(time.monotonic())
        with self._changed:
            first = min((c.renew_at for c in self._claims), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    def claim(self, session: orm.Session, due: events.DueEvent) -> EventClaim | None:
        """Claim an event that is due; None if another manager was faster.

        It is renewed once it is committed, and given to :meth:`hold`.
        """
        begun_at = time.monotonic()
        if not events.claim(session, due.id, due.generation, self._ttl, due.is_early):
            return None
        return EventClaim(
            due.id, due.lease_id, due.event_type, due.generation + 1, begun_at + self._ttl / 3
        )

    def hold(self, claim: EventClaim) -> None:
        """Keep a claim alive until it is dropped."""
        with self._changed:
            is_first = all(claim.renew_at < other.renew_at for other in self._claims)
            self._claims.add(claim)
        # For the other claims it wakes up early enough.
        if is_first:
            self.nudge()

    def drop(self, claim: EventClaim) -> None:
        """Stop renewing a claim."""
        with self._changed:
            self._claims.discard(claim)

    def confirm(self, claim: EventClaim) -> bool:
        """Return whether a claim is still held; read the database if it is older than a second."""
        now = time.monotonic()
        if not claim.lost and now > claim.renew_at - self._ttl / 3 + _CONFIRMED_SECONDS:
            self._renew(claim, now)
        return not claim.lost

    def give_back(self, claim: EventClaim) -> None:
        """End a claim, so that the event is due again; :meth:`drop` must follow."""
        self.database.write(events.renew, claim.event_id, claim.generation, 0.0)

    def renew(self, now: float) -> None:
        """Renew the claims that are due for it at ``now`` (monotonic seconds)."""
        with self._changed:
            aged = [c for c in self._claims if c.renew_at <= now]
        for claim in aged:
            self._renew(claim, now)

    def _renew(self, claim: EventClaim, now: float) -> None:
        if self.database.write(events.renew, claim.event_id, claim.generation, self._ttl):
            claim.renew_at = now + self._ttl / 3
            return
        claim.lost = True
        self.drop(claim)


def find_claimed_event(lease: model.Lease | None, claim: EventClaim) -> model.Event:
    """Return the event of a claim.

    :param lease: as it was read, locked
    :raises ClaimLost: another manager continues the event
    """
    for event in lease.events if lease is not None else ():
        claimed = event.status == states.EventStatus.IN_PROGRESS
        if event.id == claim.event_id and event.generation == claim.generation and claimed:
            return event
    raise ClaimLost
