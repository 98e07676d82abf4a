# SPDX-License-Identifier: Apache-2.0
"""The end of a reserved stack: look at it, take the one step that brings it nearer to its end.

Heat does one thing at a time with a stack, but deletes it in the middle of another. A stack that
is being deleted, by whomever, is waited for: members and the lease in it are freed by that.
Snapshots of a stack go with it, so the end action ``snapshot`` keeps the stack, suspended.

Heat suspends no stack of which a resource is broken. After a few tries the stack is left as it is,
and its servers are suspended one by one, see :mod:`climate_core.plugins.membership`.

A stack that was never woken is deleted, whatever its end action is. One whose wake-up failed
half-way may hold data, so it is ended as asked if a member of it is awake. And one that its user
updates so that it has neither a lease nor members goes on: heat_ext asks for ``nothing`` then.
One that was made for its lease and is not filled yet never goes on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.lease import model, steps
from climate_core.plugins import membership, stack_shell
from climate_core.plugins.base import Wait
from climate_core.plugins.ending import Ending

if TYPE_CHECKING:
    from climate_core.cloud.stacks import Stack

LOG = log.getLogger(__name__)

#: The end actions with their explanation.
CHOICES = [
    ('delete', 'Delete it.'),
    ('suspend', 'Suspend it; hosts and backends keep the capacity.'),
    ('snapshot', 'Make a snapshot of it, then suspend it: Heat deletes snapshots with the stack.'),
    ('nothing', 'Leave it as it is.'),
]
#: Statuses in which Heat may be about to take the lease out of a stack.
_CHANGING = frozenset({'UPDATE_IN_PROGRESS', 'ROLLBACK_IN_PROGRESS'})

#: Looks, in about ten minutes, after which the engine that works on a stack may have died.
MANY: Final = 30
#: Looks, in about an hour, after which that is believed of an engine that makes a snapshot: what
#: Heat is asked for meanwhile breaks the snapshot off. An hour is also Heat's own timeout.
VERY_MANY: Final = 120
#: Failures after which a snapshot is given up, and as many more for the suspension.
TRIES: Final = 3


def end(ending: Ending) -> Wait | None:
    """Take the next step.

    :returns: None when it is done
    :raises climate_core.cloud.errors.Gone: the stack is gone
    :raises climate_core.exceptions.Transient, climate_core.exceptions.Permanent: from Heat
    """
    stack = stacks.get(ending.conn, ending.resource_id)
    if stack.status == 'DELETE_COMPLETE':
        return None
    if stack.status == 'DELETE_IN_PROGRESS':
        return _go_on(ending, stack)
    if ending.on_end == 'delete' or stack.status == 'DELETE_FAILED' or not _stays(ending, stack):
        return _delete(ending, stack)
    return _STEPS[ending.on_end](ending, stack)


def _wait(ending: Ending, stack: 'Stack') -> Wait:
    return ending.wait(f'The stack has been {stack.status}')


def _go_on(ending: Ending, stack: 'Stack') -> Wait:
    """Wait for a deletion; ask once more after a long time, for a new engine to go on with it."""
    if not ending.is_due(MANY):
        return _wait(ending, stack)
    return ending.ask('delete', lambda: _ask_to_delete(ending, stack))


def _stays(ending: Ending, stack: 'Stack') -> bool:
    if ending.has_run:
        return True
    if _was_broken_off(ending):
        return False
    members = {
        each.resource_id
        for each in ending.lease.live
        if each.params.get(membership.KEY) == ending.resource_id
    }
    if not members:
        changing = ending.on_end == 'nothing' and stack.status in _CHANGING
        return changing and not stack_shell.is_made(ending.reservation)
    return bool(members - membership.asleep(ending.conn, ending.as_service))


def _was_broken_off(ending: Ending) -> bool:
    """Tell whether the lease came to its end before the stack was filled, and before its start."""
    return any(
        each.event_type == model.PREPARE
        and each.reservation_id == ending.reservation.id
        and each.status_reason not in (None, steps.START_FIRST)
        for each in ending.lease.events
    )


def _delete(ending: Ending, stack: 'Stack') -> Wait:
    return ending.once(
        'delete',
        lambda: f'Heat could not delete the stack: {stack.reason}',
        lambda: _ask_to_delete(ending, stack),
    )


def _ask_to_delete(ending: Ending, stack: 'Stack') -> None:
    """Ask with the owner's rights, and with the service's if Heat does not take those.

    It does not if another user of the project updated the stack: see ``check_refresh_cred`` in
    heat/engine/service.py delete_stack. Then it takes a trust from whoever deletes the stack,
    which Keystone refuses to give to one who has a trust only. Heat answers that with 500.
    """
    try:
        stacks.delete(ending.conn, stack)
    except (errors.Refused, errors.Broken) as exc:
        if ending.as_service:
            raise
        LOG.info('Deleting stack %s with the rights of the service: %s', stack.id, exc)
        stacks.delete(ending.service, stack)


def _nothing(ending: Ending, stack: 'Stack') -> None:  # noqa: ARG001
    return None


def _suspend(ending: Ending, stack: 'Stack', tries: int = TRIES) -> Wait | None:
    """Suspend the stack.

    :param tries: failures of anything after which that is left to the members
    """
    if stack.status == 'SUSPEND_COMPLETE':
        return None
    if stack.status.endswith('_IN_PROGRESS') and not _hangs(ending, stack):
        return _wait(ending, stack)
    if ending.failures >= tries:
        LOG.warning('Stack %s is left unsuspended: %s', stack.id, stack.reason)
        return None
    return _ask_to_suspend(ending, stack)


def _ask_to_suspend(ending: Ending, stack: 'Stack') -> Wait:
    """Ask for it. One that goes on for ever is taken over by a living engine."""

    def ask() -> None:
        stacks.act(ending.conn, stack, 'suspend')

    try:
        if stack.status.endswith('_IN_PROGRESS'):
            return ending.ask('suspend', ask)
        return ending.once('suspend', lambda: _unsuspended(stack), ask)
    except errors.Busy:
        return _wait(ending, stack)


def _unsuspended(stack: 'Stack') -> str:
    return f'Heat could not suspend the stack: {stack.reason}'


def _snapshot(ending: Ending, stack: 'Stack') -> Wait | None:
    """Make the snapshot once, and suspend the stack when it is complete or given up."""
    if stack.status.endswith('_IN_PROGRESS'):
        # Heat makes no snapshot in the middle of something, but suspends a stack then.
        return _ask_to_suspend(ending, stack) if _hangs(ending, stack) else _wait(ending, stack)
    found = stacks.find_snapshot(ending.conn, stack, ending.reservation.id)
    if found and found.status == 'COMPLETE':
        return _suspend(ending, stack, 2 * TRIES)
    if ending.failures >= TRIES or (found and _is_left(found, stack)):
        LOG.warning('Stack %s is kept without a snapshot: %s', stack.id, stack.reason)
        return _suspend(ending, stack, 2 * TRIES)
    if found and found.status == 'IN_PROGRESS':
        return _wait(ending, stack)
    if found:
        stacks.delete_snapshot(ending.conn, stack, found.id)
        ending.patience.failed(ending.reservation.id)
        raise exceptions.Transient(f'Heat could not make the snapshot: {found.reason}')
    return _ask_for_snapshot(ending, stack)


def _hangs(ending: Ending, stack: 'Stack') -> bool:
    """Tell whether it is time to take over what an engine may have left."""
    return ending.is_due(VERY_MANY if stack.status == 'SNAPSHOT_IN_PROGRESS' else MANY)


def _is_left(snapshot: stacks.Snapshot, stack: 'Stack') -> bool:
    """Tell whether nobody makes a snapshot any more, because something else was begun.

    Heat deletes none that is IN_PROGRESS (heat/engine/service.py delete_snapshot).
    """
    return snapshot.status == 'IN_PROGRESS' and stack.status.startswith('SUSPEND_')


def _ask_for_snapshot(ending: Ending, stack: 'Stack') -> Wait:
    name = stacks.snapshot_name(ending.prefix, stack, ending.reservation.id)
    try:
        return ending.once(
            'snapshot',
            lambda: f'The snapshot of the stack is gone before it was complete: {stack.reason}',
            lambda: stacks.create_snapshot(ending.conn, stack, name),
        )
    except errors.Busy:
        return _wait(ending, stack)


_STEPS: dict[str, Callable[[Ending, 'Stack'], Wait | None]] = {
    'suspend': _suspend,
    'snapshot': _snapshot,
    'nothing': _nothing,
}
