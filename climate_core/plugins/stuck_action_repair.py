# SPDX-License-Identifier: Apache-2.0
"""Repair actions that a service lost: the message never arrived, or its process died.

An action counts as lost when the state of its resource has not changed for some time. The user
gets a reason after :data:`climate_core.plugins.step_context.LONG_WAIT_SECONDS`, and half-way to
the time when it counts as lost. Then the repair is made with the rights of the service, and again
after the same time.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.plugins.base import PollAgain

if TYPE_CHECKING:
    from climate_core.plugins.step_context import StepContext


class RepairStep(NamedTuple):
    """The step that an administrator would take.

    :param name: for the metrics, a few words with underscores
    :param told: a sentence for the user about what was done
    :param make: does it
    :param command: for an operator, if the service may not do it
    :param asked: the recorded request after it; None leaves that unchanged
    :param is_failure: whether it counts as a failure that the repair is needed
    """

    name: str
    told: str
    make: Callable[[], None]
    command: str
    asked: str | None = None
    is_failure: bool = False


def wait_or_repair(
    context: 'StepContext', doing: str, seconds: float, repair: RepairStep, tell: bool = True
) -> PollAgain:
    """Wait for a resource whose state does not change; repair it when it counts as lost.

    :param doing: a description for users, "The server has been deleting"
    :param seconds: until it counts as lost
    :param tell: whether the user gets a reason after half of that time
    :raises climate_core.exceptions.Transient: the service may not repair it, or it failed
    """
    # Poll in time for it to count as lost.
    left = max(1.0, seconds - context.progress.quiet(context.now))
    usual = context.wait(doing)
    usual = dataclasses.replace(usual, seconds=min(usual.seconds, left))
    if context.age < seconds / 2:
        return usual
    since = f'{doing} without a change for {_format_minutes(context.age)}'
    later = context.put_off(doing)
    if not context.is_due(seconds):
        told = f'{since}. It counts as lost after {_format_minutes(seconds)}.'
        before = context.progress.reason
        if before and before.startswith(doing) and context.age >= seconds:
            # What an administrator has to do stays in the reason.
            told = before
        return dataclasses.replace(usual, reason=told) if tell else usual
    failed = context.count_failure()
    try:
        repair.make()
    except errors.Busy:
        return dataclasses.replace(later, reason=f'{since}.') if tell else later
    except (errors.Refused, errors.Gone) as exc:
        # A service without the right to see a resource gets 404 for it.
        why = (
            f'{since} and is lost. The service may not repair it ({exc}): an administrator must '
            f'run: {repair.command}'
        )
        raise exceptions.Transient(
            why, {**(failed.put_off().progress or {}), 'reason': why}
        ) from exc
    except exceptions.Permanent as exc:
        raise exceptions.Transient(
            f'{since} and is lost: {exc}', failed.put_off().progress
        ) from exc
    except exceptions.PluginFailure as exc:
        raise exceptions.Transient(f'{since} and is lost: {exc}', later.progress) from exc
    after = failed if repair.is_failure else context
    if repair.asked:
        after = after.note(repair.asked)
    later = after.put_off(doing)
    return dataclasses.replace(later, reason=f'{since}: {repair.told}', repair=repair.name)


def wait_for_operator(
    context: 'StepContext', doing: str, seconds: float, why: str, command: str
) -> PollAgain:
    """Wait for a resource that only an administrator can repair; name the command when it is lost.

    :param why: what prevents the service from it
    """

    def make() -> None:
        raise errors.Refused(why)

    return wait_or_repair(context, doing, seconds, RepairStep('leave', '', make, command))


def _format_minutes(seconds: float) -> str:
    return f'{seconds / 60:.0f} minutes' if seconds >= 90 else f'{seconds:.0f} seconds'
