# SPDX-License-Identifier: Apache-2.0
"""Work on events in three stages: claim a group, call the plugins of each, finish a group.

Read the resource, apply the difference, record the outcome: each part may be done twice, by
another manager too, without harm. Only the finish counts, and it is fenced by the claim's
generation.

Claims and finishes of events that come at the same time share a transaction: their leases are
read, changed and notified of together, see :func:`climate_core.db.sql.deferred_writes`. The fence
of each event stays its own. :mod:`climate_core.engine.event_pool` has the threads.

A unit of the calendar is released when its reservation no longer holds it, and retained as long as
the reservation uses it: also after its end, until its servers are deleted and it is cleaned.
"""

import contextlib
import dataclasses
import datetime
import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_core import context, test_hooks
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.concurrency import ItemResult
from climate_core.db import calendar as db_calendar
from climate_core.db import leases, sql, store
from climate_core.db.engine import GroupWriter, signal
from climate_core.db.events import DueEvent
from climate_core.db.sql import Clock
from climate_core.delivery.metrics import Metrics
from climate_core.engine.claims import ClaimLost, Claims, EventClaim, find_claimed_event
from climate_core.engine.fast_start import FastStarts, FinishedStart
from climate_core.engine.plugin_calls import RESUMED_ERRORS, PluginCaller, is_ending
from climate_core.lease import events, history, model, states, transitions
from climate_core.plugins.base import CalendarBacked

LOG = log.getLogger(__name__)

#: Maximum number of events that are claimed, and of those that are finished, in one transaction:
#: the rows of their leases are locked until the commit.
MAX_GROUP_SIZE: Final = 16
#: How long after the next poll a unit is retained that is still used.
_RETAINED_AFTER_POLL: Final = datetime.timedelta(seconds=60)

#: When the first new event is due after the work; True: not known; False: there is no new event.
WorkResult = datetime.datetime | bool
NextTimes = Mapping[str, datetime.datetime | None]


class JobStage(enum.Enum):
    """The next step of the work on an event: a write, or calls to services, or none."""

    #: An early poll reads whether the resource of its start is active.
    POLL = 'poll'
    CLAIM = 'claim'
    CALL = 'call'
    FINISH = 'finish'
    #: The claim was lost after calls: end again what ended concurrently.
    UNDO = 'undo'
    ENDED = 'ended'


class _StartedEvent(NamedTuple):
    claim: EventClaim
    work: transitions.EventWork
    previous_times: NextTimes


@dataclasses.dataclass(eq=False, slots=True)
class EventJob:
    """The work on an event.

    :param claim: set by the claim, with the ``work`` to do and the ``previous_times``
    :param previous_times: when each event of the lease was due before the claim, by their ids
    :param outcomes: of the calls, by reservation
    :param fast_start: the start that an early poll has completed; it is finished without a claim
    :param result: after the end of the work, unless there is an ``error``
    """

    due: DueEvent
    stage: JobStage
    claim: EventClaim | None = None
    work: transitions.EventWork | None = None
    previous_times: NextTimes = dataclasses.field(default_factory=dict)
    outcomes: Mapping[str, transitions.Outcome] = dataclasses.field(default_factory=dict)
    fast_start: FinishedStart | None = None
    result: WorkResult = False
    error: BaseException | None = None

    @property
    def info(self) -> dict[str, str]:
        """Return its fields for test points."""
        due = self.due
        return {'event_id': due.id, 'event_type': due.event_type, 'lease_id': due.lease_id}

    @property
    def writes(self) -> bool:
        """Return whether its next step is a write."""
        return self.stage in (JobStage.CLAIM, JobStage.FINISH)


