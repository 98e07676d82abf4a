# SPDX-License-Identifier: Apache-2.0
"""Decide which resources of a lease are tried, and what follows from a failure. Pure.

Resources are woken and ended rank by rank. A permanent failure keeps no resource waiting: a server
that does not use the volume that failed can still be woken. And a plugin may say which resources
it blocks, as a stack does its members.
"""

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from climate_core import exceptions
from climate_core.lease import events, model, transitions
from climate_core.plugins.base import ResourcePlugin
from climate_core.threads import Backoff


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


#: The expected failures of plugins and cloud calls. ``cloud.errors.Gone`` is not among them: only
#: the plugin knows whether a missing resource is a success.
EXPECTED_ERRORS = (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError)

#: Seconds before the end of a lease in which a failed start is not retried.
TOO_LATE_SECONDS = 2.0

#: Maximum number of characters of a reason: messages of other services may be very long.
_MAX_REASON_LENGTH = 1000


def decide_retry(
    exc: Exception,
    event: model.Event,
    lease: model.Lease,
    now: datetime.datetime,
    backoff: Backoff,
) -> transitions.Outcome:
    """Decide whether and when to retry after an expected failure.

    A start is retried until shortly before the end of the lease, with waits that grow shorter
    again towards the end, unless the failure is permanent. What releases capacity is retried
    forever; after a permanent failure rarely, since an operator may repair it.
    """
    permanent = isinstance(exc, exceptions.Permanent)
    handler = events.get_handler(event.event_type)
    if permanent and not handler.retries_forever(lease, event):
        no_room = isinstance(exc, exceptions.NoCapacity)
        return transitions.Outcome(
            transitions.Result.FAILED, reason=describe_failure(exc), lacks_capacity=no_room
        )
    least = exc.retry_after if isinstance(exc, exceptions.Transient) else 0.0
    delay = backoff.most if permanent else backoff.delay(event.attempts, least)
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

    A resource that is woken shortly before the end of the lease would be ended as if it had been
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
        _fail_too_late('What it may use was not there.')
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
