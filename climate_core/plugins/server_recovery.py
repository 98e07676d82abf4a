# SPDX-License-Identifier: Apache-2.0
"""Wait for the tasks and builds of Nova, and recover those that are lost.

Nova sets ``task_state`` before it sends a message, and rejects what conflicts with it. When the
message is lost, or the process that worked on it died, the task stays forever. An administrator
then uses os-resetState, and repeats the request.

Nova lists a server with its tags as soon as it has answered, before there is a host for it
(nova/objects/build_request.py ``_pass_exact_filters``).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import pool_capacity, provisioned_plugin, server_spec
from climate_core.plugins.base import PollAgain
from climate_core.plugins.step_context import (
    RepairStep,
    StepContext,
    wait_for_operator,
    wait_or_repair,
)

if TYPE_CHECKING:
    from climate_core.cloud.services import Copy
    from climate_core.lease.model import Reservation
    from climate_core.plugins.step_context import EndContext

LOG = log.getLogger(__name__)

#: Those of the end.
END_RECOVERY_OPTIONS: Final = (
    cfg.IntOpt(
        'lost_delete_minutes',
        default=10,
        min=1,
        help='Minutes after which the deletion of a server that does not change counts as lost: '
        'its state is reset and it is deleted again.',
    ),
    cfg.IntOpt(
        'lost_task_minutes',
        default=20,
        min=1,
        help='Minutes after which another task of a server that does not change counts as lost '
        '(powering-off, suspending ...): its state is reset, and the end continues; at the start '
        'it is reset to error. The same applies to a build that no host has. After the same time '
        'a failing end no longer blocks the resources of the lease that do not depend on the '
        'server.',
    ),
    cfg.IntOpt(
        'lost_upload_minutes',
        default=180,
        min=1,
        help='The same for a task that uploads an image, and whose image does not change, or that '
        'copies one to a host (unshelving, rebuilding ...), and for an image that no process '
        'uploads any more: the image is deleted and recreated.',
    ),
    cfg.IntOpt(
        'lost_move_minutes',
        default=720,
        min=1,
        help='The same for a server that is resized or migrated. Nova does not show how much of a '
        'disk is copied, so this must be more than the longest move takes.',
    ),
    cfg.IntOpt(
        'lost_start_minutes',
        default=180,
        min=1,
        help='Minutes after which a server that its host has not started yet and that does not '
        'change counts as lost: at the end of a lease it is deleted, as it never ran; at the '
        'start its state is reset to error. More than the copy of the largest image to a host '
        'takes.',
    ),
)
RECOVERY_OPTIONS: Final = (
    cfg.IntOpt(
        'lost_wake_up_seconds',
        default=40,
        min=1,
        help='Seconds after which a wake-up that no nova-compute has begun is requested again. '
        'More than [climate] wake_up_timeout of Nova.',
    ),
    cfg.IntOpt(
        'lost_build_minutes',
        default=10,
        min=1,
        help='Minutes after which the request for a server that is created for its lease counts '
        'as lost, if no host has it yet: the server is deleted and recreated. A server that a '
        'host has is left to [DEFAULT] instance_build_timeout of Nova.',
    ),
    *END_RECOVERY_OPTIONS,
)
#: What the tasks begin with that upload an image, those that copy one to a host, and those that
#: move a server (nova/compute/task_states.py).
_UPLOADS: Final = ('image_', 'shelving')
_COPIES: Final = (*_UPLOADS, 'unshelving', 'rebuild', 'rescuing', 'spawning')
_MOVES: Final = ('resize_', 'migrating')
#: The message of Nova if there is no host (nova/exception.py NoValidHost).
_NO_HOST: Final = 'No valid host'
_BUILDING: Final = frozenset({'BUILD', 'UNKNOWN'})
#: The recorded request while Nova creates an image.
IMAGE_REQUEST: Final = 'image'
#: The recorded request when the state of a server was reset whose end continues.
RESET_REQUEST: Final = 'reset_state'
#: The recorded request when the state of a server was reset that did not start.
ABANDONED_START: Final = 'give_up'


_RESET_TO_ERROR: Final = 'os-resetState', {'state': 'error'}
_DELETE: Final = 'delete', None


@dataclasses.dataclass(frozen=True, slots=True)
class _ServerRepair(RepairStep):
    """Requests to Nova about a server; its state is reset with the rights of the service.

    :param requests: actions with their arguments, ``delete``, or ``delete_image`` with an id
    """

    requests: Sequence[tuple[str, Any]] = dataclasses.field(kw_only=True)

    def run(self, context: StepContext) -> None:
        for action, argument in self.requests:
            if action == 'delete':
                servers.delete(context.conn, context.resource_id)
            elif action == 'delete_image':
                servers.delete_image(context.conn, argument)
            else:
                conn = context.service if action == 'os-resetState' else context.conn
                servers.act(conn, context.resource_id, action, argument)


def repeat_wake_up(context: StepContext) -> PollAgain:
    """Wait for nova-compute to begin a wake-up; request it again if it shows no sign of life.

    That is safe however often it is done: see nova_ext/api/wake_up.py.
    """
    repair = _ServerRepair(
        'wake_up', 'it was requested again.', 'climate-manage repair', requests=[('wake_up', {})]
    )
    doing = 'No nova-compute has begun to start the server'
    return wait_or_repair(context, doing, context.options.lost_wake_up_seconds, repair)


def describe_state(server: Mapping[str, Any]) -> str:
    """Return what the status and the task of a server have been, for users."""
    task = server.get('OS-EXT-STS:task_state')
    return f'The server has been {server["status"]}{f", {task}" if task else ""}'


def wait_for_task(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Wait for the task of a server that ends; repair it when it is lost.

    A server in BUILD never ran, so nothing of it is lost when it is deleted.
    """
    server_id, doing = context.resource_id, describe_state(server)
    if servers.is_deleting(server):
        return _wait_for_deletion(context, doing)
    if server['status'] == 'UNKNOWN':
        return _wait_for_cell(context)
    minutes = _task_minutes(context.options, server)
    if server['status'] == 'BUILD':
        repair = _ServerRepair(
            'delete_unbuilt',
            f'{_why_unbuilt(server)}, so it is deleted.',
            f'openstack server delete {server_id}',
            requests=[_DELETE],
        )
    else:
        repair = _ServerRepair(
            RESET_REQUEST,
            'its state was reset, and its end continues.',
            f'openstack server set --state active {server_id}',
            # An image whose task was reset is polled further; other actions are requested again.
            request_name=None if context.progress.asked == IMAGE_REQUEST else RESET_REQUEST,
            requests=[('os-resetState', {'state': 'active'})],
        )
    return wait_or_repair(context, doing, 60 * minutes, repair)


