# SPDX-License-Identifier: Apache-2.0
"""Call the plugins of the resources of an event, and decide what follows from a failure.

Resources are started and ended in the order of their ranks. A permanent failure keeps no resource
waiting: a server that does not use the volume that failed can still be started. A plugin declares
which resources it blocks, as a stack does its members.
"""

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from oslo_log import log

from climate_core import exceptions, test_hooks
from climate_core.db.engine import DATABASE_ERRORS, Stale
from climate_core.db.sql import Clock
from climate_core.delivery.metrics import Metrics
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.claims import ClaimLost, EventClaim
from climate_core.lease import events, model, states, transitions
from climate_core.lease.events import preparation
from climate_core.plugins.base import (
    Done,
    Lockable,
    PollAgain,
    ResourcePlugin,
    UserOfResources,
)
from climate_core.threads import Backoff

LOG = log.getLogger(__name__)

#: Errors of the database after which an event is resumed when its claim expires.
RESUMED_ERRORS: tuple[type[Exception], ...] = (Stale, *DATABASE_ERRORS)
#: Seconds until the retry of a resource whose service has all of its threads in use.
_NO_THREAD_SECONDS = 1.0
#: The expected failures of plugins and cloud calls. ``cloud.errors.Gone`` is not among them: only
#: the plugin knows whether a missing resource is a success.
EXPECTED_ERRORS = (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError)
#: Seconds before the end of a lease in which a failed start is not retried.
TOO_LATE_SECONDS = 2.0
#: Maximum number of characters of a reason: messages of other services may be very long.
_MAX_REASON_LENGTH = 1000

_Call = Callable[[], PollAgain | Done | None]


class LeaseActions(Protocol):
    """The operations of the manager that events call."""

    @property
    def lease_calls(self) -> Mapping[str, Callable[[model.Lease], PollAgain | None]]:
        """Return the operations by the ``lease_call`` of event handlers."""

    def preempt_servers(self, lease: model.Lease) -> bool:
        """Preempt leases for a lease without sufficient capacity; return whether it did."""


