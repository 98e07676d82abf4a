# SPDX-License-Identifier: Apache-2.0
"""The queue: grant leases that wait, when there is enough capacity for them.

Several managers may do it concurrently: each lease is granted in a transaction of its own, in
which the calendar is the judge. What a pass costs is bounded, however many leases wait: the
projects take turns, and so do the leases of a project.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import QueuedRequest
from climate_core.concurrency import SearchBudget
from climate_core.db import calendar, due_events, events, leases, reservations, store
from climate_core.db import usage as db_limits
from climate_core.db.engine import DATABASE_ERRORS, Stale, signal
from climate_core.lease import limits, model, states
from climate_core.lease.events import preparation
from climate_core.lease.events import queue as events_queue
from climate_core.lease.history import Cause
from climate_core.operations import pool_forecast
from climate_core.operations.draft import Draft
from climate_core.operations.preemption.leases import PREEMPTS, Preemption
from climate_core.operations.queue.turns import QueueTurns
from climate_core.operations.quota import Quota
from climate_core.operations.services import Services
from climate_core.plugins.base import PollAgain
from climate_core.plugins.forecast import MAX_SEARCH_STEPS
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

_CAUSE = Cause('lease.granted')
_CONTENTION_REASON = 'Others were faster again and again; it is tried again.'
#: Seconds until the next pass if the last passes did not handle all leases.
_PASS_PAUSE_SECONDS = 1.0
_INTERNAL_ERROR_REASON = 'Internal error; the log of climate-manager has more.'


def add(conf: cfg.ConfigOpts, draft: Draft, lease: model.Lease) -> model.Lease:
    """Return the new lease of a draft as a queued lease, or as one that may be queued later."""
    request, section = draft.request, conf.queue
    assert request is not None, 'only a request for a whole lease is queued'  # nosec B101 # for mypy: it holds already
    retries = request.max_retries or section.max_retries
    if lease.kind != states.LeaseKind.RETRY:
        retries = preparation.PREEMPTOR_RETRIES
    if not draft.wait_reason:
        return events_queue.allow_requeue(lease, retries, request.lasts)
    return events_queue.queue_lease(
        lease, retries, request.lasts, draft.wait_reason, draft.now, section.retry_interval
    )


@dataclasses.dataclass
class _QueuePass:
    """Result of a pass through the queue.

    :param lease_ids: the leases that it handled, in the order of their turns
    :param are_all: whether this pass and earlier ones have handled all queued leases
    :ivar refused: the reasons, other than the calendar, why leases are not granted, by their ids
    :ivar seconds: in how many seconds the next lease has capacity; None: that is not known
    """

    lease_ids: Sequence[str]
    are_all: bool
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float | None = None


class WaitQueue:
    """Try the queued leases. Projects take turns; the oldest lease of a project is first.

    Within a pass, leases get free capacity in the order of the queue.
    """

    def __init__(self, services: Services, quota: Quota, preemption: Preemption) -> None:
        self.services = services
        self.database = services.database
        self.quota = quota
        self.preemption = preemption
        self._turns = QueueTurns()

    def retry(self, lease: model.Lease) -> PollAgain | None:
        """Try a queued lease, after earlier leases.

        :returns: how long it stays queued, and why; None: it is not queued any more
        """
        tried = self._grant_some(lease.id)
        now, interval = self.services.clock.now(), self.services.conf.queue.retry_interval
        # Leases of this pass whose next try is soon are not tried again.
        soon = now + datetime.timedelta(seconds=interval / 2)
        until = now + datetime.timedelta(seconds=interval)
        others = [each for each in tried.lease_ids if each != lease.id]
        if others:
            self.database.write(due_events.postpone_retries, model.RETRY, others, soon, until)
        present = self.database.read(leases.find, lease.id, parts=())
        if present is None or present.status != states.LeaseStatus.WAITING:
            return None
        told = tried.refused.get(lease.id) or present.status_reason
        return PollAgain(interval, PREEMPTS if self._preempt(lease) else told)

    def _preempt(self, lease: model.Lease) -> bool:
        """Preempt leases for a lease that was not granted; return whether that succeeds.

        If not, the lease stays queued: its tries are counted, whatever its kind is.
        """
        if lease.preemptible or events_queue.is_freeing(lease):
            return False
        if not any(each.is_uncreated for each in events_queue.pending_reservations(lease)):
            return False
        try:
            self._check_limits(lease)
        except exceptions.LimitExceeded:
            # It is not granted, whatever preempted leases release.
            return False
        return self.preemption.preempt_servers(lease)

    def grant_waiting(self) -> float | None:
        """Grant leases with capacity; return in how many seconds there is more, if known."""
        tried = self._grant_some()
        return tried.seconds if tried.are_all else _PASS_PAUSE_SECONDS

    def _grant_some(self, wanted: str | None = None) -> _QueuePass:
        """Handle the leases of a pass, and grant those with sufficient capacity.

        :param wanted: the id of a lease that is handled in any case
        """
        entries = {each.id: each for each in self.database.read(leases.read_queue)}
        chosen, are_all = self._turns.choose([*entries.values()], wanted)
        if not chosen:
            return _QueuePass(chosen, are_all)
        waiting = {each.id: each for each in self.database.read(leases.read_waiting, chosen)}
        done = _QueuePass([each for each in chosen if each in waiting], are_all)
        if len(waiting) < len(chosen):
            self._turns.put_back([entries[each] for each in chosen], waiting)
            done.are_all = False
        demands = self._demands(waiting.values(), done)
        if not demands:
            return done
        left, listed = {*demands}, [*demands]
        for found in self.services.allocation_service.calendar.find_startable(demands.values()):
            lease_id = listed[found.number]
            left.discard(lease_id)
            if found.seconds == 0:
                # If it is not granted, later leases may have the capacity.
                found.is_taken = False
                with self._refused(lease_id, done.refused):
                    self.grant(waiting[lease_id])
                    found.is_taken = True
            elif found.seconds is not None:
                done.seconds = min(done.seconds or found.seconds, found.seconds)
        self._turns.repeat(left)
        return done

    @contextlib.contextmanager
    def _refused(self, lease_id: str, refused: dict[str, str]) -> Iterator[None]:
        """Record why a lease is rejected; further leases are tried nevertheless."""
        try:
            yield
        except DATABASE_ERRORS:
            raise
        except exceptions.ClimateError as exc:
            refused[lease_id] = exc.message
        except Stale:
            refused[lease_id] = _CONTENTION_REASON
        except Exception:
            # A third-party plugin may raise anything.
            LOG.exception('Lease %s cannot be granted', lease_id)
            refused[lease_id] = _INTERNAL_ERROR_REASON

    def _demands(
        self, waiting: Collection[model.Lease], done: _QueuePass
    ) -> dict[str, QueuedRequest]:
        now, demands = self.services.clock.now(), {}
        turns = {lease_id: turn for turn, lease_id in enumerate(done.lease_ids)}
        expected = pool_forecast.PoolForecast(self.database, self.services.cloud)
        # Each project has the same share of what the searches of a pass may cost.
        projects = {each.project_id for each in waiting if pool_forecast.find_unplaced(each)}
        budgets = {each: SearchBudget(MAX_SEARCH_STEPS // len(projects)) for each in projects}
        for lease in waiting:
            expected.budget = budgets.get(lease.project_id, expected.budget)
            with self._refused(lease.id, done.refused):
                one = self.services.allocation_service.read_waiting_demand(
                    lease, now, turns[lease.id]
                )
                if one.start >= one.end or events_queue.is_freeing(lease):
                    continue
                made = pool_forecast.find_unplaced(lease)
                if made:
                    # A lease that is not granted must not block the capacity for other leases.
                    self._check_limits(lease)
                try:
                    expected.take(made, one.start, one.end)
                except exceptions.NotEnough as exc:
                    if one.latest:
                        expected.keep(made, one.start, one.end, exc.available_from)
                    raise
                demands[lease.id] = one
        return demands

    def grant(
        self,
        lease: model.Lease,
        status: str = states.LeaseStatus.WAITING,
        opened: Collection[int] = (),
        before_commit: Callable[[orm.Session], None] = lambda _session: None,
    ) -> bool:
        """Grant a lease; return whether it had this status until now.

        :param opened: see :meth:`Calendar.allocate`
        :param before_commit: called in the same transaction
        :raises climate_core.exceptions.ClimateError: it cannot be granted
        """
        most = self._check_limits(lease)
        return self.database.write(
            self._write, lease.id, lease.project_id, most, status, opened, before_commit
        )

    def _check_limits(self, lease: model.Lease) -> limits.Amounts | None:
        """Check the limits of the project of a lease, see :meth:`.Quota.check_limits`."""
        amounts = self._amounts(lease)
        holding = lease.with_reservations(
            *(
                dataclasses.replace(each, amounts=amounts[each.id])
                for each in events_queue.pending_reservations(lease)
            )
        )
        return self.quota.check_limits(holding, lease)

    def _write(
        self,
        session: orm.Session,
        lease_id: str,
        project_id: str,
        most: limits.Amounts | None,
        status: str,
        opened: Collection[int],
        before_commit: Callable[[orm.Session], None],
    ) -> bool:
        now = self.services.clock.now()
        db_limits.lock_project(session, project_id, most)
        lease = leases.find(session, lease_id, lock=True)
        if lease is None or lease.status != status or events_queue.is_freeing(lease):
            return False
        amounts = self._amounts(lease)
        change = events_queue.grant_lease(
            lease, amounts, now, self.services.conf.manager.before_start_seconds
        )
        db_limits.check_limits(session, project_id, limits.sum_amounts(change.lease.live), most)
        after = store.save(session, lease, change, now, _CAUSE)
        calendar = self.services.allocation_service.calendar.transaction(session)
        self.services.allocation_service.allocate(
            calendar, after, events_queue.pending_reservations(after), {}, now, opened
        )
        before_commit(session)
        signal(session, due_events.DUE)
        LOG.info('Lease %s is granted and leaves the queue', lease.id)
        return True

    def _amounts(self, lease: model.Lease) -> dict[str, Mapping[str, int]]:
        return {
            each.id: self.services.plugins[each.resource_type].amounts(each.params) or {}
            for each in events_queue.pending_reservations(lease)
        }


class QueueWorker(Worker):
    """Try queued leases when units are released or added, when a lease is queued, or on time.

    The events ``retry_lease`` find what is missed, as by a manager that dies.
    """

    name = 'queue'
    # An unexpected error of a plugin must not end the manager.
    expected_errors = (Exception,)
    failure_message = (
        'It is not known which leases need not wait any more; they are tried again later'
    )
    #: Seconds of the longest sleep: nothing is polled.
    _IDLE_SECONDS = 3600.0

    def __init__(self, queue: WaitQueue) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._queue, database = queue, queue.database
        database.listen(calendar.FREED, self.nudge)
        database.listen(reservations.FREED, self.nudge)
        database.listen(events.QUEUED, self.nudge)

    def poll(self) -> float | None:
        return self._queue.grant_waiting()
