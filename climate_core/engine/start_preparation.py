# SPDX-License-Identifier: Apache-2.0
"""Request the tokens of owners shortly before their leases start, and report rejected trusts.

Then only the wake-up is sent at the start. Each manager does so at a random moment, since it has
its own tokens. A start does not wait for it and does not need it: without a prepared token it
requests one itself.
"""

import dataclasses
import math
import random
import time
from collections.abc import Callable, Collection
from typing import Final

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions, test_hooks
from climate_core.cloud import Cloud, errors
from climate_core.db import events, leases, store
from climate_core.db.engine import Database
from climate_core.db.sql import Clock
from climate_core.lease import model
from climate_core.lease.events.start import record_start_warning
from climate_core.lease.history import Cause
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: A lease that starts within this number of seconds requests its token itself.
_TOO_SOON_SECONDS: Final = 2.0
#: Maximum number of prepared owners: those whose leases start first.
_MAX_OWNERS: Final = 300
#: Maximum number of leases of one trust that are changed at a time.
_MAX_LEASES_NOTIFIED: Final = 100
#: Maximum number of seconds until the first read of the database, at a random moment after the
#: start of a manager or a hint; and the least seconds between two reads.
_FIRST_READ_SECONDS: Final = 2.0
_MIN_READ_SECONDS: Final = 10.0


@dataclasses.dataclass(slots=True)
class _Owner:
    """An owner whose lease starts; times are those of the monotonic clock.

    :param ask_at: when to request the token
    :param starts_at: when the first of their leases starts
    :param may_be_told: whether a lease of theirs may have the reason that its start will fail
    """

    ask_at: float
    starts_at: float
    may_be_told: bool = False


