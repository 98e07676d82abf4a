# SPDX-License-Identifier: Apache-2.0
"""``virtual:stack``: a Heat stack with servers and volumes that are reserved.

heat_ext has built them, reserved; each is a reservation of the same lease and a member of the
stack, see :mod:`climate_core.plugins.own_service_plugin`. The stack is started by an update with
what it has (``openstack stack update --existing``): Heat walks through it in the order of what
depends on what, nested stacks too, and the classes of heat_ext start what is reserved. The
intention is written to the progress of the reservation first, so that no other manager requests it
again; an action that hangs is requested again.

Heat works with the rights that the stack's own user left with it, and takes those of another user
only from a token that may delegate (heat/engine/stack.py ``_check_refresh_cred``), which the token
of a trust may not: the lease must be of the user who created the stack. For the same reason a
stack of a template is created in two steps: see :mod:`climate_core.plugins.stack_templates`.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.conf import cloud as cloud_conf
from climate_core.plugins import own_service_plugin, stack_end, stack_templates, step_context
from climate_core.plugins.base import NotificationSource, PollAgain, ReservedResource
from climate_core.plugins.step_context import EndContext, Progress, StepContext

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.cloud.stacks import Stack
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

#: What a stack that is suspended, or was, needs before it takes an update. What hangs in the
#: middle of a suspension must be suspended first: Heat resumes nothing else
#: (heat/engine/resource.py resume).
_BEFORE: Mapping[str, str] = {
    'SUSPEND_IN_PROGRESS': 'suspend',
    'SUSPEND_COMPLETE': stack_end.RESUME,
    'SUSPEND_FAILED': stack_end.RESUME,
    'RESUME_IN_PROGRESS': stack_end.RESUME,
}


class StackPlugin(own_service_plugin.CreatedForLeasePlugin):
    """Reserve stacks."""

    resource_type = resource_types.STACK
    title = 'Stack'
    service = 'heat'
    description = 'A Heat stack whose reserved servers and volumes are started together, in order.'
    # After hosts, which its servers may run on.
    rank = 6
    rank_at_end = 100
    options = (
        own_service_plugin.on_end_option(
            resource_types.ON_END[resource_types.STACK], 'stack', 'A stack that was never started'
        ),
        own_service_plugin.first_poll_option('Heat', 'heat_notifications'),
        cfg.StrOpt(
            'snapshot_prefix',
            default='reserved_',
            help='Prefix of the name of the snapshot that is created at the end; the name of the '
            'stack and the id of the reservation follow.',
        ),
        own_service_plugin.lead_option(
            'the stacks of its templates are filled, so that they can be started in time.'
        ),
        *stack_end.RECOVERY_OPTIONS,
    )
    schema = {
        **own_service_plugin.end_action_schema(resource_types.ON_END[resource_types.STACK]),
        **stack_templates.STACK_SCHEMA,
    }
    required: ClassVar[Sequence[str]] = ()
    calls = stacks
    # Nested stacks notify of their deletion, too, but are not reserved. An abandoned stack is
    # notified as deleted (heat/engine/notification/stack.py, heat/engine/stack.py
    # _send_notification_and_add_event).
    notifications = NotificationSource(
        group=cloud_conf.HEAT_NOTIFICATIONS.GROUP,
        ids=('stack_identity',),
        lost=('orchestration.stack.delete.end',),
        done=(
            'orchestration.stack.create.end',
            'orchestration.stack.delete.end',
            'orchestration.stack.resume.end',
            'orchestration.stack.snapshot.end',
            'orchestration.stack.suspend.end',
            'orchestration.stack.update.end',
        ),
    )
    gone_reason = 'The stack was deleted or abandoned'
    prefix = 'snapshot_prefix'

    def reserve(
        self, context: 'RequestContext', values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        user = self.cloud.user(context)
        if stack_templates.is_requested(values):
            params = stack_templates.check_request(self.conf, user, lease_id, values)
            params |= self._normalized_params(values)
            # It has no id before it is created.
            return ReservedResource(f'new:{values["name"]}', params, {'stacks': 1})
        stack_id = values['resource_id']
        with errors.for_user('resource_id'):
            stack = stacks.get(user, stack_id)
            if stack.project not in (None, context.project_id):
                raise errors.Gone(f'There is no stack {stack_id} in this project.')
            _check(context, user, stack)
        return ReservedResource(
            resource_id=stack.id, params=self._normalized_params(values), amounts={'stacks': 1}
        )

    def request_keys(self, lease_id: str, values: Mapping[str, Any]) -> Sequence[Hashable]:
        if 'template' not in values:
            return super().request_keys(lease_id, values)
        return [('name', values.get('name'))] if 'resource_id' not in values else []

    def reservation_keys(self, reservation: 'Reservation') -> Sequence[Hashable]:
        keys = super().reservation_keys(reservation)
        if reservation.status == 'error' or 'name' not in reservation.params:
            return keys
        return [*keys, ('name', reservation.params['name'])]

    def check_match(self, reservation: 'Reservation', values: Mapping[str, Any]) -> None:
        if 'template' in values:
            stack_templates.check_same(self.conf, reservation, values)

    def make(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        reserved: ReservedResource,
    ) -> ReservedResource:
        if 'template' not in values:
            return reserved
        made = stack_templates.create_unfilled(
            self.cloud.user(context), lease_id, values, reserved
        )
        return dataclasses.replace(made, prepare_before=self._lead_time)

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        return self._take_step(self._prepare, lease, reservation)

    def _prepare(self, context: StepContext, stack: 'Stack') -> PollAgain | None:
        if stack.status == 'DELETE_COMPLETE':
            raise errors.Gone(self.gone_reason)
        context = context.observe(*stack_end.observe_stack(context, stack))
        if stack_templates.is_unfilled(stack) and not stack.status.startswith('DELETE_'):
            return self._fill(context, stack)
        if stack.status == 'DELETE_IN_PROGRESS':
            return stack_end.wait_for_action(context, stack, 'delete')
        if stack.in_progress:
            # Not recorded as the update that starts the stack, which is requested at the start.
            return stack_end.wait_for_action(
                context, stack, stack_end.WAKE, request_name=stack_end.FILL
            )
        if _went_wrong(stack):
            raise exceptions.Permanent(f'Heat could not create the stack: {stack.reason}')
        if stack_templates.FILLED in stack.tags and not _has_reserved_members(context.conn, stack):
            raise exceptions.Permanent(
                'The template has no server and no volume that could be reserved. With hold start '
                'it is created at the start.'
            )
        return None

    def _fill(self, context: StepContext, stack: 'Stack') -> PollAgain | None:
        """Request the update that fills a stack; read the stack again if Heat rejects it."""
        try:
            stack_templates.fill(context.conn, stack, context.reservation)
        except errors.Busy:
            return context.put_off(stack_end.describe_progress(stack))
        except exceptions.Permanent:
            # Heat fills no stack whose deletion its user has requested since it was read.
            seen = stacks.get(context.conn, stack.id)
            if not seen.status.startswith('DELETE_'):
                raise
            return self._prepare(context, seen)
        return context.first_wait(stack_end.FILL)

    def list_unleased(self) -> Iterable[str]:
        conn = self.cloud.service()
        return (
            stacks.list_ids(conn, stack_templates.UNFILLED) if stacks.HEAT.is_offered(conn) else ()
        )

    def _reserved_since(self, stack: 'Stack') -> datetime.datetime | None:
        return stack.changed_at if stack_templates.is_unfilled(stack) else None

    def discard(self, resource_id: str) -> None:
        conn = self.cloud.service()
        with contextlib.suppress(errors.Gone):
            stack = stacks.get(conn, resource_id)
            if not stack_templates.is_unfilled(stack):
                raise exceptions.Permanent(
                    f'The stack {stack.name} was filled by another update than that of its lease.'
                )
            stacks.delete(conn, stack)

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:
        """Block members only, and only until the deletion of the stack has failed several times.

        Their own end actions release their capacity then, unless the stack is to be kept.
        """
        if other.params.get(own_service_plugin.STACK_ID_KEY) != own.resource_id:
            return False
        failures = Progress.load(own.progress, step_context.END, self.now()).failures
        return (
            failures < stack_end.MAX_TRIES
            or own.params.get('on_end') in own_service_plugin.STACK_KEEPING_END_ACTIONS
        )

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        wait = super().start(lease, reservation)
        if wait is None and own_service_plugin.are_all_members_reserved(
            step_context.connect_as_owner(self.cloud, lease), lease, reservation
        ):
            # Not a failure: they may all be standby members of groups, which only Heat knows.
            LOG.warning(
                'Heat has updated stack %s and started none of its members. Unless they are '
                'standby members of groups, Heat has lost climate.yaml of its environment_dir',
                reservation.resource_id,
            )
        return wait

    def _wake(self, context: StepContext, stack: 'Stack') -> PollAgain | None:
        if stack.status == 'DELETE_COMPLETE':
            raise errors.Gone(self.gone_reason)
        if stack.status == 'DELETE_FAILED':
            raise exceptions.Transient(f'The stack is only partly deleted: {stack.reason}')
        context = context.observe(*stack_end.observe_stack(context, stack))
        if stack.status == 'DELETE_IN_PROGRESS':
            return stack_end.wait_for_action(context, stack, 'delete')
        if stack.status == 'UPDATE_COMPLETE' and _was_accepted(stack_end.WAKE, context, stack):
            return None
        update = stack_end.FILL if stack_templates.is_unfilled(stack) else stack_end.WAKE
        what = _BEFORE.get(stack.status, update)
        if stack.in_progress:
            return stack_end.wait_for_action(context, stack, what)
        return _request_update(what, context, stack)

    def _end(self, context: EndContext, stack: 'Stack') -> PollAgain | None:
        return stack_end.take_end_step(context, stack)

    def _lost_reason(
        self,
        reservation: 'Reservation',  # noqa: ARG002
        stack: 'Stack',
    ) -> str | None:
        return self._was_deleted if stack.status == 'DELETE_COMPLETE' else None


def _check(context: 'RequestContext', user: 'connections.Connection', stack: 'Stack') -> None:
    """Reject a stack that cannot be started: a nested one, a broken one, another user's.

    :raises climate_core.exceptions.Permanent: it is that, or nothing in it waits for its lease
    """
    name = stack.name
    if stack.parent:
        top = stacks.find_root(user, stack)
        raise exceptions.Permanent(
            f'The stack {name} is a part of the stack {top.name} ({top.id}): reserve that.'
        )
    if stack.status.startswith('DELETE_') or stack.status.endswith('_FAILED'):
        raise exceptions.Permanent(
            f'The stack {name} is {stack.status} and cannot be reserved: {stack.reason}'
        )
    # Heat sends the request in the name of the stack's user, before it builds the first member.
    if context.by_service:
        return
    if stack.owner and context.user_name and stack.owner != context.user_name:
        # Heat would reject it only at the start.
        raise exceptions.Permanent(
            f'The stack {name} was created by {stack.owner}, and Heat lets no other user start it '
            f'with a lease: it must be reserved by {stack.owner}.'
        )
    if not _has_reserved_members(user, stack):
        raise exceptions.Permanent(
            f'The stack {name} has no server that is RESERVED and no volume that is '
            'lease-reserved. Create it in an environment with climate_lease_id, or with the hint '
            'reserved=True of its servers and volumes.'
        )


def _intention(what: str, stack: 'Stack | None' = None) -> str:
    """Return the name of a request about a stack as it is; without a stack, of any."""
    return f'{what} of a stack of {stack.updated if stack else ""}'


def _was_accepted(what: str, context: StepContext, stack: 'Stack') -> bool:
    """Return whether Heat accepted the last request.

    If its answer was lost, or the manager died, an action that began since then shows it.
    """
    last = context.progress.asked or ''
    lost = last.startswith(_intention(what)) and last != _intention(what, stack)
    return lost or last == what


def _request_update(what: str, context: StepContext, stack: 'Stack') -> PollAgain:
    """Request an update or an action from Heat, which also follow a failed one."""
    accepted = _was_accepted(what, context, stack) or _was_accepted(stack_end.FILL, context, stack)
    if accepted and _went_wrong(stack):
        raise context.failure(f'The stack could not be started: {stack.reason}')
    intention = _intention(what, stack)
    if context.progress.asked != intention:
        return context.rest() or context.intend(intention)
    try:
        stack_end.request_action(what, context, stack)
    except errors.Busy:
        return context.note(None).put_off(stack_end.describe_progress(stack))
    except errors.Forbidden:
        raise
    except exceptions.Permanent as exc:
        # Heat found an error, perhaps because a service did not answer: it may be repaired.
        raise exceptions.Transient(str(exc), context.note(None).progress.dump()) from exc
    return context.first_wait(what)


def _went_wrong(stack: 'Stack') -> bool:
    """Return whether the last action failed, also if Heat rolled it back on request."""
    return stack.status.endswith('_FAILED') or stack.status.startswith('ROLLBACK_')


def _has_reserved_members(conn: 'connections.Connection', stack: 'Stack') -> bool:
    waiting = own_service_plugin.list_reserved_members(conn, all_projects=False)
    return not waiting.isdisjoint(stacks.list_physical_ids(conn, stack))
