# SPDX-License-Identifier: Apache-2.0
"""The wait queue: grant queued leases when capacity is sufficient.

Several managers may grant leases concurrently: a dedicated transaction grants each lease, in which
the calendar enforces capacity. The cost of a pass is bounded, however many leases are queued: the
projects take turns, and so do the leases of a project.
"""

import collections
import contextlib
import dataclasses
import datetime
import itertools
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import Demand, QueuedRequest
from climate_core.concurrency import SearchBudget
from climate_core.db import calendar, events, leases, project_limits, store
from climate_core.db.engine import DATABASE_ERRORS, Stale, signal
from climate_core.db.leases import QueueEntry
from climate_core.db.project_limits import Amounts
from climate_core.lease import model, states
from climate_core.lease.events import preparation
from climate_core.lease.events import queue as events_queue
from climate_core.lease.history import Cause
from climate_core.operations import allocation, pool_forecast
from climate_core.operations.draft import Draft
from climate_core.operations.preemption import Preemption
from climate_core.operations.quota import Quota
from climate_core.operations.server_preemption import PREEMPTS
from climate_core.operations.services import Services
from climate_core.plugins.base import PollAgain
from climate_core.plugins.forecast import MAX_SEARCH_STEPS
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

_CAUSE = Cause('lease.granted')
_CONTENTION_REASON = 'Concurrent requests took the capacity; it is retried.'
#: How far ahead capacity is retained for a queued lease that may start later.
_LATEST_START = datetime.timedelta(days=366)
#: Seconds until the next pass if the last passes did not handle all leases.
_PASS_PAUSE_SECONDS = 1.0
_INTERNAL_ERROR_REASON = 'Internal error; see the log of climate-manager.'
#: Maximum cost of a pass: a lease of hosts, capacity, addresses or networks costs one.
_PASS_BUDGET: Final = 100
#: Cost of a lease that needs the forecast of the common pool.
_FORECAST_COST: Final = 5
#: Places of a project in each turn.
_PLACES_PER_TURN: Final = 2


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
    """Retry the queued leases. Projects take turns; the oldest lease of a project is first.

    Within a pass, leases get free capacity in the order of the queue.
    """

    def __init__(self, services: Services, quota: Quota, preemption: Preemption) -> None:
        self.services = services
        self.database = services.database
        self.quota = quota
        self.preemption = preemption
        self._turns = QueueTurns()

    def retry(self, lease: model.Lease) -> PollAgain | None:
        """Retry a queued lease, after earlier leases.

        :returns: how long it stays queued, and why; None: it is not queued any more
        """
        tried = self._grant_some(lease.id)
        now, interval = self.services.clock.now(), self.services.conf.queue.retry_interval
        # Leases of this pass whose next try is soon are not tried again.
        soon = now + datetime.timedelta(seconds=interval / 2)
        until = now + datetime.timedelta(seconds=interval)
        others = [each for each in tried.lease_ids if each != lease.id]
        if others:
            self.database.write(events.postpone_retries, model.RETRY, others, soon, until)
        present = self.database.read(leases.find, lease.id, parts=())
        if present is None or present.status != states.LeaseStatus.WAITING:
            return None
        reason = tried.refused.get(lease.id) or present.status_reason
        return PollAgain(interval, PREEMPTS if self._preempt(lease) else reason)

    def _preempt(self, lease: model.Lease) -> bool:
        """Preempt leases for a lease that was not granted; return whether that succeeds.

        If not, the lease stays queued: its tries are counted, whatever its kind is.
        """
        if lease.preemptible or events_queue.is_freeing(lease):
            return False
        if not any(each.is_uncreated for each in events_queue.pending_reservations(lease)):
            return False
        try:
            self.check_limits(lease)
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
        for found in self.services.calendar.find_startable(demands.values()):
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
            LOG.exception('Could not grant lease %s; it is retried', lease_id)
            refused[lease_id] = _INTERNAL_ERROR_REASON

    def _demands(
        self, waiting: Collection[model.Lease], done: _QueuePass
    ) -> dict[str, QueuedRequest]:
        now, demands = self.services.clock.now(), {}
        turns = {lease_id: turn for turn, lease_id in enumerate(done.lease_ids)}
        forecast = pool_forecast.PoolForecast(self.database, self.services.cloud)
        # Each project has the same share of what the searches of a pass may cost.
        projects = {each.project_id for each in waiting if pool_forecast.find_unplaced(each)}
        budgets = {each: SearchBudget(MAX_SEARCH_STEPS // len(projects)) for each in projects}
        for lease in waiting:
            forecast.budget = budgets.get(lease.project_id, forecast.budget)
            with self._refused(lease.id, done.refused):
                demand = self._read_demand(lease, now, turns[lease.id])
                if demand.start >= demand.end or events_queue.is_freeing(lease):
                    continue
                unplaced = pool_forecast.find_unplaced(lease)
                if unplaced:
                    # A lease that is not granted must not block the capacity for other leases.
                    self.check_limits(lease)
                try:
                    forecast.take(unplaced, demand.start, demand.end)
                except exceptions.NotEnough as exc:
                    if demand.latest:
                        forecast.keep(unplaced, demand.start, demand.end, exc.available_from)
                    raise
                demands[lease.id] = demand
        return demands

    def _read_demand(self, lease: model.Lease, now: datetime.datetime, turn: int) -> QueuedRequest:
        """Return the demand of a queued lease, as if it were granted now.

        :param turn: its place in the search, which may not reach all leases
        :raises climate_core.exceptions.ClimateError: the demand is not known
        """
        start, end = events_queue.granted_period(lease, now)
        return QueuedRequest(
            id=lease.id,
            project_id=lease.project_id,
            demands=self._read_demands(lease),
            start=start,
            end=end,
            latest=_LATEST_START if lease.duration is not None else datetime.timedelta(0),
            turn=turn,
        )

    def _read_demands(self, lease: model.Lease) -> list[Demand]:
        pending = events_queue.pending_reservations(lease)
        return allocation.read_demands(self.services.plugins, pending)

    def grant(self, lease: model.Lease) -> bool:
        """Grant a queued lease; return whether it was queued until now.

        :raises climate_core.exceptions.ClimateError: it cannot be granted
        """
        return self.database.write(self.write_grant, lease, self.check_limits(lease))

    def check_limits(self, lease: model.Lease) -> Amounts | None:
        """Check the limits of the project of a lease, see :meth:`.Quota.check_limits`."""
        amounts = self._amounts(lease)
        pending = (
            dataclasses.replace(reservation, amounts=amounts[reservation.id])
            for reservation in events_queue.pending_reservations(lease)
        )
        return self.quota.check_limits(lease.with_reservations(*pending), lease)

    def write_grant(
        self,
        session: orm.Session,
        queued: model.Lease,
        most: Amounts | None,
        forced_available: Collection[int] = (),
    ) -> bool:
        """Grant a lease; return whether it still had the status with which it was read.

        :param most: what :meth:`check_limits` returned
        :param forced_available: see :meth:`.Calendar.allocate`
        :raises climate_core.exceptions.ClimateError: it cannot be granted
        """
        services, now = self.services, self.services.clock.now()
        project_limits.lock_project(session, queued.project_id, most)
        lease = leases.find(session, queued.id, lock=True)
        if lease is None or lease.status != queued.status or events_queue.is_freeing(lease):
            return False
        before_start = services.conf.manager.before_start_seconds
        change = events_queue.grant_lease(lease, self._amounts(lease), now, before_start)
        adding = project_limits.sum_amounts(change.lease.live)
        project_limits.check_limits(session, lease.project_id, adding, most)
        after = store.save(session, lease, change, now, _CAUSE)
        transaction = services.calendar.transaction(session)
        demands = self._read_demands(after)
        allocation.allocate(services, transaction, after, demands, now, forced_available)
        signal(session, events.DUE)
        LOG.info('Lease %s is granted and leaves the queue', lease.id)
        return True

    def _amounts(self, lease: model.Lease) -> dict[str, Mapping[str, int]]:
        return {
            each.id: self.services.plugins[each.resource_type].amounts(each.params) or {}
            for each in events_queue.pending_reservations(lease)
        }


class QueueTurns:
    """Choose the leases of a pass in turns, and remember them. Any thread may use it.

    Each manager has its own memory, and a new manager starts at the head of the queue: it chooses
    fairly, and only repeats passes of other managers.

    :param budget: the maximum cost of a pass
    """

    def __init__(self, budget: int = _PASS_BUDGET) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._passes = 0
        #: The number of the pass by which a lease, or one of a project, was handled last.
        self._leases: dict[str, int] = {}
        self._projects: dict[str, int] = {}
        #: The same before the last pass.
        self._before = self._leases, self._projects
        #: The leases that were handled in this round through the queue.
        self._round: set[str] = set()

    def choose(
        self, waiting: Sequence[QueueEntry], wanted: str | None = None
    ) -> tuple[list[str], bool]:
        """Choose what the next pass handles.

        The project that was handled longest ago is first. A project has two places in each turn:
        one for the first lease of its queue, one for the lease that was handled longest ago.

        :param waiting: all queued leases, in the order of the queue
        :param wanted: the id of a lease that is handled in any case
        :returns: the ids of leases, in the order of the turns, and whether no lease is left
            that was not handled in this round
        """
        with self._lock:
            self._passes += 1
            chosen = list(self._affordable(self._in_turn(waiting, wanted)))
            present = {each.id for each in waiting}
            projects = {each.project_id for each in waiting}
            self._before = self._leases, self._projects
            self._leases = _keep_present(self._leases, present)
            self._projects = _keep_present(self._projects, projects)
            for each in chosen:
                self._leases[each.id] = self._projects[each.project_id] = self._passes
            self._round |= {each.id for each in chosen}
            is_over = present <= self._round
            if is_over:
                self._round = set()
            return [each.id for each in chosen], is_over

    def repeat(self, lease_ids: Iterable[str]) -> None:
        """Handle leases soon again for which the pass had no budget left."""
        with self._lock:
            for each in lease_ids:
                self._leases.pop(each, None)

    def put_back(self, chosen: Iterable[QueueEntry], read: Collection[str]) -> None:
        """Handle leases in the next passes that the last pass has chosen and not read.

        :param chosen: all its leases, in the order of the turns
        :param read: the ids of those that it has read
        """
        with self._lock:
            leases, projects = self._before
            counts = collections.Counter[str]()
            for entry in chosen:
                counts[entry.project_id] += 1
                if entry.id in read:
                    continue
                self._leases[entry.id] = leases.get(entry.id, 0)
                self._round.discard(entry.id)
                # A project has had its turn with both its places.
                if counts[entry.project_id] <= _PLACES_PER_TURN:
                    self._projects[entry.project_id] = projects.get(entry.project_id, 0)

    def _affordable(self, groups: Iterable[Sequence[QueueEntry]]) -> Iterator[QueueEntry]:
        left = self._budget
        for group in groups:
            left -= sum(_FORECAST_COST if each.needs_forecast else 1 for each in group)
            if left < 0:
                return
            yield from group

    def _in_turn(
        self, waiting: Sequence[QueueEntry], wanted: str | None
    ) -> Iterator[Sequence[QueueEntry]]:
        """Yield the leases that have a turn together, of one project."""
        queues: dict[str, list[QueueEntry]] = {}
        for each in waiting:
            queues.setdefault(each.project_id, []).append(each)
        found = [each for each in waiting if each.id == wanted]
        yield found
        # What comes before it in its project is handled with it.
        first = {each.project_id for each in found}
        order = sorted(queues, key=lambda each: (each not in first, self._projects.get(each, 0)))
        for turn in itertools.zip_longest(*(self._pairs(queues[each]) for each in order)):
            for pair in turn:
                yield [each for each in pair or () if each.id != wanted]

    def _pairs(self, queue: Sequence[QueueEntry]) -> Iterator[tuple[QueueEntry, ...]]:
        oldest = sorted(queue, key=lambda each: self._leases.get(each.id, 0))
        both = itertools.chain.from_iterable(zip(queue, oldest, strict=True))
        unique = iter(dict.fromkeys(both))
        while pair := tuple(itertools.islice(unique, _PLACES_PER_TURN)):
            yield pair


def _keep_present(passes: dict[str, int], present: Collection[str]) -> dict[str, int]:
    return {key: number for key, number in passes.items() if key in present}


class QueueWorker(Worker):
    """Retry queued leases when units are released or added, when a lease is queued, or on time.

    The events ``retry_lease`` find what is missed, as by a manager that stopped.
    """

    name = 'queue'
    # An unexpected error of a plugin must not end the manager.
    expected_errors = (Exception,)
    failure_message = 'Could not process the queue; it is retried'
    #: Seconds of the longest sleep: nothing is polled.
    _IDLE_SECONDS = 3600.0

    def __init__(self, queue: WaitQueue) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._queue, database = queue, queue.database
        database.listen(calendar.FREED, self.nudge)
        database.listen(leases.RESOURCES_FREED, self.nudge)
        database.listen(events.QUEUED, self.nudge)

    def poll(self) -> float | None:
        return self._queue.grant_waiting()
