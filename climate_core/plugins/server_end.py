# SPDX-License-Identifier: Apache-2.0
"""Take the next step of the end, or of the preemption, of a reserved server.

What is done in which status is a table for each end action, :data:`STEPS`. A status that is not in
the table is a transition to another one, so it is polled again.

The servers of a preempted lease are shelved, and unshelved when it has capacity again. Only a
server that is shelved and offloaded releases its capacity: the claim of a suspended server stays
in Placement. A server is shelved with the rights of its owner, who owns the image, and then locked
with those of the service, so that its owner does not unshelve it. The reason of the lock marks it
as Climate's for every manager.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log

from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import own_service_plugin, server_recovery
from climate_core.plugins.base import PollAgain
from climate_core.plugins.step_context import (
    EndContext,
    EndStep,
    StepContext,
    keep_resource,
    require_operator,
    wait_for_operator,
)

if TYPE_CHECKING:
    from climate_core.cloud import connections

LOG = log.getLogger(__name__)

#: Seconds in which Nova begins to upload an image whose record it has made.
_UPLOAD_START_SECONDS = 10.0
#: Seconds in which Nova begins an action that it accepted, also one for which it sets no task at
#: once: confirmResize, and the deletion of a server that is being scheduled.
_TASK_SHOWN_SECONDS = 10.0
#: Characters of the name of a server whose image Nova can name when it shelves the server. With a
#: longer name it answers 500 and leaves the task (nova/compute/api.py ``shelve``).
_MAX_SHELVED_NAME = limits.NAME_LENGTH - len('-shelved')
_IMAGE_DEACTIVATED = (
    'An administrator deactivated the image {0} of the server, which is not deleted before that '
    'can be used: reactivate the image, or delete it so that another image is created.'
)

Server = Mapping[str, Any]


def _action(name: str) -> EndStep:
    def step(context: EndContext, server: Server) -> PollAgain:
        return _request_action(
            context, server, name, lambda: servers.act(context.conn, server['id'], name)
        )

    return step


def _delete(context: EndContext, server: Server) -> PollAgain:
    return _request_action(
        context, server, 'delete', lambda: servers.delete(context.conn, server['id'])
    )


def _request_action(
    context: EndContext, server: Server, name: str, request: Callable[[], None]
) -> PollAgain:
    """Request an action; if it has no effect for some time, report that and repeat the request.

    nova-compute may fail after nova-api has accepted it: the server is as it was before, or in
    ERROR.
    """
    if context.progress.asked == name and context.age < _TASK_SHOWN_SECONDS:
        return context.wait()
    return context.once(name, _failed(server, name), request)


def _failed(server: Server, name: str) -> str:
    fault = (server.get('fault') or {}).get('message')
    because = f': {fault}' if fault and server['status'] == 'ERROR' else ''
    return (
        f'The server is {server["status"]} after the action {name}{because}. See "openstack '
        f'server event list {server["id"]}". The action is retried.'
    )


def _move(name: str, argument: Any = None) -> EndStep:
    """Migrate a server to a host that Nova finds."""

    def step(context: EndContext, server: Server) -> PollAgain:
        return context.once(
            name,
            _failed(server, name),
            lambda: servers.act(context.service, server['id'], name, argument),
        )

    return step


def _shelve(context: EndContext, server: Server) -> PollAgain:
    """Shelve a server, after its name was cut to the length that its image allows."""

    def request() -> None:
        name = server['name']
        if len(name) > _MAX_SHELVED_NAME:
            servers.rename(context.conn, server['id'], name[:_MAX_SHELVED_NAME].rstrip())
        servers.act(context.conn, server['id'], 'shelve')

    return _request_action(context, server, 'shelve', request)


def _offload(context: EndContext, server: Server) -> PollAgain | None:
    """Offload a shelved server now, as only an administrator may; else Nova does it later."""
    try:
        return _request_action(
            context,
            server,
            'shelveOffload',
            lambda: servers.act(context.service, server['id'], 'shelveOffload'),
        )
    except errors.Forbidden as exc:
        LOG.info('Server %s stays on its host until Nova offloads it: %s', server['id'], exc)
        return None


def _image(context: EndContext, server: Server) -> PollAgain:
    """Create the image once, and delete the server when the image is complete."""
    key = context.reservation.id
    image = servers.find_image(context.conn, key, context.lease.project_id)
    if image and image.status == 'active':
        return _delete(context, server)
    if image and image.status == 'deactivated':
        raise exceptions.Transient(_IMAGE_DEACTIVATED.format(image.id))
    if image and image.status != 'queued':
        return server_recovery.wait_for_image(context, image)
    # No nova-compute uploads an image that stays queued: it stopped on the way. The server has no
    # task any more; that must be so for a while, since the record is there before the task.
    if image and context.age < _UPLOAD_START_SECONDS:
        return context.wait()
    if image:
        servers.delete_image(context.conn, image.id)
    name = context.prefix + server['name']
    return context.once(
        server_recovery.IMAGE_REQUEST,
        'Nova could not create the image of the server.',
        lambda: servers.create_image(context.conn, server['id'], name, key),
    )


#: Statuses that lead to another one or the end, whatever the end action is: DELETED is a server
#: that Nova is about to forget, only then is its host free, and SOFT_DELETED still holds it.
_DELETED_STEPS: Mapping[str, EndStep] = {
    'SOFT_DELETED': _action('forceDelete'),
    'DELETED': server_recovery.wait_until_forgotten,
}
#: And for every end action but delete.
_KEEPING_STEPS: Mapping[str, EndStep] = {
    **_DELETED_STEPS,
    'RESCUE': _action('unrescue'),
    'VERIFY_RESIZE': _action('confirmResize'),
    'ERROR': require_operator(
        'The server is in ERROR, so its data cannot be kept. Repair it or delete it.'
    ),
}
_OFF_STEPS: Mapping[str, EndStep] = dict.fromkeys(
    ('SHUTOFF', 'SUSPENDED', 'SHELVED', 'SHELVED_OFFLOADED'), keep_resource
)
_SHELVED_STEPS: Mapping[str, EndStep] = {'SHELVED': _offload, 'SHELVED_OFFLOADED': keep_resource}
#: The tasks of a server that is unshelved (nova/compute/task_states.py).
_UNSHELVING = ('unshelving', 'spawning')
#: Statuses from which Nova shelves and makes images.
_IMAGEABLE = ('ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED')
#: Disks are copied where they are not shared.
_LIVE_MIGRATE = _move('os-migrateLive', {'host': None, 'block_migration': 'auto'})
_STOP, _UNPAUSE = _action('os-stop'), _action('unpause')

#: End action -> status of the server -> what is done. A shelved server is its own image.
STEPS: Mapping[str, Mapping[str, EndStep]] = {
    'stop': {**_KEEPING_STEPS, **_OFF_STEPS, 'ACTIVE': _STOP, 'ERROR': _STOP, 'PAUSED': _UNPAUSE},
    'suspend': {**_KEEPING_STEPS, **_OFF_STEPS, 'ACTIVE': _action('suspend'), 'PAUSED': _UNPAUSE},
    'shelve': {**_KEEPING_STEPS, **_SHELVED_STEPS, **dict.fromkeys(_IMAGEABLE, _shelve)},
    'create_image': {**_KEEPING_STEPS, **_SHELVED_STEPS, **dict.fromkeys(_IMAGEABLE, _image)},
    # Of servers in the lease of their hosts; a lease of a server itself does not offer it.
    'migrate': {
        **_KEEPING_STEPS,
        **_SHELVED_STEPS,
        'ACTIVE': _LIVE_MIGRATE,
        'PAUSED': _LIVE_MIGRATE,
        'SHUTOFF': _move('migrate'),
        'SUSPENDED': require_operator(
            'Nova does not move a server that is suspended: resume or stop it.'
        ),
        'ERROR': require_operator('Nova does not move a server in ERROR: repair it or delete it.'),
    },
}


def observe_server(context: EndContext, server: Server) -> EndContext:
    """Return the same poll with a server as Nova shows it."""
    task, moved = server.get('OS-EXT-STS:task_state'), server.get('updated')
    return context.observe(
        server['status'], task, moved, server_recovery.describe_upload(context, server)
    )


def take_end_step(context: EndContext, server: Server) -> PollAgain | None:
    """Take the next step of a server as Nova shows it; return None when it is done."""
    task = server.get('OS-EXT-STS:task_state')
    context = observe_server(context, server)
    chosen = _choose(server, context.on_end, _has_run(context, server))
    if chosen is keep_resource and not _is_returning(context, server):
        return None
    if (task or server['status'] == 'BUILD') and chosen is not _delete:
        return server_recovery.wait_for_task(context, server)
    if server.get('locked'):
        try:
            return _action('unlock')(context, server)
        except errors.Forbidden as exc:
            # The owner's lock is undone, that of an administrator is respected.
            raise exceptions.Transient('The server was locked by an administrator.') from exc
    return chosen(context, server)


def _is_returning(context: EndContext, server: Mapping[str, Any]) -> bool:
    """Return whether a server is shelved and Nova unshelves it: it has that status until it runs.

    A lost unshelving does not count: the server stays in the state that its end leaves.
    """
    task = server.get('OS-EXT-STS:task_state') or ''
    if server['status'] not in _SHELVED_STEPS or context.on_end == 'nothing':
        return False
    return task.startswith(_UNSHELVING) and not context.is_due(
        60 * context.options.lost_upload_minutes
    )


def _has_run(context: EndContext, server: Server) -> bool:
    """Return whether there may be data in a server.

    Nova shows when a server was first launched, also if Heat started it. A recorded start counts,
    too, but not that of a member of a stack, which Heat may have left reserved.
    """
    noted = context.has_run and own_service_plugin.STACK_ID_KEY not in context.reservation.params
    return noted or bool(server.get('OS-SRV-USG:launched_at'))


def _choose(server: Server, on_end: str, has_run: bool) -> EndStep:
    status = server['status']
    if status in _DELETED_STEPS:
        return _DELETED_STEPS[status]
    if server.get('OS-EXT-STS:task_state') == 'deleting':
        return server_recovery.wait_for_task
    if status == 'UNKNOWN':
        return keep_resource if on_end == 'nothing' else server_recovery.wait_for_task
    if status == 'RESERVED' or (status == 'ERROR' and not has_run):
        return _delete
    if on_end == 'nothing':
        return keep_resource if status != 'BUILD' else server_recovery.wait_for_task
    if on_end == 'delete':
        return _delete
    return STEPS[on_end].get(status, server_recovery.wait_for_task)


#: Statuses from which Nova shelves.
SHELVABLE: Final = frozenset({'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'})
SHELVED: Final = frozenset({'SHELVED', 'SHELVED_OFFLOADED'})
_DELETED_STATUSES: Final = frozenset({'DELETED', 'SOFT_DELETED'})
#: Start of the reason of Climate's locks.
_LOCK_PREFIX: Final = 'Climate: '
#: Start of the reason if the lock is of one lease.
_LEASE_LOCK_PREFIX: Final = _LOCK_PREFIX + 'the preemptible lease {} '
_PREEMPTED_LOCK_REASON: Final = (
    _LEASE_LOCK_PREFIX + 'was preempted by another one. The server is unshelved when capacity is '
    'sufficient; to delete it, remove it from the lease, or end the lease.'
)
_ENDING_LOCK_REASON: Final = _LEASE_LOCK_PREFIX + 'ends. The server is unlocked in a minute.'
#: The recorded request while a server is locked because its lease ends.
_LOCK_REQUEST: Final = 'lock'
#: Seconds after which no request of Climate to Nova is in progress any more.
_IN_FLIGHT_SECONDS: Final = 60.0


def is_locked_by_climate(server: Mapping[str, Any], lease_id: str | None = None) -> bool:
    """Return whether a server is locked because its lease, or this lease, was preempted."""
    reason = str(server.get('locked_reason') or '')
    begin = _LOCK_PREFIX if lease_id is None else _LEASE_LOCK_PREFIX.format(lease_id)
    return bool(server.get('locked')) and reason.startswith(begin)


def find_obstacle(server: Mapping[str, Any]) -> str | None:
    """Return why a server cannot be preempted; None if it can."""
    if server['status'] not in SHELVABLE or server.get('OS-EXT-STS:task_state'):
        return f'it is {server["status"]}'
    if server.get(servers.VOLUMES):
        return 'it has volumes'
    return None


def shelve_and_lock(context: EndContext, server: Mapping[str, Any]) -> PollAgain | None:
    """Take the next step until a server is offloaded; None when it is."""
    status, task = server['status'], server.get('OS-EXT-STS:task_state')
    if status in _DELETED_STATUSES:
        return None
    if status not in SHELVED:
        unlocked_server = ensure_unlocked(context, server)
        return take_end_step(context.with_on_end('shelve'), unlocked_server) or context.wait()
    if not is_locked_by_climate(server):
        _lock(context)
        return context.wait()
    if status == 'SHELVED_OFFLOADED' and task is None:
        return None
    wait = take_end_step(context.with_on_end('shelve'), {**server, 'locked': False})
    return wait or _wait_until_off(observe_server(context, server), server)


def unshelve(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Take the next step to unshelve a server.

    A server for which Nova finds no host is locked again until the next try.
    """
    if server.get('OS-EXT-STS:task_state'):
        return _wait_long(context, server_recovery.describe_state(server))
    if context.progress.asked == 'unshelve':
        if not is_locked_by_climate(server):
            _lock(context)
        raise context.failure('Nova finds no host for the server, which stays shelved until then.')
    rest = context.rest()
    if rest is not None:
        return rest
    ensure_unlocked(context, server)
    return context.send_request(
        'unshelve', lambda: servers.act(context.conn, context.resource_id, 'unshelve')
    )