class EventExecutor(GroupWriter[EventJob, Any]):
    """Do the steps of events.

    :param calls: calls the plugins
    :param calendar: allocates the units that ended reservations release
    :param fast_starts: finds starts that are completed by an early poll
    :param observer: records the outcomes of claims
    """

    def __init__(
        self,
        clock: Clock,
        claims: Claims,
        calls: PluginCaller,
        calendar: Calendar,
        fast_starts: FastStarts,
        observer: Metrics | None = None,
    ) -> None:
        super().__init__(claims.database, MAX_GROUP_SIZE)
        self.clock = clock
        self.claims = claims
        self.calls = calls
        self._calendar = calendar
        self.fast_starts = fast_starts
        self._observer = observer

    def create_job(self, due: DueEvent) -> EventJob:
        """Return the work on an event that is due."""
        return EventJob(due, JobStage.POLL if due.is_early else JobStage.CLAIM)

    def write(self, jobs: Sequence[EventJob]) -> None:
        """Claim or finish events of different leases in one transaction."""
        for job in jobs:
            if job.stage is JobStage.CLAIM:
                self.fast_starts.forget(job.due.lease_id)
        try:
            outcomes = self.run_batch(jobs)
        except BaseException as exc:  # noqa: BLE001 - it is the error of each event
            outcomes = [(None, exc)] * len(jobs)
        for job, (written, error) in zip(jobs, outcomes, strict=True):
            context.of_event(job.due.id, job.due.lease_id)
            record = self._record_claim if job.stage is JobStage.CLAIM else self._record_finish
            try:
                record(job, written, error)
            except BaseException as exc:  # noqa: BLE001 - the scheduler logs it
                self._end(job, error=exc)

    def call(self, job: EventJob) -> None:
        """Call services for an event; this may take as long as these do."""
        context.of_event(job.due.id, job.due.lease_id)
        try:
            if job.stage is JobStage.POLL:
                self._poll(job)
            elif job.stage is JobStage.CALL:
                self._call(job)
            else:
                self._undo(job)
        except BaseException as exc:  # noqa: BLE001 - the scheduler logs it
            self._end(job, error=exc)

    def abandon(self, job: EventJob) -> None:
        """End the work on an event for which no service was called.

        Another manager may start it immediately.
        """
        if job.claim is not None:
            with contextlib.suppress(*RESUMED_ERRORS):
                self.claims.give_back(job.claim)
        self._end(job)

    def _end(
        self, job: EventJob, result: WorkResult = False, error: BaseException | None = None
    ) -> None:
        if job.claim is not None:
            self.claims.drop(job.claim)
        job.stage, job.result, job.error = JobStage.ENDED, result, error

    def write_one(self, session: orm.Session, job: EventJob) -> Any:
        lease = leases.find(session, job.due.lease_id, lock=True)
        return self._write_job(session, job, lease)

    def write_all(self, session: orm.Session, jobs: Sequence[EventJob]) -> list[ItemResult[Any]]:
        """Write events of different leases: each reads what was written before the group."""
        locked = leases.lock_all(session, {job.due.lease_id for job in jobs})
        with sql.deferred_writes(session):
            return [self._write_fenced(session, job, locked.get(job.due.lease_id)) for job in jobs]

    def _write_fenced(
        self, session: orm.Session, job: EventJob, lease: model.Lease | None
    ) -> ItemResult[Any]:
        try:
            return self._write_job(session, job, lease), None
        except ClaimLost as exc:
            # Nothing was written for it: the other events of the group continue.
            return None, exc

    def _write_job(self, session: orm.Session, job: EventJob, lease: model.Lease | None) -> Any:
        if job.stage is JobStage.CLAIM:
            return self._claim(session, job.due, lease)
        if job.fast_start is not None:
            return self._finish_fast(session, job, job.fast_start, lease)
        return self._finish(session, job, lease)

    # Claim.

    def _claim(
        self, session: orm.Session, due: DueEvent, lease: model.Lease | None
    ) -> _StartedEvent | None:
        """Claim and start an event; None if another manager has it, or it is not due."""
        stored = next((e for e in lease.events if e.id == due.id), None) if lease else None
        # Whether the claims of a group succeeded is known later; if not, all of it is repeated.
        if lease is None or stored is None or stored.generation != due.generation:
            return None
        if due.is_early and stored.status != states.EventStatus.UNDONE:
            return None
        claim = self.claims.claim(session, due)
        if claim is None:
            return None
        previous_times = _next_times(lease)
        # It was read before it was claimed.
        event = dataclasses.replace(
            stored, status=states.EventStatus.IN_PROGRESS, generation=claim.generation
        )
        lease = lease.with_events(event)
        now = self.clock.now()
        handler = events.get_handler(event.event_type)
        work = handler.begin(lease, event, now)
        change = transitions.Change(work.lease, work.notifications)
        if work.skip_reason is not None:
            change = handler.skip(work.lease, event, work.skip_reason, now)
        saved = store.save(session, lease, change, now, _event_cause(due))
        return _StartedEvent(claim, dataclasses.replace(work, lease=saved), previous_times)

    def _record_claim(
        self, job: EventJob, started: _StartedEvent | None, error: BaseException | None
    ) -> None:
        due = job.due
        if error is not None:
            if isinstance(error, Exception) and not isinstance(error, db_exc.DBConnectionError):
                # Its claim was rolled back with it. With a claim of its own it is retried when
                # that expires, and not immediately.
                with contextlib.suppress(*RESUMED_ERRORS):
                    self._database.write(self.claims.claim, due)
            self._end(job, error=error)
            return
        if started is None:
            if self._observer and not due.is_early:
                self._observer.record_claim_beaten(due)
            self._end(job, True)
            return
        job.claim, job.work, job.previous_times = started
        self.claims.hold(started.claim)
        if self._observer:
            self._observer.record_claim(due, self.clock.now())
        test_hooks.reached('event.claimed', **job.info)
        if started.work.skip_reason is not None:
            self._end(job, True)
        else:
            job.stage = JobStage.CALL

    # Call services.

    def _poll(self, job: EventJob) -> None:
        """Finish a start whose resource is active; any other has to be claimed."""
        job.fast_start = self.fast_starts.poll(job.due)
        if job.fast_start is None:
            job.stage = JobStage.CLAIM
            return
        job.previous_times = _next_times(job.fast_start.lease)
        test_hooks.reached('finish.before', **job.info)
        job.stage = JobStage.FINISH

    def _call(self, job: EventJob) -> None:
        claim, work = job.claim, job.work
        assert claim is not None  # nosec B101 # for mypy
        assert work is not None  # nosec B101 # for mypy
        if not self.claims.confirm(claim):
            self._end_superseded(job)
            return
        try:
            job.outcomes = self.calls.call(claim, work)
        except ClaimLost:
            self._undo(job)
            return
        test_hooks.reached('finish.before', **job.info)
        job.stage = JobStage.FINISH

    def _undo(self, job: EventJob) -> None:
        """End the lease again, so that a resource that was started late claims nothing."""
        lease = self._database.read(leases.find, job.due.lease_id)
        if lease is not None:
            self.calls.end_superseded(lease)
        self._end_superseded(job)

    def _end_superseded(self, job: EventJob) -> None:
        LOG.info('%s of lease %s was superseded', job.due.event_type, job.due.lease_id)
        if self._observer:
            self._observer.record_claim_lost(job.due.id)
        self._end(job, True)

    # Finish.

    def _finish(
        self, session: orm.Session, job: EventJob, lease: model.Lease | None
    ) -> model.Lease:
        """Save the outcomes; return the lease after that."""
        assert job.claim is not None  # nosec B101 # for mypy
        event = find_claimed_event(lease, job.claim)
        assert lease is not None  # nosec B101 # for mypy: it holds already
        now = self.clock.now()
        change = events.get_handler(event.event_type).settle(lease, event, job.outcomes, now)
        return self._save(session, job.due, lease, change)

    def _finish_fast(
        self,
        session: orm.Session,
        job: EventJob,
        fast_start: FinishedStart,
        lease: model.Lease | None,
    ) -> model.Lease | None:
        """Finish a start with nothing left to do; None if the lease has changed."""
        change = fast_start.settle(lease, self.clock)
        if change is None or lease is None:
            return None
        return self._save(session, job.due, lease, change)

    def _save(
        self, session: orm.Session, due: DueEvent, lease: model.Lease, change: transitions.Change
    ) -> model.Lease:
        """Save the outcome of an event, and release what its lease holds no more."""
        now = self.clock.now()
        after = store.save(session, lease, change, now, _event_cause(due))
        left = next(event for event in after.events if event.id == due.id)
        next_poll = max(now, left.next_at or now)
        self._release_units(session, lease, after, next_poll, now)
        return after

    def _record_finish(
        self, job: EventJob, after: model.Lease | None, error: BaseException | None
    ) -> None:
        if isinstance(error, ClaimLost):
            job.stage = JobStage.UNDO
            return
        if error is not None:
            self._end(job, error=error)
            return
        if after is None:
            job.stage, job.fast_start = JobStage.CLAIM, None
            return
        test_hooks.reached('finish.after', **job.info)
        event = next(e for e in after.events if e.id == job.due.id)
        if not event.open:
            LOG.info('%s of lease %s: %s', event.event_type, after.id, event.status)
        if self._observer:
            if job.fast_start is not None:
                self._observer.record_claim(job.due, self.clock.now())
            self._observer.record_result(event, self.clock.now())
        self.fast_starts.keep(after, event)
        new = (e.next_at for e in after.events if e.next_at != job.previous_times.get(e.id))
        self._end(job, min(filter(None, new), default=False))

    # Release what the lease no longer holds.

    def _release_units(
        self,
        session: orm.Session,
        before: model.Lease,
        after: model.Lease,
        next_poll: datetime.datetime,
        now: datetime.datetime,
    ) -> None:
        """Release what reservations no longer hold; retain what they use until the next poll."""
        held = {r.id for r in after.live}
        freed = [r for r in before.live if r.id not in held]
        preempted = _list_preempted(before, after)
        if preempted or any(r.amounts for r in freed):
            signal(session, leases.RESOURCES_FREED)
        if all(r.unit_kind is None for r in before.live):
            # The calendar allocates nothing to this lease.
            return
        calendar = self._calendar.transaction(session)
        self._release(calendar, [*freed, *preempted], now)
        if preempted:
            # The allocations of a preempted lease are not part of its later ones.
            db_calendar.mark_released(session, [r.id for r in preempted])
        self._retain(calendar, after, next_poll)

    def _release(
        self,
        calendar: CalendarTransaction,
        freed: Iterable[model.Reservation],
        now: datetime.datetime,
    ) -> None:
        """Release allocations, from when their units are cleaned."""
        by_time: dict[datetime.timedelta, dict[str, Collection[int]]] = defaultdict(dict)
        for reservation in freed:
            if reservation.unit_kind is None:
                continue
            plugin = self.calls.plugins.get(reservation.resource_type)
            cleaning: datetime.timedelta = datetime.timedelta(0)
            used: Collection[int] = ()
            if isinstance(plugin, CalendarBacked):
                cleaning, used = plugin.cleaning(reservation), plugin.used_units(reservation)
            by_time[cleaning][reservation.id] = used
        for cleaning, of_reservations in by_time.items():
            self._calendar.release(calendar, of_reservations, now, cleaning)

    def _retain(
        self, calendar: CalendarTransaction, lease: model.Lease, next_poll: datetime.datetime
    ) -> None:
        """Retain the units that ending reservations still use, until they are empty.

        A unit is retained until some time after the next poll, so that few polls write.
        """
        late: dict[datetime.datetime, dict[str, Collection[int]]] = defaultdict(dict)
        for reservation in lease.live:
            plugin = self.calls.plugins.get(reservation.resource_type)
            if not isinstance(plugin, CalendarBacked):
                continue
            if not (reservation.allocations and _is_leaving(lease, reservation)):
                continue
            used, cleaning = plugin.used_units(reservation), plugin.cleaning(reservation)
            ends = (a.end for a in reservation.allocations if a.unit_id in used)
            if any(end <= next_poll + cleaning for end in ends):
                late[next_poll + cleaning + _RETAINED_AFTER_POLL][reservation.id] = used
        for until, of_reservations in late.items():
            self._calendar.extend(calendar, of_reservations, until)


def _list_preempted(before: model.Lease, after: model.Lease) -> list[model.Reservation]:
    """Return the reservations of a preempted lease that is queued again."""
    if not before.is_being_preempted or after.status not in states.UNGRANTED:
        return []
    queued = {r.id for r in after.live if r.status == states.ReservationStatus.PENDING}
    return [r for r in before.live if r.id in queued]


def _is_leaving(lease: model.Lease, reservation: model.Reservation) -> bool:
    preempted = lease.is_being_preempted and reservation.status == states.ReservationStatus.ACTIVE
    return preempted or is_ending(lease, reservation)


def _event_cause(due: DueEvent) -> history.Cause:
    return history.Cause(
        f'event.{due.event_type}', request_id=context.event_request_id(due.id), event_id=due.id
    )


def _next_times(lease: model.Lease) -> dict[str, datetime.datetime | None]:
    """Return when each event of a lease is due, by their ids."""
    return {event.id: event.next_at for event in lease.events}
