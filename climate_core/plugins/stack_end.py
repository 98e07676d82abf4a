# SPDX-License-Identifier: Apache-2.0
"""Take the next step of the end of a reserved stack.

Heat does one thing at a time with a stack, but deletes it in the middle of another. A stack that
is being deleted by its owner is waited for, too: that frees its members and the lease in it.
Snapshots of a stack go with it, so the end action ``snapshot`` keeps the stack, suspended.

Heat suspends no stack of which a resource is broken. After a few tries the stack is left as it is,
and its servers are suspended one by one, see :mod:`climate_core.plugins.own_service_plugin`.

A stack that was never started is deleted, whatever its end action is. A stack whose start failed
may hold data, so its end action applies if a member is active. A stack that its user updates so
that it has neither a lease nor members stays: heat_ext requests ``nothing`` then. A stack that was
created for its lease and is not filled yet is always deleted.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.lease.events import preparation
from climate_core.plugins import own_service_plugin, stack_templates
from climate_core.plugins.base import PollAgain
from climate_core.plugins.step_context import EndContext, RepairStep, StepContext, wait_or_repair

if TYPE_CHECKING:
    from climate_core.cloud.stacks import Snapshot, Stack

LOG = log.getLogger(__name__)

#: Statuses in which Heat may be about to take the lease out of a stack.
_UPDATING = frozenset({'UPDATE_IN_PROGRESS', 'ROLLBACK_IN_PROGRESS'})

#: Failures after which a snapshot is given up, and as many more for the suspension.
MAX_TRIES: Final = 3

RECOVERY_OPTIONS: Final = (
    cfg.IntOpt(
        'lost_action_minutes',
        default=10,
        min=1,
        help='Minutes after which an action of Heat with a stack counts as lost if nothing of the '
        'stack changes: it is requested again, and an engine that is alive continues. More than '
        'the longest time that one resource of a template takes.',
    ),
    cfg.IntOpt(
        'lost_snapshot_minutes',
        default=60,
        min=1,
        help='The same for a snapshot of a stack, which the next request interrupts.',
    ),
)
WAKE: Final = 'update'
RESUME: Final = 'resume'
FILL: Final = 'fill'
#: Heat does not report it: if Keystone rejects its trust, Heat answers an Internal Server Error.
_OTHER_USERS_HINT = (
    'If another user of the project updated the stack, its own user must update it once: '
    'openstack stack update --existing'
)
#: Action -> what an operator types for it, before the id of the stack.
_OPERATOR_COMMANDS: Final = {
    'delete': 'openstack stack delete --yes',
    'suspend': 'openstack stack suspend',
    'resume': 'openstack stack resume',
}
#: Explanations of statuses that the user did not request.
_STATUS_MEANINGS: Final = {'UPDATE_IN_PROGRESS': ' (Heat updates a stack to start its members)'}
_UPDATE_COMMAND: Final = 'openstack stack update --existing'


def take_end_step(context: EndContext, stack: 'Stack') -> PollAgain | None:
    """Take the next step.

    :param stack: as Heat shows it now
    :returns: None when it is done
    :raises climate_core.cloud.errors.Gone: the stack is gone
    :raises climate_core.exceptions.Transient, climate_core.exceptions.Permanent: from Heat
    """
    if stack.status == 'DELETE_COMPLETE':
        return None
    context = context.observe(*observe_stack(context, stack))
    if stack.status == 'DELETE_IN_PROGRESS':
        return wait_for_action(context, stack, 'delete')
    if context.on_end == 'delete' or stack.status == 'DELETE_FAILED' or not _stays(context, stack):
        return _delete(context, stack)
    return _STEPS[context.on_end](context, stack)


def _stays(context: EndContext, stack: 'Stack') -> bool:
    if context.has_run:
        return True
    if preparation.was_interrupted(context.lease, context.reservation):
        return False
    members = {
        each.resource_id
        for each in context.lease.live
        if each.params.get(own_service_plugin.STACK_ID_KEY) == context.resource_id
    }
    if not members:
        changing = context.on_end == 'nothing' and stack.status in _UPDATING
        return changing and not stack_templates.is_made(context.reservation)
    return bool(
        members - own_service_plugin.list_reserved_members(context.conn, context.as_service)
    )


def _delete(context: EndContext, stack: 'Stack') -> PollAgain:
    return context.once(
        'delete',
        f'Heat could not delete the stack: {stack.reason}',
        lambda: ask_to_delete(context, stack),
    )


def ask_to_delete(context: StepContext, stack: 'Stack') -> None:
    """Request with the owner's rights, and with the service's if Heat does not accept those.

    It does not if another user of the project updated the stack: see ``check_refresh_cred`` in
    heat/engine/service.py delete_stack. Then it takes a trust from the user who deletes the stack,
    which Keystone rejects for a token of a trust. Heat answers that with 500.
    """
    try:
        stacks.delete(context.conn, stack)
    except (errors.Forbidden, errors.Broken) as exc:
        if context.as_service:
            raise
        LOG.info('Deleting stack %s with the rights of the service: %s', stack.id, exc)
        stacks.delete(context.service, stack)


def request_action(what: str, context: StepContext, stack: 'Stack') -> None:
    """Request the deletion of a stack, an action, the update that starts it, or its content."""
    if what == 'delete':
        ask_to_delete(context, stack)
        return
    try:
        if what == FILL:
            stack_templates.fill(context.conn, stack, context.reservation)
        elif what == WAKE:
            stacks.update_existing(context.conn, stack)
        else:
            stacks.act(context.conn, stack, what)
    except errors.Broken as exc:
        raise exceptions.Transient(f'{exc}. {_OTHER_USERS_HINT}') from exc


@dataclasses.dataclass(frozen=True, slots=True)
class _StackRepair(RepairStep):
    """Request an action of a stack again."""

    stack: 'Stack' = dataclasses.field(kw_only=True)
    action: str = dataclasses.field(kw_only=True)

    def run(self, context: StepContext) -> None:
        request_action(self.action, context, self.stack)


def _keep(context: EndContext, stack: 'Stack') -> None:  # noqa: ARG001
    return None


def _suspend(context: EndContext, stack: 'Stack', tries: int = MAX_TRIES) -> PollAgain | None:
    """Suspend the stack.

    :param tries: failures of anything after which that is left to the members
    """
    if stack.status == 'SUSPEND_COMPLETE':
        return None
    if stack.in_progress:
        return _take_over(context, stack)
    if context.progress.failures >= tries:
        LOG.warning('Stack %s is left unsuspended: %s', stack.id, stack.reason)
        return None
    try:
        return context.once(
            'suspend',
            f'Heat could not suspend the stack: {stack.reason}',
            lambda: stacks.act(context.conn, stack, 'suspend'),
        )
    except errors.Busy:
        return context.put_off(describe_progress(stack))


def _take_over(
    context: EndContext, stack: 'Stack', snapshot: stacks.Snapshot | None = None
) -> PollAgain:
    """Wait for an action of Heat on a stack; suspend the stack when the action is lost.

    Heat creates no snapshot during another action, but suspends a stack then.

    :param snapshot: the awaited snapshot if the stack does not show that Heat creates it: an
        engine died before it began, or after its last change of the stack
    """
    return wait_for_action(context, stack, 'suspend', snapshot=snapshot)


def _snapshot(context: EndContext, stack: 'Stack') -> PollAgain | None:
    """Create the snapshot once, and suspend the stack when it is complete or abandoned."""
    if stack.in_progress:
        return _take_over(context, stack)
    found = stacks.find_snapshot(context.conn, stack, context.reservation.id)
    if found and found.status == 'COMPLETE':
        return _suspend(context, stack, 2 * MAX_TRIES)
    if context.progress.failures >= MAX_TRIES or (found and _is_left(found, stack)):
        LOG.warning('Stack %s is kept without a snapshot: %s', stack.id, stack.reason)
        return _suspend(context, stack, 2 * MAX_TRIES)
    if found and found.status == 'IN_PROGRESS':
        return _take_over(context, stack, snapshot=found)
    if found:
        stacks.delete_snapshot(context.conn, stack, found.id)
        raise context.failure(f'Heat could not create the snapshot: {found.reason}')
    return _ask_for_snapshot(context, stack)


def _is_left(snapshot: stacks.Snapshot, stack: 'Stack') -> bool:
    """Return whether no engine creates a snapshot any more, because another action was begun.

    Heat deletes none that is IN_PROGRESS (heat/engine/service.py delete_snapshot).
    """
    return snapshot.status == 'IN_PROGRESS' and stack.status.startswith('SUSPEND_')


def _ask_for_snapshot(context: EndContext, stack: 'Stack') -> PollAgain:
    name = stacks.build_snapshot_name(context.prefix, stack, context.reservation.id)
    try:
        return context.once(
            'snapshot',
            f'The snapshot of the stack was deleted before it was complete: {stack.reason}',
            lambda: stacks.create_snapshot(context.conn, stack, name),
        )
    except errors.Busy:
        return context.put_off(describe_progress(stack))


_STEPS: dict[str, Callable[[EndContext, 'Stack'], PollAgain | None]] = {
    'suspend': _suspend,
    'snapshot': _snapshot,
    'nothing': _keep,
}


def observe_stack(context: StepContext, stack: 'Stack') -> tuple[str | None, ...]:
    """Return what changes as long as an engine works on a stack, and on those in it."""
    last = stacks.read_last_event_id(context.conn, stack) if stack.in_progress else None
    return stack.status, stack.updated, last


def describe_progress(stack: 'Stack') -> str:
    """Describe the action that is in progress."""
    return f'The stack has been {stack.status}{_STATUS_MEANINGS.get(stack.status, "")}'


def wait_for_action(
    context: StepContext,
    stack: 'Stack',
    action: str,
    request_name: str | None = None,
    snapshot: 'Snapshot | None' = None,
) -> PollAgain:
    """Wait for an action of Heat on a stack; request an action when it is lost.

    :param request_name: the name under which the request is recorded, if not that of the action
    :param snapshot: one that is waited for although the stack is not in progress
    """
    options = context.options
    slow = snapshot or stack.status == 'SNAPSHOT_IN_PROGRESS'
    minutes = options.lost_snapshot_minutes if slow else options.lost_action_minutes
    repair = _StackRepair(
        request_name or action,
        'Heat was requested to continue with another engine.',
        f'{_OPERATOR_COMMANDS.get(action, _UPDATE_COMMAND)} {stack.id}',
        request_name=request_name or action,
        stack=stack,
        action=action,
        # Heat may wait without limit for a member, as for a volume whose detachment nova-compute
        # did not finish: after some failures the members are ended by themselves.
        is_failure=stack.status == 'DELETE_IN_PROGRESS',
    )
    what = (
        f'The snapshot of the stack has been {snapshot.status}'
        if snapshot
        else describe_progress(stack)
    )
    return wait_or_repair(context, what, 60 * minutes, repair)
