# SPDX-License-Identifier: Apache-2.0
"""Check the resources that a notification is about, with the rights of the service.

A notification decides nothing: any process on the bus can forge one. It causes one read of the
resource in Nova, Cinder or Heat, and what that service answers decides, by the rule of the
reconciliation. Checks run in a thread of their own for each type of resource, so that neither the
listener nor another service waits for a service that is slow. Their number is bounded, so that a
flood of messages costs that service no more than :data:`_MAX_CHECKS`; what exceeds the bound is
left to the reconciliation.
"""

import enum
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from oslo_log import log

from climate_core.cloud import errors
from climate_core.concurrency import RateLimit
from climate_core.db import reservations, store
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.lease.model import Reservation
from climate_core.plugins.base import ResourcePlugin
from climate_core.repair import lost_resources
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: Maximum number of checks of a type within a period in seconds.
_MAX_CHECKS: Final = 600
_PERIOD_SECONDS: Final = 60.0
#: Maximum number of queued checks.
_MAX_QUEUED: Final = 1000
#: Checks of one batch. So few resources are read one by one: none of them lists all.
_BATCH_SIZE: Final = 10
#: Seconds until a resource that exists is checked once more: cinder-scheduler notifies that a
#: volume has no backend before it stores that (cinder/scheduler/flows/create_volume.py), and a
#: replica of a database may lag.
_RECHECK_SECONDS: Final = 2.0


class Suspicion(enum.Enum):
    """Claim of a notification about a resource."""

    LOST = enum.auto()
    MOVED = enum.auto()


#: Whether a lease holds a resource so that it can be that, and what records it.
_IS_POSSIBLE = {
    Suspicion.LOST: lost_resources.can_be_lost,
    Suspicion.MOVED: lost_resources.can_be_moved,
}
_RECORD = {Suspicion.LOST: lost_resources.mark_lost, Suspicion.MOVED: lost_resources.mark_moved}


class _QueuedCheck(NamedTuple):
    """A queued check, due ``at`` by the monotonic clock."""

    at: float
    is_last: bool = False


_Key = tuple[Suspicion, str]

#: Its title, and the ids of resources.
_UNCHECKED: Final = 'Could not check %s %s after a notification; the reconciliation checks it'
#: What keeps a check from an answer; any other exception is an error of Climate.
_CHECK_ERRORS: tuple[type[Exception], ...] = (*errors.EXPECTED, store.Stale, *DATABASE_ERRORS)


class NotifiedChecks(Worker):
    """Check resources of one type that a lease holds.

    :param nudge: called when something was written that the engine should look at
    """

    name = 'checks'

    def __init__(
        self, database: Database, plugin: ResourcePlugin, nudge: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(_PERIOD_SECONDS)
        self._database = database
        self._plugin = plugin
        self._nudge_engine = nudge
        self._limit = RateLimit(_MAX_CHECKS, _PERIOD_SECONDS)
        self._lock = threading.Lock()
        self._waiting: dict[_Key, _QueuedCheck] = {}
        self._is_full = False

    def request(self, suspicion: Suspicion, resource_id: str) -> bool:
        """Have a resource checked soon; several requests before its check are one.

        :returns: False if no lease holds the resource so that the check could change it
        """
        key = suspicion, resource_id
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None:
                # Not earlier: a flood about one resource costs a check every few seconds.
                self._waiting[key] = waiting._replace(is_last=False)
                return True
        if not self._database.read(
            _IS_POSSIBLE[suspicion], self._plugin.resource_type, resource_id
        ):
            return False
        with self._lock:
            if key not in self._waiting and len(self._waiting) >= _MAX_QUEUED:
                if not self._is_full:
                    message = (
                        'Too many notifications about a %s: the reconciliation checks the rest'
                    )
                    LOG.warning(message, self._plugin.title)
                self._is_full = True
                return True
            self._waiting[key] = _QueuedCheck(time.monotonic())
        self.nudge()
        return True

    def poll(self) -> float | None:
        """Check what is due, as far as the bound allows."""
        now = time.monotonic()
        taken: dict[Suspicion, dict[str, _QueuedCheck]] = defaultdict(dict)
        with self._lock:
            due = [key for key, check in self._waiting.items() if check.at <= now]
            for key in due[:_BATCH_SIZE]:
                if not self._limit.take():
                    break
                taken[key[0]][key[1]] = self._waiting.pop(key)
            self._is_full = self._is_full and len(self._waiting) >= _MAX_QUEUED // 2
        for suspicion, asked in taken.items():
            self._check(suspicion, asked)
        if due and not taken:
            # The bound is reached, and its period is longer.
            return _RECHECK_SECONDS
        with self._lock:
            first = min((check.at for check in self._waiting.values()), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    def _check(self, suspicion: Suspicion, asked: Mapping[str, _QueuedCheck]) -> None:
        """Check resources; what is found to be as before is checked once more."""
        changed: set[str] = set()
        try:
            held = self._database.read(
                reservations.find_holders, self._plugin.resource_type, sorted(asked)
            )
            changed = self._note(suspicion, held) if held else set()
        except _CHECK_ERRORS as exc:
            LOG.warning(_UNCHECKED + ': %s', self._plugin.title, ', '.join(asked), exc)
        except Exception:
            LOG.exception(_UNCHECKED, self._plugin.title, ', '.join(asked))
        again = _QueuedCheck(time.monotonic() + _RECHECK_SECONDS, is_last=True)
        with self._lock:
            for resource_id, waiting in asked.items():
                if resource_id not in changed and not waiting.is_last:
                    self._waiting.setdefault((suspicion, resource_id), again)

    def _note(self, suspicion: Suspicion, held: Sequence[Reservation]) -> set[str]:
        """Record what the service answers; return the ids of lost or moved resources."""
        if suspicion == Suspicion.LOST:
            reasons = self._plugin.find_missing(held)
        else:
            reasons = self._plugin.find_moved(held)
        by_lease: dict[str, dict[str, str]] = defaultdict(dict)
        for reservation in held:
            if reservation.id in reasons:
                by_lease[reservation.lease_id][reservation.id] = reasons[reservation.id]
        for lease_id, by_reservation in by_lease.items():
            if _RECORD[suspicion](self._database, lease_id, by_reservation):
                LOG.warning(
                    'Lease %s: %s', lease_id, ' '.join(sorted(set(by_reservation.values())))
                )
                self._nudge_engine()
        return {reservation.resource_id for reservation in held if reservation.id in reasons}
