# SPDX-License-Identifier: Apache-2.0
"""Execute one event from its claim to its finish.

Read the resource, do the difference, record the outcome: each part may be done twice, by another
manager too, without harm. Only the finish counts, and it is fenced by the claim's generation.
"""

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_core import context, exceptions, test_hooks
from climate_core.db import leases, store
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale
from climate_core.db.events import DueEvent
from climate_core.db.sql import Clock
from climate_core.delivery import metrics
from climate_core.engine import attempts, claims
from climate_core.engine.allocation_release import AllocationReleaser
from climate_core.engine.claims import ClaimLost, Claims, EventClaim
from climate_core.engine.event_steps import CALL_SERVICES, Step, Work, WorkResult, Write
from climate_core.engine.fast_start import FastStarts, FinishedStart
from climate_core.lease import events, history, model, states, transitions
from climate_core.lease.events import preparation
from climate_core.plugins.base import Done, PollAgain, ResourcePlugin, UserOfResources
from climate_core.threads import Backoff

LOG = log.getLogger(__name__)

#: Errors of the database after which an event is resumed when its claim expires.
_DATABASE_ERRORS: tuple[type[Exception], ...] = (Stale, *DATABASE_ERRORS)

#: Seconds until the retry of a resource whose service has all of its threads in use.
_NO_THREAD_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class _StartedEvent:
    """A claimed event, and the work to do for it.

    :param known: when each event of the lease was due before the claim, by their ids
    """

    claim: EventClaim
    work: transitions.EventWork
    known: Mapping[str, datetime.datetime | None]