class PluginCaller:
    """Call the plugins of events.

    :param plugins: resource type -> plugin
    :param bulkhead: counts the thread of an event for the service that is about to be called
    :param actions: what events call once for their lease
    :param observer: counts repairs
    """

    def __init__(
        self,
        clock: Clock,
        plugins: Mapping[str, ResourcePlugin],
        bulkhead: ServiceBulkhead,
        actions: LeaseActions,
        backoff: Backoff,
        observer: Metrics | None = None,
    ) -> None:
        self.plugins = plugins
        self._clock = clock
        self._bulkhead = bulkhead
        self._actions = actions
        self._backoff = backoff
        self._observer = observer

    def call(
        self, claim: EventClaim, work: transitions.EventWork
    ) -> dict[str, transitions.Outcome]:
        """Call what an event needs; return the outcomes by reservation, or by the event.

        :raises ClaimLost: another manager continues the event
        """
        handler = events.get_handler(claim.event_type)
        if handler.lease_call is not None:
            action = self._actions.lease_calls[handler.lease_call]
            outcome = self._try(claim, work.lease, functools.partial(action, work.lease))
            return {claim.event_id: outcome}
        outcomes: dict[str, transitions.Outcome] = {}
        tried: list[tuple[model.Reservation, transitions.Outcome]] = []
        # The next rank waits until the one before is settled.
        for rank in order_by_rank(work.reservations, self.plugins, handler.ascending):
            now = self._clock.now()
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

    def end_superseded(self, lease: model.Lease) -> None:
        """Undo what was done after the end of reservations, after the claim of an event was lost.

        A start that is superseded by the end of its lease may open a host after the end has closed
        it, and a preempted server may be locked after the end has unlocked it. The lock of another
        lease, which has the resource by now, is left. If a manager dies before this,
        :mod:`climate_hosts.watch.repair` closes the one later, and
        :mod:`climate_core.repair.reconciliation` unlocks the other.
        """
        kept = {r.key for r in lease.live if not is_ending(lease, r)}
        for reservation in lease.reservations:
            plugin = self.plugins.get(reservation.resource_type)
            # A preempted lease has an ended reservation of it beside the queued one.
            if plugin is None or reservation.key in kept:
                continue
            try:
                if reservation.unit_kind is not None:
                    plugin.end(lease, reservation)
                elif lease.preemptible and isinstance(plugin, Lockable):
                    plugin.unlock(reservation.resource_id, lease.id)
            except EXPECTED_ERRORS as exc:
                LOG.warning('%s is not ended again: %s', reservation.id, exc)
            except Exception:
                # An unexpected error of one plugin must not keep the others from their end.
                LOG.exception('%s is not ended again', reservation.id)

    def _with_uses(
        self, claim: EventClaim, lease: model.Lease, reservation: model.Reservation
    ) -> model.Reservation:
        """Return a reservation with the resources that it uses, as its plugin finds them."""
        plugin = self.plugins.get(reservation.resource_type)
        if not isinstance(plugin, UserOfResources):
            return reservation
        if not self._bulkhead.enter(claim.event_id, plugin):
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
        outcomes = find_blocking(reservation, tried, self.plugins)
        return decide_blocked(outcomes, lease, handler.until_end, self._clock.now())

    def _try(
        self,
        claim: EventClaim,
        lease: model.Lease,
        call: _Call,
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
        except EXPECTED_ERRORS as exc:
            LOG.warning('%s: %s', info, exc)
            outcome = self._failed(exc, event, lease)
            return dataclasses.replace(outcome, progress=getattr(exc, 'progress', None))
        except Exception as exc:
            # A plugin may raise anything: it is the failure of one resource, and affects neither
            # the rest of the lease nor other leases.
            LOG.error('%s: unexpected error', info, exc_info=exc)
            return decide_bug(exc, event, self._backoff)
        test_hooks.reached('remote.after', **info)
        if result is None:
            return transitions.DONE
        if isinstance(result, Done):
            return dataclasses.replace(transitions.DONE, progress=result.progress)
        if result.repair is not None and reservation is not None and self._observer:
            self._observer.record_repair(reservation.resource_type, result.repair)
        wait = transitions.Result.WAIT
        return transitions.Outcome(
            wait, result.seconds, result.reason, result.progress, result.resource_id
        )

    def _failed(
        self, exc: Exception, event: model.Event, lease: model.Lease
    ) -> transitions.Outcome:
        """Return the outcome of an expected failure; insufficient capacity may pass."""
        now = self._clock.now()
        outcome = decide_retry(exc, event, lease, now, self._backoff)
        if not outcome.lacks_capacity or not preparation.can_requeue(lease, preempts_others=True):
            return outcome
        try:
            return dataclasses.replace(
                outcome, preempts_others=self._actions.preempt_servers(lease)
            )
        except EXPECTED_ERRORS as exc:
            LOG.warning('Could not check whether lease %s preempts others: %s', lease.id, exc)
            return decide_retry(exc, event, lease, now, self._backoff)
        except RESUMED_ERRORS:
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
        if not self._bulkhead.enter(claim.event_id, plugin):
            return PollAgain(_NO_THREAD_SECONDS)
        method = getattr(plugin, handler.plugin_method(lease, reservation))
        called: PollAgain | Done | None = method(lease, reservation)
        return called


def is_ending(lease: model.Lease, reservation: model.Reservation) -> bool:
    """Return whether the resource of a reservation is being ended, or was."""
    ending = reservation.status == states.ReservationStatus.DELETING
    return ending or lease.status in states.ENDING


def order_by_rank(
    reservations: Iterable[model.Reservation],
    plugins: Mapping[str, ResourcePlugin],
    ascending: bool,
) -> Iterator[Sequence[model.Reservation]]:
    """Yield the reservations of one rank after the other.

    :param plugins: resource type -> plugin; a type without a plugin has the default rank
    :param ascending: the lowest rank first, as at the start; False: the highest, as at the end
    """

    def rank(reservation: model.Reservation) -> int:
        plugin = plugins.get(reservation.resource_type, ResourcePlugin)
        at_end = plugin.rank if plugin.rank_at_end is None else plugin.rank_at_end
        return plugin.rank if ascending else at_end

    ordered = sorted(reservations, key=rank, reverse=not ascending)
    for _, group in itertools.groupby(ordered, rank):
        yield tuple(group)


def find_blocking(
    reservation: model.Reservation,
    tried: Iterable[tuple[model.Reservation, transitions.Outcome]],
    plugins: Mapping[str, ResourcePlugin],
) -> Sequence[transitions.Outcome]:
    """Return the outcomes of the reservations that block this one and are not done.

    :param tried: what was tried of the ranks before, without reservations that only waited
    """

    def blocks(own: model.Reservation) -> bool:
        plugin = plugins.get(own.resource_type)
        return plugin is None or plugin.blocks(own, reservation)

    return [o for own, o in tried if o.result is not transitions.Result.DONE and blocks(own)]


def decide_retry(
    exc: Exception,
    event: model.Event,
    lease: model.Lease,
    now: datetime.datetime,
    backoff: Backoff,
) -> transitions.Outcome:
    """Decide whether and when to retry after an expected failure.

    A start is retried until shortly before the end of the lease, with waits that grow shorter
    again towards the end, unless the failure is permanent. Calls that release capacity are retried
    without limit; after a permanent failure rarely, since an operator may repair it.
    """
    permanent = isinstance(exc, exceptions.Permanent)
    handler = events.get_handler(event.event_type)
    if permanent and not handler.retries_forever(lease, event):
        no_room = isinstance(exc, exceptions.NoCapacity)
        return transitions.Outcome(
            transitions.Result.FAILED, reason=describe_failure(exc), lacks_capacity=no_room
        )
    least = exc.retry_after if isinstance(exc, exceptions.Transient) else 0.0
    delay = backoff.maximum if permanent else backoff.delay(event.attempts, least)
    if handler.until_end:
        if _is_too_late(lease, now):
            return _fail_too_late(describe_failure(exc))
        delay = min(delay, (lease.end_date - now).total_seconds() / 2)
    return transitions.Outcome(transitions.Result.RETRY, delay, describe_failure(exc))


def decide_blocked(
    outcomes: Sequence[transitions.Outcome],
    lease: model.Lease,
    until_end: bool,
    now: datetime.datetime,
) -> transitions.Outcome | None:
    """Decide about a reservation that comes after others that are not done.

    A resource that is started shortly before the end of the lease would be ended as if it had been
    used.

    :param outcomes: of the others
    :param until_end: whether it is tried until the end of the lease, as a start
    :returns: that it waits, or that it failed, too; None if it may be tried
    """
    waits = [o.seconds for o in outcomes if o.result is not transitions.Result.FAILED]
    if waits:
        return transitions.Outcome(transitions.Result.WAIT, min(waits))
    if not until_end:
        return None
    failed = any(outcome.result is transitions.Result.FAILED for outcome in outcomes)
    return (
        _fail_too_late('A resource that it may use is missing.')
        if failed and _is_too_late(lease, now)
        else None
    )


def _is_too_late(lease: model.Lease, now: datetime.datetime) -> bool:
    return (lease.end_date - now).total_seconds() < TOO_LATE_SECONDS


def _fail_too_late(why: str) -> transitions.Outcome:
    message = f'It could not be started before the end of the lease: {why}'
    return transitions.Outcome(transitions.Result.FAILED, reason=message)


def decide_bug(exc: Exception, event: model.Event, backoff: Backoff) -> transitions.Outcome:
    """Decide what follows from an unexpected error: permanent, as for a start, or retried."""
    if events.get_handler(event.event_type).bug_is_permanent:
        return transitions.Outcome(transitions.Result.FAILED, reason=describe_failure(exc))
    return transitions.Outcome(
        transitions.Result.RETRY, backoff.delay(event.attempts), describe_failure(exc)
    )


def describe_failure(exc: Exception) -> str:
    """Return a sentence for the user about an exception."""
    if isinstance(exc, EXPECTED_ERRORS):
        return str(exc)[:_MAX_REASON_LENGTH] or (type(exc).__doc__ or '').strip().split('\n')[0]
    return f'Internal error ({type(exc).__name__}); the log of climate-manager has the details.'
