# SPDX-License-Identifier: Apache-2.0
"""Decide what follows from a failure. Pure."""

import datetime
from collections.abc import Sequence

from climate_core import exceptions
from climate_core.lease import events, model, transitions
from climate_core.threads import Backoff

#: The expected failures of plugins and cloud calls. That a resource is gone
#: (``cloud.errors.Gone``) is not among them: only the plugin knows whether that is a success.
EXPECTED = (exceptions.Transient, exceptions.Permanent, exceptions.ClimateError)

#: Seconds before the end of a lease in which a start that failed is not tried again.
TOO_LATE = 2.0

#: Characters of a reason, since the message of another service may be very long.
_LONGEST = 1000


def decide(
    exc: Exception,
    event: model.Event,
    lease: model.Lease,
    now: datetime.datetime,
    backoff: Backoff,
) -> transitions.Outcome:
    """Decide whether and when to retry after an expected failure.

    A start is retried until the lease is about to be over, with waits that grow shorter again
    towards the end, unless the failure is permanent. What frees capacity is retried for ever;
    after a permanent failure rarely, for an operator may repair it.
    """
    permanent = isinstance(exc, exceptions.Permanent)
    handler = events.get_handler(event.event_type)
    if permanent and not handler.retries_forever(lease, event):
        no_room = isinstance(exc, exceptions.NoCapacity)
        return transitions.Outcome(
            transitions.Result.FAILED, reason=reason(exc), lacks_capacity=no_room
        )
    least = exc.retry_after if isinstance(exc, exceptions.Transient) else 0.0
    delay = backoff.most if permanent else backoff.delay(event.attempts, least)
    if handler.until_end:
        if _late(lease, now):
            return _too_late(reason(exc))
        delay = min(delay, (lease.end_date - now).total_seconds() / 2)
    return transitions.Outcome(transitions.Result.RETRY, delay, reason(exc))


def blocked(
    outcomes: Sequence[transitions.Outcome],
    lease: model.Lease,
    until_end: bool,
    now: datetime.datetime,
) -> transitions.Outcome | None:
    """Decide about what comes after others that are not done.

    What is woken when the lease is about to be over would be ended as if it had been used.

    :param outcomes: of the others
    :param until_end: whether it is tried until the end of the lease, as a start
    :returns: that it waits, or that it failed, too; None if it may be tried
    """
    waits = [each.seconds for each in outcomes if each.result is not transitions.Result.FAILED]
    if waits:
        return transitions.Outcome(transitions.Result.WAIT, min(waits))
    if not until_end:
        return None
    failed = any(outcome.result is transitions.Result.FAILED for outcome in outcomes)
    return _too_late('What it may use was not there.') if failed and _late(lease, now) else None


def _late(lease: model.Lease, now: datetime.datetime) -> bool:
    return (lease.end_date - now).total_seconds() < TOO_LATE


def _too_late(why: str) -> transitions.Outcome:
    told = f'It could not be started before the end of the lease: {why}'
    return transitions.Outcome(transitions.Result.FAILED, reason=told)


def bug(exc: Exception, event: model.Event, backoff: Backoff) -> transitions.Outcome:
    """Decide what follows from a bug of a plugin: permanent, as for a start, or retried."""
    if events.get_handler(event.event_type).bug_is_permanent:
        return transitions.Outcome(transitions.Result.FAILED, reason=reason(exc))
    return transitions.Outcome(
        transitions.Result.RETRY, backoff.delay(event.attempts), reason(exc)
    )


def reason(exc: Exception) -> str:
    """Return a sentence for the user about an exception."""
    if isinstance(exc, EXPECTED):
        return str(exc)[:_LONGEST] or (type(exc).__doc__ or '').strip().split('\n')[0]
    return f'Internal error ({type(exc).__name__}); the log of climate-manager has the details.'
