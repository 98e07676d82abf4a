# SPDX-License-Identifier: Apache-2.0
"""Make Heat take over a stack whose engine died.

Heat shows an action IN_PROGRESS until an engine ends it, and no engine goes on with what a dead
one has left. What an administrator does is to ask for an action once more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oslo_config import cfg

from climate_core.cloud import stacks
from climate_core.plugins import stuck_action_repair
from climate_core.plugins.base import PollAgain

if TYPE_CHECKING:
    from climate_core.cloud.stacks import Snapshot, Stack
    from climate_core.plugins.step_context import StepContext

OPTIONS: Final = (
    cfg.IntOpt(
        'lost_action_minutes',
        default=10,
        min=1,
        help='Minutes after which an action of Heat with a stack counts as lost if nothing of the '
        'stack changes: it is asked for again, and an engine that lives goes on. More than the '
        'longest time that one resource of a template takes.',
    ),
    cfg.IntOpt(
        'lost_snapshot_minutes',
        default=60,
        min=1,
        help='The same for a snapshot of a stack, which is broken off by what is asked for then.',
    ),
)
#: Action -> what an operator types for it, before the id of the stack.
_COMMANDS: Final = {
    'delete': 'openstack stack delete --yes',
    'suspend': 'openstack stack suspend',
    'resume': 'openstack stack resume',
}
#: Explanations of statuses that the user did not ask for.
_MEANINGS: Final = {'UPDATE_IN_PROGRESS': ' (Heat updates a stack to wake what is in it)'}
_UPDATE: Final = 'openstack stack update --existing'


def state(context: 'StepContext', stack: 'Stack') -> tuple[str | None, ...]:
    """Return what changes as long as an engine works on a stack, and on those in it."""
    last = stacks.read_last_event_id(context.conn, stack) if stack.in_progress else None
    return stack.status, stack.updated, last


def doing(stack: 'Stack') -> str:
    """Describe what is waited for."""
    return f'The stack has been {stack.status}{_MEANINGS.get(stack.status, "")}'


def wait(
    context: 'StepContext',
    stack: 'Stack',
    action: str,
    request: Callable[[], None],
    snapshot: 'Snapshot | None' = None,
) -> PollAgain:
    """Wait for what Heat does with a stack; ask for an action when that is lost.

    :param action: the name under which the request is noted
    :param snapshot: one that is waited for although the stack is not in progress
    """
    options = context.options
    slow = snapshot or stack.status == 'SNAPSHOT_IN_PROGRESS'
    minutes = options.lost_snapshot_minutes if slow else options.lost_action_minutes
    repair = stuck_action_repair.RepairStep(
        action,
        'Heat was asked to go on with another engine.',
        request,
        f'{_COMMANDS.get(action, _UPDATE)} {stack.id}',
        asked=action,
        # Heat may wait for ever for a member, as for a volume whose detachment nova-compute did
        # not finish: after some failures the members are ended by themselves.
        is_failure=stack.status == 'DELETE_IN_PROGRESS',
    )
    what = f'The snapshot of the stack has been {snapshot.status}' if snapshot else doing(stack)
    return stuck_action_repair.wait_or_repair(context, what, 60 * minutes, repair)
