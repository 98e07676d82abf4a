# SPDX-License-Identifier: Apache-2.0
"""The end of a reserved server: look at it, take the one step that brings it nearer to its end.

What is done in which status is a table for each end action, :data:`STEPS`. A status that is not in
the table is a transition to another one, so it is polled again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from oslo_log import log

from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import parent_stacks
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import task_recovery
from climate_core.plugins.step_context import EndContext, EndStep, keep_resource, require_operator

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
    'can be used: reactivate the image, or delete it to have another one made.'
)
#: The end actions with their explanation.
END_ACTIONS = [
    ('delete', 'Delete it.'),
    ('stop', 'Shut the guest down; the host keeps the capacity.'),
    ('shelve', 'Keep it as an image, free the host.'),
    ('suspend', 'Freeze the guest; the host keeps the capacity.'),
    ('create_image', 'Make an image of it, then delete it.'),
    ('nothing', 'Leave it as it is.'),
]

Server = Mapping[str, Any]


def _action(name: str) -> EndStep:
    def step(context: EndContext, server: Server) -> PollAgain:
        return _ask(context, server, name, lambda: servers.act(context.conn, server['id'], name))

    return step


def _delete(context: EndContext, server: Server) -> PollAgain:
    return _ask(context, server, 'delete', lambda: servers.delete(context.conn, server['id']))


def _ask(context: EndContext, server: Server, name: str, request: Callable[[], None]) -> PollAgain:
    """Ask for an action; after a while without any effect tell that, and ask again.

    nova-compute may fail after nova-api has accepted it: the server is as it was before, or in
    ERROR.
    """
    if context.progress.asked == name and context.age < _TASK_SHOWN_SECONDS:
        return context.wait()
    return context.once(name, _failed(server, name), request)


def _failed(server: Server, name: str) -> str:
    told = (server.get('fault') or {}).get('message')
    because = f': {told}' if told and server['status'] == 'ERROR' else ''
    return (
        f'The server is {server["status"]} after the action {name}{because}. See "openstack '
        f'server event list {server["id"]}". The action is tried again.'
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
    """Shelve a server, after its name was cut to what Nova can give its image a name with."""

    def request() -> None:
        name = server['name']
        if len(name) > _MAX_SHELVED_NAME:
            servers.rename(context.conn, server['id'], name[:_MAX_SHELVED_NAME].rstrip())
        servers.act(context.conn, server['id'], 'shelve')

    return _ask(context, server, 'shelve', request)


def _offload(context: EndContext, server: Server) -> PollAgain | None:
    """Offload a shelved server now, as only an administrator may; else Nova does it later."""
    try:
        return _ask(
            context,
            server,
            'shelveOffload',
            lambda: servers.act(context.service, server['id'], 'shelveOffload'),
        )
    except errors.Refused as exc:
        LOG.info('Server %s stays on its host until Nova offloads it: %s', server['id'], exc)
        return None


def _image(context: EndContext, server: Server) -> PollAgain:
    """Make the image once, and delete the server when the image is complete."""
    key = context.reservation.id
    image = servers.find_image(context.conn, key, context.lease.project_id)
    if image and image.status == 'active':
        return _delete(context, server)
    if image and image.status == 'deactivated':
        raise exceptions.Transient(_IMAGE_DEACTIVATED.format(image.id))
    if image and image.status != 'queued':
        return task_recovery.wait_for_image(context, image)
    # No nova-compute uploads an image that stays queued: it stopped on the way. The server has no
    # task any more; that must be so for a while, since the record is there before the task.
    if image and context.age < _UPLOAD_START_SECONDS:
        return context.wait()
    if image:
        servers.delete_image(context.conn, image.id)
    name = context.prefix + server['name']
    return context.once(
        task_recovery.IMAGE_REQUEST,
        'Nova could not make the image of the server.',
        lambda: servers.create_image(context.conn, server['id'], name, key),
    )


#: Statuses that lead to another one or the end, whatever the end action is: DELETED is a server
#: that Nova is about to forget, only then is its host free, and SOFT_DELETED still holds it.
_DELETED_STEPS: Mapping[str, EndStep] = {
    'SOFT_DELETED': _action('forceDelete'),
    'DELETED': task_recovery.wait_until_forgotten,
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
    """Return the same look with a server as Nova shows it."""
    task, moved = server.get('OS-EXT-STS:task_state'), server.get('updated')
    return context.observe(
        server['status'], task, moved, task_recovery.describe_upload(context, server)
    )


def take_end_step(context: EndContext, server: Server) -> PollAgain | None:
    """Take the next step of a server as Nova shows it; return None when it is done."""
    task = server.get('OS-EXT-STS:task_state')
    context = observe_server(context, server)
    chosen = _choose(server, context.on_end, _has_run(context, server))
    if chosen is keep_resource and not _is_returning(context, server):
        return None
    if (task or server['status'] == 'BUILD') and chosen is not _delete:
        return task_recovery.wait_for_task(context, server)
    if server.get('locked'):
        try:
            return _action('unlock')(context, server)
        except errors.Refused as exc:
            # The owner's lock is undone, that of an administrator is respected.
            raise exceptions.Transient('The server was locked by an administrator.') from exc
    return chosen(context, server)


def _is_returning(context: EndContext, server: Mapping[str, Any]) -> bool:
    """Tell whether a server is shelved that Nova unshelves: it has that status until it runs.

    An unshelving that is lost is not: the server stays what its end makes it.
    """
    task = server.get('OS-EXT-STS:task_state') or ''
    if server['status'] not in _SHELVED_STEPS or context.on_end == 'nothing':
        return False
    return task.startswith(_UNSHELVING) and not context.is_due(
        60 * context.options.lost_upload_minutes
    )


def _has_run(context: EndContext, server: Server) -> bool:
    """Tell whether there may be data in a server.

    Nova says when it was launched first, also one that Heat woke. That we noted its start is
    believed too, but not of a member of a stack, which Heat may have left asleep.
    """
    noted = context.has_run and parent_stacks.STACK_ID_KEY not in context.reservation.params
    return noted or bool(server.get('OS-SRV-USG:launched_at'))


def _choose(server: Server, on_end: str, has_run: bool) -> EndStep:
    status = server['status']
    if status in _DELETED_STEPS:
        return _DELETED_STEPS[status]
    if server.get('OS-EXT-STS:task_state') == 'deleting':
        return task_recovery.wait_for_task
    if status == 'UNKNOWN':
        return keep_resource if on_end == 'nothing' else task_recovery.wait_for_task
    if status == 'RESERVED' or (status == 'ERROR' and not has_run):
        return _delete
    if on_end == 'nothing':
        return keep_resource if status != 'BUILD' else task_recovery.wait_for_task
    if on_end == 'delete':
        return _delete
    return STEPS[on_end].get(status, task_recovery.wait_for_task)
