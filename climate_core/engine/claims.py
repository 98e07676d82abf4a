# SPDX-License-Identifier: Apache-2.0
"""The claims that this process holds, and the thread that renews them.

A claim that nobody renews expires, and any manager takes the event up. There is no name of a
manager in a claim: one that is restarted waits for its own old claims as the others do.
"""

import dataclasses
import threading
import time

from oslo_log import log

from climate_core.db import events
from climate_core.db.engine import TROUBLE, Database

LOG = log.getLogger(__name__)


@dataclasses.dataclass(eq=False, slots=True)
class Claim:
    """An event that we have.

    :param renew_at: when to renew it, by this process's monotonic clock
    :param lost: somebody else has it now, or nobody shall
    """

    event_id: str
    lease_id: str
    event_type: str
    generation: int
    renew_at: float
    lost: bool = False


class Claims:
    """Takes claims and keeps them alive while their work goes on.

    :param ttl: seconds after which a claim expires; it is renewed after a third of that
    """

    def __init__(self, database: Database, ttl: float) -> None:
        self._database = database
        self._ttl = ttl
        self._held: set[Claim] = set()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name='claims', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def take(self, due: events.Due) -> Claim | None:
        """Claim an event that is due; None if somebody else was faster."""
        asked = time.monotonic()
        if not self._database.write(events.claim, due.id, due.generation, self._ttl):
            return None
        claim = Claim(
            due.id, due.lease_id, due.event_type, due.generation + 1, asked + self._ttl / 3
        )
        with self._changed:
            self._held.add(claim)
            self._changed.notify_all()
        return claim

    def drop(self, claim: Claim) -> None:
        """Stop renewing a claim."""
        with self._changed:
            self._held.discard(claim)

    def renew(self, now: float) -> None:
        """Renew what wants to be renewed at ``now`` (monotonic seconds)."""
        with self._changed:
            aged = [c for c in self._held if c.renew_at <= now]
        for claim in aged:
            renewed = self._database.write(
                events.renew, claim.event_id, claim.generation, self._ttl
            )
            if renewed:
                claim.renew_at = now + self._ttl / 3
                continue
            claim.lost = True
            self.drop(claim)

    def _run(self) -> None:
        while self._sleep():
            try:
                self.renew(time.monotonic())
            except TROUBLE:
                LOG.exception('Claims cannot be renewed, the database does not answer')
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped, timeout=self._ttl / 10)

    def _sleep(self) -> bool:
        """Sleep until a claim wants to be renewed; False when we are to stop."""
        with self._changed:
            while not self._stopped:
                first = min((c.renew_at for c in self._held), default=None)
                left = None if first is None else first - time.monotonic()
                if left is not None and left <= 0:
                    return True
                self._changed.wait(left)
        return False