class StartPreparation(Worker):
    """Request tokens, one at a time and at most ten in a second.

    The database is read at long intervals for all leases that start until the next read, and when
    other managers have written something; :meth:`expect` adds the leases of this manager.

    :param cloud: caches the tokens
    :param types: the types of resources that are started with the rights of the owner
    :param seconds: how long before the start this happens
    :param idle_seconds: how long the managers do not notify each other of later events
    """

    name = 'preparation'
    # An unexpected error must not end the manager.
    expected_errors = (Exception,)
    failure_message = 'Could not prepare some leases for their starts; they start without it'
    spacing = 0.1

    def __init__(
        self,
        database: Database,
        clock: Clock,
        cloud: Cloud,
        types: Collection[str],
        seconds: float,
        idle_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        period = max(seconds, idle_seconds)
        super().__init__(period)
        self._database = database
        self._clock = clock
        self._cloud = cloud
        self._types = tuple(sorted(types))
        self._seconds = seconds
        self._period = period
        self._monotonic = monotonic
        self._owners: dict[str, _Owner] = {}
        self._read_at = monotonic() + random.uniform(0.0, _FIRST_READ_SECONDS)  # nosec B311 # spreads load, no secret
        self._was_read_at = -math.inf

    def expect(self, lease: model.Lease) -> None:
        """Prepare the start of a lease that this manager has written."""
        start = lease.event(model.START)
        types = {reservation.resource_type for reservation in lease.reservations}
        if not (start and start.open and lease.trust_id) or types.isdisjoint(self._types):
            return
        left = (start.time - self._clock.now()).total_seconds()
        if self._plan(lease.trust_id, left):
            self.nudge()

    def reread_starts(self) -> None:
        """Read soon which leases start: another manager has written something."""
        self._read_within(random.uniform(0.0, _FIRST_READ_SECONDS))  # nosec B311 # spreads load, no secret
        self.nudge()

    def poll(self) -> float | None:
        if self._monotonic() >= self._read_at:
            self._read()
        now = self._monotonic()
        with self._changed:
            due = {name: owner for name, owner in self._owners.items() if owner.ask_at <= now}
        for trust_id in sorted(due, key=lambda name: due[name].starts_at):
            with self._changed:
                owner = self._owners.pop(trust_id, None)
            if owner is None:
                # Owners whose leases start earlier have replaced it.
                continue
            # The next owner comes after the pause.
            if self.stopping or self._prepare(trust_id, owner):
                break
        with self._changed:
            first = min((owner.ask_at for owner in self._owners.values()), default=math.inf)
        return max(0.0, min(first, self._read_at) - self._monotonic())

    def _read_within(self, seconds: float) -> None:
        at = max(self._monotonic() + seconds, self._was_read_at + _MIN_READ_SECONDS)
        with self._changed:
            self._read_at = min(self._read_at, at)

    def _read(self) -> None:
        """Read which leases start until the next read."""
        now = self._was_read_at = self._monotonic()
        with self._changed:
            self._read_at = now + self._period
        until = self._period + self._seconds
        starting = self._database.read(
            events.read_upcoming_starts, self._types, until, _MAX_OWNERS
        )
        for start in starting:
            self._plan(start.trust_id, start.seconds, start.may_be_told)
        if len(starting) == _MAX_OWNERS:
            # There are more, which are read when these have started.
            self._read_within(starting[-1].seconds)

    def _plan(self, trust_id: str, left: float, may_be_told: bool = False) -> bool:
        """Plan to request a token within the time that is left; return whether that is new.

        :param left: seconds until a lease with this trust starts
        """
        if left < _TOO_SOON_SECONDS:
            return False
        now, window = self._monotonic(), min(self._seconds, left)
        asks_in = random.uniform(max(0.0, left - self._seconds), left - window / 2)  # nosec B311 # spreads load, no secret
        new = _Owner(now + asks_in, now + left, may_be_told)
        with self._changed:
            owner = self._owners.get(trust_id)
            if owner is not None:
                new.may_be_told = owner.may_be_told = owner.may_be_told or may_be_told
                if owner.starts_at <= new.starts_at:
                    return False
            self._owners[trust_id] = new
            if len(self._owners) > _MAX_OWNERS:
                del self._owners[max(self._owners, key=lambda name: self._owners[name].starts_at)]
        return True

    def _prepare(self, trust_id: str, owner: _Owner) -> bool:
        """Cache a token of a trust; return whether Keystone was called."""
        left = owner.starts_at - self._monotonic()
        try:
            has_called = self._cloud.prepare(trust_id, max(0.0, left) + self._seconds)
        except errors.TrustRejected as exc:
            self._recheck_rejected_trusts()
            self._record_warning(trust_id, str(exc))
            return True
        except exceptions.Transient as exc:
            LOG.info('There is no token for a lease that starts in %d seconds: %s', left, exc)
            self._recheck_rejected_trusts()
            return True
        # A cached token does not show whether Keystone accepts the trust now.
        if has_called and owner.may_be_told:
            self._record_warning(trust_id, None)
        return has_called

    def _recheck_rejected_trusts(self) -> None:
        """Read again soon: this finds the owners without a token."""
        self._read_within(self._seconds / 4)

    def _record_warning(self, trust_id: str, reason: str | None) -> None:
        """Record in the leases of a trust why their start will fail; None: remove the reason."""
        lease_ids = self._database.read(
            events.find_leases_to_notify,
            self._types,
            trust_id,
            self._seconds,
            reason is None,
            _MAX_LEASES_NOTIFIED,
        )
        for lease_id in lease_ids:
            if self.stopping:
                return
            info = {'event_type': model.START, 'lease_id': lease_id}
            test_hooks.reached('preparation.before', **info)
            self._database.write(self._write, lease_id, trust_id, reason)
            test_hooks.reached('preparation.after', **info)

    def _write(
        self, session: orm.Session, lease_id: str, trust_id: str, reason: str | None
    ) -> None:
        lease = leases.find(session, lease_id, lock=True)
        if lease is None or lease.trust_id != trust_id:
            return
        change = record_start_warning(lease, reason)
        if change.lease is lease:
            return
        cause = (
            Cause('trust.accepted') if reason is None else Cause('trust.refused', failure=reason)
        )
        store.save(session, lease, change, self._clock.now(), cause)
