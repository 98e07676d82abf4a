# SPDX-License-Identifier: Apache-2.0
"""``virtual:stack``: a Heat stack with servers and volumes that are reserved.

heat_ext has built them, asleep; each is a reservation of the same lease and a member of the stack,
see :mod:`climate_core.plugins.parent_stacks`. Here the stack is woken at the start of the lease,
by an update with what it has (``openstack stack update --existing``): Heat walks through it in the
order of what depends on what, nested stacks too, and the classes of heat_ext wake what is asleep.
That it is about to be asked for is written down first, so no other manager asks again.

A stack that its user suspended before is resumed first, for Heat updates none that is suspended.

With convergence Heat takes the update in the middle of whatever else it does with a stack, which
is how an engine takes over what another one has left. What is on its way is waited for first.

The update is asked for with the rights of the lease's owner. Heat then works with the rights that
the stack's own user left with it, and takes those of another user only from a token that may
delegate (heat/engine/stack.py ``_check_refresh_cred``), which the token of a trust may not: the
lease must be of the user who made the stack. For the same reason a stack that is made here, from a
template, is made in two steps: see :mod:`climate_core.plugins.stack.template_stack`.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.plugins import parent_stacks, progress, rights, wakeable
from climate_core.plugins.base import Claimed, Wait
from climate_core.plugins.progress import Progress
from climate_core.plugins.stack import end_steps, template_stack
from climate_core.plugins.step_context import EndContext, StepContext

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.cloud.stacks import Stack
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

_WAKE, _RESUME, _FILL = 'update', 'resume', 'fill'
#: Heat does not say it: that Keystone refuses it a trust comes as an Internal Server Error.
_OTHERS = (
    'If another user of the project updated the stack, its own user has to update it once: '
    'openstack stack update --existing'
)
#: What a stack that is suspended, or was, needs before it takes an update. What hangs in the
#: middle of a suspension must be suspended first: Heat resumes nothing else
#: (heat/engine/resource.py resume).
_BEFORE: Mapping[str, str] = {
    'SUSPEND_IN_PROGRESS': 'suspend',
    'SUSPEND_COMPLETE': _RESUME,
    'SUSPEND_FAILED': _RESUME,
    'RESUME_IN_PROGRESS': _RESUME,
}


class StackPlugin(wakeable.WakeablePlugin):
    """Reserve stacks."""

    resource_type = parent_stacks.STACK
    title = 'Stack'
    description = 'A Heat stack whose reserved servers and volumes are woken together, in order.'
    rank = 5
    rank_at_end = 100
    owner_only = True
    options = (
        cfg.StrOpt(
            'on_end',
            default='delete',
            choices=end_steps.CHOICES,
            help='What happens to a stack at the end of its lease, unless the reservation says '
            'it. A stack that was never woken is always deleted.',
        ),
        cfg.StrOpt(
            'snapshot_prefix',
            default='reserved_',
            help='The snapshot that is made at the end is called this plus the name of the stack '
            'and the id of the reservation.',
        ),
    )
    schema = {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        **template_stack.SCHEMA,
        'on_end': {'type': 'string', 'enum': [name for name, _ in end_steps.CHOICES]},
    }
    required: ClassVar[Sequence[str]] = ()
    calls: ClassVar[wakeable.Calls] = stacks
    gone = 'The stack was deleted or abandoned'
    prefix = 'snapshot_prefix'

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        return self.reserve_for(context, '', values)

    def reserve_for(
        self, context: 'RequestContext', lease_id: str, values: Mapping[str, Any]
    ) -> Claimed:
        user = self.cloud.user(context)
        if template_stack.is_requested(values):
            params = {**template_stack.check(user, lease_id, values), **self._params(values)}
            # It has no id before it is made.
            return Claimed(f'new:{values["name"]}', params, {'stacks': 1})
        wanted = values['resource_id']
        with errors.for_user('resource_id'):
            stack = stacks.get(user, wanted)
            if stack.project not in (None, context.project_id):
                raise errors.Gone(f'There is no stack {wanted} in this project.')
            _check_state(user, stack)
            # Heat asks in the name of the stack's user, before it builds the first member.
            if not context.by_service:
                _check_owner(context, stack)
                _check_asleep(user, stack)
        return Claimed(resource_id=stack.id, params=self._params(values), amounts={'stacks': 1})

    def matches_request(self, reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
        if 'template' not in values:
            return super().matches_request(reservation, values)
        return template_stack.is_same(reservation, values)

    def make(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        claimed: Claimed,
    ) -> Claimed:
        if 'template' not in values:
            return claimed
        return template_stack.make(self.cloud.user(context), lease_id, values, claimed)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        return self._start(self._prepare, lease, reservation)

    def _prepare(self, context: StepContext, stack: 'Stack') -> Wait | None:
        context = context.seeing(stack.status, stack.updated)
        if stack.status == 'DELETE_COMPLETE':
            raise errors.Gone(self.gone)
        try:
            if template_stack.is_unfilled(stack) and not stack.status.startswith('DELETE_'):
                template_stack.fill(context.conn, stack, context.reservation)
                return context.asked(_FILL)
            if stack.status.endswith('_IN_PROGRESS'):
                return _take_over(context, stack)
        except errors.Busy:
            return context.put_off(_doing(stack))
        if _went_wrong(stack):
            raise exceptions.Permanent(f'Heat could not make the stack: {stack.reason}')
        if template_stack.FILLED in stack.tags and not _has_asleep(context.conn, stack):
            raise exceptions.Permanent(
                'The template has no server and no volume that could be held. With hold start it '
                'is made at the start.'
            )
        return None

    def rollback_prepare(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        params = {**reservation.params, 'on_end': 'delete'}
        return self.end(lease, dataclasses.replace(reservation, params=params))

    def list_unleased(self) -> Iterable[str]:
        conn = self.cloud.service()
        return stacks.every_id(conn, template_stack.UNFILLED) if stacks.offered(conn) else ()

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        try:
            stack = stacks.get(self.cloud.service(), resource_id)
        except errors.Gone:
            return None
        return stack.changed_at if template_stack.is_unfilled(stack) else None

    def discard(self, resource_id: str) -> None:
        conn = self.cloud.service()
        try:
            stack = stacks.get(conn, resource_id)
            if not template_stack.is_unfilled(stack):
                raise exceptions.Permanent(f'The stack {stack.name} was filled meanwhile.')
            stacks.delete(conn, stack)
        except errors.Gone:
            return

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:
        """Keep members waiting only, and those only until the stack could not be deleted often.

        What a member holds is freed by its own end action then. A stack that is to be kept keeps
        its members waiting, for their own end may be a deletion.
        """
        if other.params.get(parent_stacks.KEY) != own.resource_id:
            return False
        failures = Progress.load(own.progress, progress.END, self.now()).failures
        return failures < end_steps.TRIES or own.params.get('on_end') in parent_stacks.KEPT

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        wait = super().wake_up(lease, reservation)
        if wait is None and parent_stacks.all_asleep(
            rights.owner(self.cloud, lease), lease, reservation
        ):
            # Not a failure: they may all be standby members of groups, which is for Heat to know.
            LOG.warning(
                'Heat has updated stack %s and woken none of its members. Unless they are '
                'standby members of groups, Heat has lost climate.yaml of its environment_dir',
                reservation.resource_id,
            )
        return wait

    def _wake(self, context: StepContext, stack: 'Stack') -> Wait | None:
        if stack.status == 'DELETE_COMPLETE':
            raise errors.Gone(self.gone)
        if stack.status == 'DELETE_FAILED':
            raise exceptions.Transient(f'The stack is half deleted: {stack.reason}')
        context = context.seeing(stack.status, stack.updated)
        if stack.status.endswith('_IN_PROGRESS') and not _hangs(context, stack):
            return context.wait(_doing(stack))
        if stack.status == 'UPDATE_COMPLETE' and _was_taken(_WAKE, context, stack):
            return None
        what = _FILL if template_stack.is_unfilled(stack) else _WAKE
        return _ask(_BEFORE.get(stack.status, what), context, stack)

    def _end(self, context: EndContext) -> Wait | None:
        return end_steps.end(context)

    def _is_there(self, stack: 'Stack') -> bool:
        return stack.status != 'DELETE_COMPLETE'


def _check_state(user: 'connection.Connection', stack: 'Stack') -> None:
    """Refuse a nested stack, and one that is broken or being deleted.

    :raises climate_core.exceptions.Permanent: it is
    """
    if stack.parent:
        top = stacks.root(user, stack)
        raise exceptions.Permanent(
            f'The stack {stack.name} is a part of the stack {top.name} ({top.id}): reserve that.'
        )
    if stack.status.startswith('DELETE_') or stack.status.endswith('_FAILED'):
        raise exceptions.Permanent(
            f'The stack {stack.name} is {stack.status} and cannot be reserved: {stack.reason}'
        )


def _doing(stack: 'Stack') -> str:
    return f'The stack has been {stack.status}'


def _hangs(context: StepContext, stack: 'Stack') -> bool:
    """Tell whether it is time to ask: no engine goes on with what a dead one has left."""
    if stack.status == 'DELETE_IN_PROGRESS':
        return False
    slow = stack.status == 'SNAPSHOT_IN_PROGRESS'
    return context.is_due(end_steps.SNAPSHOT_HANGS if slow else end_steps.HANGS)


def _take_over(context: StepContext, stack: 'Stack') -> Wait:
    """Wait for what Heat does; after a long time ask once more, for another engine to go on."""
    if not _hangs(context, stack):
        return context.wait(_doing(stack))
    wait = context.put_off(_doing(stack))
    try:
        stacks.wake(context.conn, stack)
    except exceptions.PluginFailure as exc:
        exc.progress = wait.progress
        raise
    return wait


def _intention(what: str, stack: 'Stack | None' = None) -> str:
    """Name what is about to be asked of a stack as it is; without one, of any."""
    return f'{what} of a stack of {stack.updated if stack else ""}'


def _was_taken(what: str, context: StepContext, stack: 'Stack') -> bool:
    """Tell whether Heat took what was asked for last.

    If its answer was lost, or the manager that asked, an action that began since then tells it.
    """
    last = context.progress.asked or ''
    lost = last.startswith(_intention(what)) and last != _intention(what, stack)
    return lost or last == what


def _ask(what: str, context: StepContext, stack: 'Stack') -> Wait:
    """Ask Heat for an update or an action, which are what a failed one is followed by."""
    taken = _was_taken(what, context, stack) or _was_taken(_FILL, context, stack)
    if taken and _went_wrong(stack):
        raise context.failure(f'The stack could not be woken: {stack.reason}')
    intention = _intention(what, stack)
    if context.progress.asked != intention:
        return context.rest() or context.intend(intention)
    try:
        _request(what, context, stack)
    except errors.Busy:
        return context.forget().put_off(_doing(stack))
    except errors.Refused:
        raise
    except errors.Broken as exc:
        raise exceptions.Transient(f'{exc}. {_OTHERS}') from exc
    except exceptions.Permanent as exc:
        # Heat found a mistake, perhaps because a service did not answer: it may be repaired.
        raise exceptions.Transient(str(exc), context.forget().progress.dump()) from exc
    return context.asked(what)


def _request(what: str, context: StepContext, stack: 'Stack') -> None:
    if what == _FILL:
        template_stack.fill(context.conn, stack, context.reservation)
    elif what == _WAKE:
        stacks.wake(context.conn, stack)
    else:
        stacks.act(context.conn, stack, what)


def _went_wrong(stack: 'Stack') -> bool:
    """Tell whether the last action failed, also if Heat took it back, as some stacks want it."""
    return stack.status.endswith('_FAILED') or stack.status.startswith('ROLLBACK_')


def _check_owner(context: 'RequestContext', stack: 'Stack') -> None:
    """Refuse what Heat would refuse at the start only.

    :raises climate_core.exceptions.Permanent: it is the stack of another user
    """
    if stack.owner and context.user_name and stack.owner != context.user_name:
        raise exceptions.Permanent(
            f'The stack {stack.name} was made by {stack.owner}, and Heat would not let anybody '
            f'else wake it with a lease: it has to be reserved by {stack.owner}.'
        )


def _has_asleep(conn: 'connection.Connection', stack: 'Stack') -> bool:
    waiting = parent_stacks.asleep(conn, every_project=False)
    return not waiting.isdisjoint(stacks.physical_ids(conn, stack))


def _check_asleep(user: 'connection.Connection', stack: 'Stack') -> None:
    """Refuse a stack without a server or a volume that waits for its lease.

    :raises climate_core.exceptions.Permanent: it has none
    """
    if not _has_asleep(user, stack):
        raise exceptions.Permanent(
            f'The stack {stack.name} has no server that is RESERVED and no volume that is '
            'lease-reserved. Create it in an environment with climate_lease_id, or with the hint '
            'reserved=True of its servers and volumes.'
        )