def keep_shelved(context: EndContext, server: Mapping[str, Any]) -> PollAgain | None:
    """Keep a server shelved that was about to be unshelved when its lease ended.

    A request to unshelve it may be in progress: the lock was undone before it, and Nova shows it
    only when nova-api accepts it. The lock of Climate makes nova-api reject it.

    :returns: None if no such request is in progress
    """
    status, task = server['status'], server.get('OS-EXT-STS:task_state')
    was_given_up = context.lease.preemptible and not context.has_run
    is_kept = context.on_end not in ('delete', 'nothing')
    if not was_given_up or not is_kept or status not in SHELVED or task:
        return None
    request = context.progress.asked
    if request == _LOCK_REQUEST:
        return context.wait() if context.age < _IN_FLIGHT_SECONDS else None
    ending = _ENDING_LOCK_REASON.format(context.lease.id)
    # Any lock rejects the request, that of an administrator too. Once something else was
    # requested, the lock of Climate has existed for long enough.
    if request is not None or (server.get('locked') and server.get('locked_reason') != ending):
        return None
    return context.send_request(_LOCK_REQUEST, lambda: _lock(context, ending))


def ensure_unlocked(context: StepContext, server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undo the lock of Climate, if there is one; return the server as it is then."""
    if not is_locked_by_climate(server):
        return server
    servers.act(context.service, context.resource_id, 'unlock')
    return {**server, 'locked': False}


def list_locked(conn: 'connections.Connection') -> Iterator[str]:
    """Yield the ids of the servers that are locked because their lease was preempted."""
    yield from (
        str(each['id']) for each in servers.list_locked(conn) if is_locked_by_climate(each)
    )


def release_lock(
    conn: 'connections.Connection',
    server_id: str,
    lease_id: str | None = None,
    may_sleep: bool = True,
) -> bool:
    """Undo the lock of Climate, or only that of one lease; a deleted server is a success.

    :param may_sleep: whether the lock of a shelved server is undone, too. A running server needs
        no lock. It may be about to be shelved: :func:`shelve_and_lock` unlocks it then, and locks
        it when it is shelved
    :returns: whether there was such a lock
    """
    with contextlib.suppress(errors.Gone):
        server = servers.get(conn, server_id)
        if is_locked_by_climate(server, lease_id) and (
            may_sleep or server['status'] not in SHELVED
        ):
            servers.act(conn, server_id, 'unlock')
            return True
    return False


def _wait_until_off(context: EndContext, server: Mapping[str, Any]) -> PollAgain:
    """Wait for Nova to offload a server; require an administrator when that takes too long.

    Nova does so by itself ([DEFAULT] shelved_offload_time) if the service may not request it.
    """
    doing = server_recovery.describe_state(server)
    if server.get('OS-EXT-STS:task_state'):
        return _wait_long(context, doing)
    seconds = 60 * context.options.lost_task_minutes
    why = 'the policy os_compute_api:os-shelve:shelve_offload of Nova does not allow it'
    command = f'openstack server shelve --offload {context.resource_id}'
    return wait_for_operator(context, doing, seconds, why, command)


def _wait_long(context: StepContext, doing: str) -> PollAgain:
    """Wait for what Nova copies to or from a host; require an administrator when it is lost."""
    seconds = 60 * context.options.lost_upload_minutes
    command = (
        f'openstack server event list {context.resource_id}, and repair the error that it shows'
    )
    return wait_for_operator(
        context, doing, seconds, 'its data may be in its image alone', command
    )


def _lock(context: StepContext, reason: str | None = None) -> None:
    body = {'locked_reason': reason or _PREEMPTED_LOCK_REASON.format(context.lease.id)}
    servers.act(context.service, context.resource_id, 'lock', body)