def wait_at_start(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Wait for a server that has a task, or is built, before it runs; abandon one that is lost.

    An administrator resets its state to error: it never ran, so nothing of it is lost, and a
    nova-compute that continues late finds its task removed, and stops. Nothing else starts it:
    that nova-compute may still do so until then.
    """
    if servers.is_deleting(server) or server['status'] == 'UNKNOWN':
        return wait_for_task(context, server)
    repair = _ServerRepair(
        'give_up_start',
        f'{_why_unbuilt(server)}, so its state was reset to error.',
        f'openstack server set --state error {context.resource_id}',
        request_name=ABANDONED_START,
        requests=[_RESET_TO_ERROR],
    )
    seconds = 60 * _task_minutes(context.options, server)
    return wait_or_repair(context, describe_state(server), seconds, repair)


def _task_minutes(options: Any, server: Mapping[str, Any]) -> int:
    """Return after how many minutes the task or the build of a server counts as lost."""
    task = server.get('OS-EXT-STS:task_state') or ''
    if server['status'] == 'BUILD':
        is_begun = bool(server.get('hostId'))
        minutes = options.lost_start_minutes if is_begun else options.lost_task_minutes
    elif task.startswith(_COPIES):
        minutes = options.lost_upload_minutes
    elif task.startswith(_MOVES):
        minutes = options.lost_move_minutes
    else:
        minutes = options.lost_task_minutes
    return int(minutes)


def _wait_for_cell(context: StepContext) -> PollAgain:
    """Wait for a server in a cell that does not answer: Nova does nothing with it until then."""
    return wait_for_operator(
        context,
        'The server has been UNKNOWN',
        60 * context.options.lost_task_minutes,
        'Nova does not reach the database or the message bus of its cell',
        'nova-manage cell_v2 list_cells, and start these of the cell',
    )


def wait_until_forgotten(context: 'EndContext', server: Mapping[str, Any]) -> PollAgain:
    """Wait for a server that is deleted and that Nova still has; have it deleted again.

    nova-compute died between the two. When it starts again, it ends that itself
    (nova/compute/manager.py ``_complete_partial_deletion``).
    """
    doing = f'The server has been {server["status"]}, and Nova still has it'
    return _wait_for_deletion(context, doing)


def _wait_for_deletion(context: StepContext, doing: str) -> PollAgain:
    server_id = context.resource_id
    reset = f'openstack server set --state error {server_id}'
    repair = _ServerRepair(
        'delete',
        'its state was reset and it is deleted again.',
        f'{reset} && openstack server delete {server_id}',
        requests=[_RESET_TO_ERROR, _DELETE],
    )
    return wait_or_repair(context, doing, 60 * context.options.lost_delete_minutes, repair)


def wait_for_image(context: 'EndContext', image: 'Copy') -> PollAgain:
    """Wait for an image on which its server shows no task any more; have a lost image recreated.

    nova-compute ends the task before it knows that the image is complete, and when it is restarted
    (nova/compute/manager.py ``_init_instance``).
    """
    repair = _ServerRepair(
        'delete_image',
        'it was deleted and is recreated.',
        f'openstack image delete {image.id}',
        requests=[('delete_image', image.id)],
    )
    doing = f'The image {image.id} of the server has been {image.status}'
    return wait_or_repair(context, doing, 60 * context.options.lost_upload_minutes, repair)


def describe_upload(context: 'EndContext', server: Mapping[str, Any]) -> str:
    """Return a text that changes as long as the image changes that a task creates, or created."""
    task = server.get('OS-EXT-STS:task_state') or ''
    is_left = not task and context.progress.asked == IMAGE_REQUEST
    if not (is_left or task.startswith(_UPLOADS)):
        return ''
    return servers.describe_images(
        context.conn, context.reservation.id, f'{server["name"]}-shelved'
    )


def _why_unbuilt(server: Mapping[str, Any]) -> str:
    return 'its host has not started it' if server.get('hostId') else 'no host has it'


def check_build(context: StepContext, server: Mapping[str, Any]) -> str | None:
    """Return what a created server waits for until it is RESERVED; None when it is.

    A server that a host builds is polled until the end of the lease, since the host may continue
    it: Nova itself abandons a build, after [DEFAULT] instance_build_timeout. So is a server in a
    cell that does not answer (UNKNOWN). The user gets a reason after
    :data:`climate_core.plugins.step_context.LONG_WAIT_SECONDS`.

    :raises climate_core.exceptions.Permanent: Nova could not create it
    """
    status = server['status']
    if status == 'ERROR':
        fault = str((server.get('fault') or {}).get('message') or 'Nova reports no reason')
        kind = exceptions.NoCapacity if _NO_HOST in fault else exceptions.Permanent
        raise kind(
            describe_build_failure(
                context.reservation, fault.strip() + _describe_shortage(context, fault)
            )
        )
    return f'The server has been {status}' if status in _BUILDING else None


def is_build_unstarted(server: Mapping[str, Any]) -> bool:
    """Return whether no host has started to build a server."""
    return server['status'] == 'BUILD' and not server.get('hostId')


def delete_unbuilt(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Delete a server that no host has started to build, or wait until it is gone."""
    context = context.observe(server['status'], server.get('OS-EXT-STS:task_state'))
    if servers.is_deleting(server):
        return wait_for_task(context, server)
    servers.delete(context.conn, context.resource_id)
    return context.wait()


def _describe_shortage(context: StepContext, fault: str) -> str:
    """Return which capacity the hosts lack, if Nova found no host: Nova does not report it."""
    if _NO_HOST not in fault:
        return ''
    spec = provisioned_plugin.merge_spec(context.lease, context.reservation, server_spec.SPEC_KEY)
    try:
        shortage = pool_capacity.describe_shortage(context.service, spec)
    except errors.EXPECTED as exc:
        LOG.info('Could not find which capacity is insufficient for %s: %s', spec['name'], exc)
        return ''
    return f' {shortage}' if shortage else ''


def describe_build_failure(reservation: 'Reservation', reason: str) -> str:
    """Return which server could not be created, and why."""
    name = reservation.params[server_spec.SPEC_KEY]['name']
    amounts = reservation.amounts
    size = f'{amounts.get("vcpus", 0)} VCPUs, {amounts.get("memory_mb", 0)} MB of memory'
    if amounts.get('disk_gb'):
        size += f', {amounts["disk_gb"]} GB of disk'
    return f'The server {name} ({size}) could not be created: {reason}'