@dataclasses.dataclass(eq=False)
class EventExecutor:
    """Execute events that are due.

    :param plugins: resource type -> plugin
    :param allocations: releases the allocations of reservations that have ended
    :param lease_calls: name -> the operation of a handler with this ``lease_call``
    :param observer: records the outcomes of claims
    :param enter: counts the thread of an event, by its id, for the service of the plugin that is
        about to be called; returns whether it may be called
    :param give_way: preempts other leases for a lease without sufficient capacity; returns whether
        it did
    """

    database: Database
    clock: Clock
    claims: Claims
    plugins: Mapping[str, ResourcePlugin]
    allocations: AllocationReleaser
    lease_calls: Mapping[str, Callable[[model.Lease], PollAgain | None]]
    backoff: Backoff
    observer: metrics.Metrics | None = None
    give_way: Callable[[model.Lease], bool] = lambda _lease: False
    enter: Callable[[str, ResourcePlugin], bool] = lambda _event_id, _plugin: True

    def __post_init__(self) -> None:
        self.fast_starts = FastStarts(self.plugins, self.clock, self.enter)

    def work(self, due: DueEvent) -> Work:
        """Claim an event and work on it, step by step."""
        if due.is_early:
            finished = yield from self._finish_awake(due)
            if finished is not None:
                return finished
        self.fast_starts.forget(due.lease_id)
        begun: _StartedEvent | None = yield from self._claim(due)
        if begun is None:
            if self.observer and not due.is_early:
                self.observer.record_lost_claim(due)
            return True
        claim = begun.claim
        self.claims.hold(claim)
        if self.observer:
            self.observer.claimed(due, self.clock.now())
        try:
            test_hooks.reached('event.claimed', **claim.info)
            return (yield from self._do(begun))
        except ClaimLost:
            LOG.info('%s of lease %s was superseded', claim.event_type, claim.lease_id)
            if self.observer:
                self.observer.lost(claim.event_id)
            return True
        finally:
            self.claims.drop(claim)

    def _finish_awake(self, due: DueEvent) -> Generator[Step, Any, WorkResult | None]:
        """Finish a start whose resource is active; None if it has to be claimed."""
        finished = self.fast_starts.find(due)
        if finished is None:
            return None
        info = {'event_id': due.id, 'event_type': due.event_type, 'lease_id': due.lease_id}
        test_hooks.reached('finish.before', **info)
        after = yield Write(due.lease_id, functools.partial(self._save_awake, finished))
        if after is None:
            return None
        test_hooks.reached('finish.after', **info)
        if self.observer:
            self.observer.claimed(due, self.clock.now())
        return self._finished(after, due.id, _next_times(finished.lease))

    def _claim(self, due: DueEvent) -> Generator[Step, Any, _StartedEvent | None]:
        """Claim and start an event in one transaction."""
        try:
            begun: _StartedEvent | None = yield Write(
                due.lease_id, functools.partial(self._begin, due)
            )
        except db_exc.DBConnectionError:
            raise
        except Exception:
            # Its claim was rolled back with it. With a claim of its own it is retried when that
            # expires, and not immediately.
            with contextlib.suppress(*_DATABASE_ERRORS):
                self.database.write(self.claims.claim, due)
            raise
        return begun

    def _do(self, begun: _StartedEvent) -> Work:
        claim, work = begun.claim, begun.work
        if work.skip_reason is not None:
            return True
        try:
            yield CALL_SERVICES
        except GeneratorExit:
            # No service was called: another manager may start it immediately.
            with contextlib.suppress(*_DATABASE_ERRORS):
                self.claims.give_back(claim)
            raise
        if not self.claims.confirm(claim):
            raise ClaimLost
        try:
            outcomes = self._act(claim, work)
            test_hooks.reached('finish.before', **claim.info)
            after = yield Write(claim.lease_id, functools.partial(self._finish, claim, outcomes))
        except ClaimLost:
            yield CALL_SERVICES
            # End it again, so that what was started late holds nothing.
            lease = self.database.read(leases.find, claim.lease_id)
            if lease is not None:
                self.allocations.end_superseded(lease)
            raise
        test_hooks.reached('finish.after', **claim.info)
        return self._finished(after, claim.event_id, begun.known)

    def _finished(
        self,
        after: model.Lease,
        event_id: str,
        known: Mapping[str, datetime.datetime | None],
    ) -> WorkResult:
        """Record the outcome of an event; return the result of the work on it.

        :param known: when each event of the lease was due before the claim, by their ids
        """
        event = next(e for e in after.events if e.id == event_id)
        if not event.open:
            LOG.info('%s of lease %s: %s', event.event_type, after.id, event.status)
        if self.observer:
            self.observer.record_result(event, self.clock.now())
        self.fast_starts.keep(after, event)
        new = (e.next_at for e in after.events if e.next_at != known.get(e.id))
        return min(filter(None, new), default=False)

    def _save_awake(
        self, finished: FinishedStart, session: orm.Session, lease: model.Lease | None
    ) -> model.Lease | None:
        """Finish a start with nothing left to do; None if the lease has changed."""
        change = finished.settle(lease, self.clock)
        if change is None or lease is None:
            return None
        return self._save(session, lease, change, finished.event.id, finished.event.event_type)

    def _begin(
        self, due: DueEvent, session: orm.Session, lease: model.Lease | None
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
        known = _next_times(lease)
        # It was read before it was claimed.
        event = dataclasses.replace(
            stored,
            status=states.EventStatus.IN_PROGRESS,
            generation=claim.generation,
        )
        lease = lease.with_events(event)
        now = self.clock.now()
        handler = events.get_handler(event.event_type)
        work = handler.begin(lease, event, now)
        change = transitions.Change(work.lease, work.notifications)
        if work.skip_reason is not None:
            change = handler.skip(work.lease, event, work.skip_reason, now)
        cause = _event_cause(claim.event_id, claim.event_type)
        saved = store.save(session, lease, change, now, cause)
        return _StartedEvent(claim, dataclasses.replace(work, lease=saved), known)

    def _finish(
        self,
        claim: EventClaim,
        outcomes: Mapping[str, transitions.Outcome],
        session: orm.Session,
        lease: model.Lease | None,
    ) -> model.Lease:
        """Save the outcomes; return the lease after that."""
        event = claims.find_claimed_event(lease, claim)
        assert lease is not None  # nosec B101 # for mypy: it holds already
        now = self.clock.now()
        change = events.get_handler(event.event_type).settle(lease, event, outcomes, now)
        return self._save(session, lease, change, claim.event_id, claim.event_type)

    def _save(
        self,
        session: orm.Session,
        lease: model.Lease,
        change: transitions.Change,
        event_id: str,
        event_type: str,
    ) -> model.Lease:
        """Save the outcome of an event, and release what its lease holds no more."""
        now = self.clock.now()
        after = store.save(session, lease, change, now, _event_cause(event_id, event_type))
        left = next(event for event in after.events if event.id == event_id)
        next_poll = max(now, left.next_at or now)
        self.allocations.update(session, lease, after, next_poll, now)
        return after

    def _act(
        self, claim: EventClaim, work: transitions.EventWork
    ) -> dict[str, transitions.Outcome]:
        handler = events.get_handler(claim.event_type)
        if handler.lease_call is None:
            return self._in_order(claim, handler, work)
        call = functools.partial(self.lease_calls[handler.lease_call], work.lease)
        return {claim.event_id: self._try(claim, work.lease, call)}

    def _in_order(
        self, claim: EventClaim, handler: events.EventHandler, work: transitions.EventWork
    ) -> dict[str, transitions.Outcome]:
        """Call the plugins rank by rank; the next rank waits until the one before is settled."""
        outcomes: dict[str, transitions.Outcome] = {}
        tried: list[tuple[model.Reservation, transitions.Outcome]] = []
        for rank in attempts.order_by_rank(work.reservations, self.plugins, handler.ascending):
            now = self.clock.now()
            # Plugins get the outcomes of the ranks before theirs.
            lease = transitions.apply_outcomes(work.lease, outcomes, handler.done_status, now)
            before = tuple(tried)
            for reservation in rank:
                blocked = self._blocked(reservation, before, lease, handler)
                if blocked is not None and handler.ascending:
                    reservation = self._with_uses(claim, lease, reservation)
                    blocked = self._blocked(reservation, before, lease, handler)
                if blocked is not None:
                    outcome = dataclasses.replace(blocked, progress=reservation.progress)
                else:
                    call = functools.partial(self._call_plugin, claim, handler, lease, reservation)
                    outcome = self._try(claim, lease, call, reservation)
                    progress = outcome.progress or reservation.progress
                    tried.append((dataclasses.replace(reservation, progress=progress), outcome))
                outcomes[reservation.id] = outcome
        return outcomes

    def _with_uses(
        self, claim: EventClaim, lease: model.Lease, reservation: model.Reservation
    ) -> model.Reservation:
        """Return a reservation with the resources that it uses, as its plugin finds them."""
        plugin = self.plugins.get(reservation.resource_type)
        if not isinstance(plugin, UserOfResources):
            return reservation
        if not self.enter(claim.event_id, plugin):
            return reservation
        call = functools.partial(plugin.find_uses, lease, reservation)
        outcome = self._try(claim, lease, call, reservation)
        return dataclasses.replace(reservation, progress=outcome.progress or reservation.progress)

    def _blocked(
        self,
        reservation: model.Reservation,
        tried: Sequence[tuple[model.Reservation, transitions.Outcome]],
        lease: model.Lease,
        handler: events.EventHandler,
    ) -> transitions.Outcome | None:
        """Return the outcome of a reservation that may not be tried now; None if it may."""
        outcomes = attempts.find_blocking(reservation, tried, self.plugins)
        return attempts.decide_blocked(outcomes, lease, handler.until_end, self.clock.now())

    def _try(
        self,
        claim: EventClaim,
        lease: model.Lease,
        call: Callable[[], PollAgain | Done | None],
        reservation: model.Reservation | None = None,
    ) -> transitions.Outcome:
        """Make one remote call. Its failure is an outcome: the other resources continue."""
        if claim.lost:
            raise ClaimLost
        info = claim.info | {'reservation_id': reservation.id if reservation else None}
        event = next(e for e in lease.events if e.id == claim.event_id)
        test_hooks.reached('remote.before', **info)
        try:
            result = call()
        except attempts.EXPECTED_ERRORS as exc:
            LOG.warning('%s: %s', info, exc)
            outcome = self._failed(exc, event, lease)
            return dataclasses.replace(outcome, progress=getattr(exc, 'progress', None))
        except Exception as exc:
            # A plugin may raise anything: it is the failure of one resource, and affects neither
            # the rest of the lease nor other leases.
            LOG.error('%s: unexpected error', info, exc_info=exc)
            return attempts.decide_bug(exc, event, self.backoff)
        test_hooks.reached('remote.after', **info)
        if result is None:
            return transitions.DONE
        if isinstance(result, Done):
            return dataclasses.replace(transitions.DONE, progress=result.progress)
        if result.repair is not None and reservation is not None and self.observer:
            self.observer.repaired(reservation.resource_type, result.repair)
        wait = transitions.Result.WAIT
        return transitions.Outcome(
            wait, result.seconds, result.reason, result.progress, result.resource_id
        )

    def _failed(
        self, exc: Exception, event: model.Event, lease: model.Lease
    ) -> transitions.Outcome:
        """Return the outcome of an expected failure; insufficient capacity may pass."""
        now = self.clock.now()
        outcome = attempts.decide_retry(exc, event, lease, now, self.backoff)
        if not outcome.lacks_capacity or not preparation.can_requeue(lease, preempts_others=True):
            return outcome
        try:
            return dataclasses.replace(outcome, preempts_others=self.give_way(lease))
        except attempts.EXPECTED_ERRORS as trouble:
            LOG.warning('Could not check whether lease %s preempts others: %s', lease.id, trouble)
            return attempts.decide_retry(trouble, event, lease, now, self.backoff)
        except _DATABASE_ERRORS:
            raise
        except Exception:
            LOG.exception('Could not check whether lease %s preempts others', lease.id)
            return outcome

    def _call_plugin(
        self,
        claim: EventClaim,
        handler: events.EventHandler,
        lease: model.Lease,
        reservation: model.Reservation,
    ) -> PollAgain | Done | None:
        plugin = self.plugins.get(reservation.resource_type)
        if plugin is None:
            raise exceptions.Transient(f'No plugin for {reservation.resource_type} is enabled.')
        if not self.enter(claim.event_id, plugin):
            return PollAgain(_NO_THREAD_SECONDS)
        method = getattr(plugin, handler.plugin_method(lease, reservation))
        called: PollAgain | Done | None = method(lease, reservation)
        return called


def _event_cause(event_id: str, event_type: str) -> history.Cause:
    return history.Cause(
        f'event.{event_type}', request_id=context.event_request_id(event_id), event_id=event_id
    )


def _next_times(lease: model.Lease) -> dict[str, datetime.datetime | None]:
    """Return when each event of a lease is due, by their ids."""
    return {event.id: event.next_at for event in lease.events}
