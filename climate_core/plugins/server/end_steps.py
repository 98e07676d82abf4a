# SPDX-License-Identifier: Apache-2.0
"""The end of a reserved server: look at it, take the one step that brings it nearer to its end.

What is done in which status is a table for each end action, :data:`STEPS`. A status that is not in
the table is on its way to another one, so it is looked at again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, images, servers
from climate_core.plugins import parent_stacks
from climate_core.plugins.base import Wait
from climate_core.plugins.server import lost_tasks
from climate_core.plugins.step_context import EndContext

LOG = log.getLogger(__name__)

#: Seconds in which Nova begins to upload an image whose record it has made.
_UPLOAD_BEGINS = 10.0
#: The end actions with their explanation.
CHOICES = [
    ('delete', 'Delete it.'),
    ('stop', 'Shut the guest down; the host keeps the capacity.'),
    ('shelve', 'Keep it as an image, free the host.'),
    ('suspend', 'Freeze the guest; the host keeps the capacity.'),
    ('create_image', 'Make an image of it, then delete it.'),
    ('nothing', 'Leave it as it is.'),
]


Server = Mapping[str, Any]
Step = Callable[[EndContext, Server], Wait | None]


def _done(context: EndContext, server: Server) -> None:  # noqa: ARG001
    return None


def _wait(context: EndContext, server: Server) -> Wait:  # noqa: ARG001
    return context.wait()


def _action(name: str) -> Step:
    def step(context: EndContext, server: Server) -> Wait:  # noqa: ARG001
        return _act(context, name)

    return step


def _act(context: EndContext, action: str) -> Wait:
    servers.act(context.conn, context.resource_id, action)
    return context.wait()


def _delete(context: EndContext, server: Server) -> Wait:
    servers.delete(context.conn, server['id'])
    return context.wait()


def _reclaim(context: EndContext, server: Server) -> Wait:  # noqa: ARG001
    """A soft-deleted server still holds its host."""
    return _act(context, 'forceDelete')


def _offload(context: EndContext, server: Server) -> Wait | None:
    """Nova offloads by itself later; sooner only for an administrator."""
    try:
        servers.act(context.service, server['id'], 'shelveOffload')
    except errors.Refused as exc:
        LOG.info('Server %s stays on its host until Nova offloads it: %s', server['id'], exc)
        return None
    return context.wait()


def _broken(context: EndContext, server: Server) -> Wait:  # noqa: ARG001
    raise exceptions.Transient(
        'The server is in ERROR, so its data cannot be kept. Repair it or delete it.'
    )


def _image(context: EndContext, server: Server) -> Wait:
    """Make the image once, and delete the server when the image is complete."""
    key = context.reservation.id
    image = images.find(context.conn, key)
    if image and image.status == 'active':
        return _delete(context, server)
    if image and not _is_lost(context, image):
        return context.wait()
    if image:
        images.delete(context.conn, image.id)
    name = context.prefix + server['name']
    return context.once(
        'image',
        lambda: 'Nova could not make the image of the server.',
        lambda: images.create(context.conn, server['id'], name, key),
    )


def _is_lost(context: EndContext, image: images.Image) -> bool:
    """Tell whether no nova-compute uploads the image: it stopped on the way.

    The server has no task any more when this is asked; that must be so for a while, since the
    record of an image is there a moment before the task.
    """
    return image.status == 'queued' and context.age >= _UPLOAD_BEGINS


#: Statuses from which every end action but delete first leads back to ACTIVE.
_BACK: Mapping[str, Step] = {
    'RESCUE': _action('unrescue'),
    'VERIFY_RESIZE': _action('confirmResize'),
}
_OFF: Mapping[str, Step] = dict.fromkeys(
    ('SHUTOFF', 'SUSPENDED', 'SHELVED', 'SHELVED_OFFLOADED'), _done
)
_SHELVED: Mapping[str, Step] = {'SHELVED': _offload, 'SHELVED_OFFLOADED': _done}
#: DELETED is a server that Nova is about to forget; only then is its host free.
_GONE: Mapping[str, Step] = {'SOFT_DELETED': _reclaim, 'DELETED': _wait}
#: Statuses from which Nova shelves and makes images.
_WHOLE = ('ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED')

#: End action -> status of the server -> what is done. A shelved server is its own image.
STEPS: Mapping[str, Mapping[str, Step]] = {
    'stop': {
        **_BACK,
        **_OFF,
        **_GONE,
        'ACTIVE': _action('os-stop'),
        'ERROR': _action('os-stop'),
        'PAUSED': _action('unpause'),
    },
    'suspend': {
        **_BACK,
        **_OFF,
        **_GONE,
        'ACTIVE': _action('suspend'),
        'ERROR': _broken,
        'PAUSED': _action('unpause'),
    },
    'shelve': {
        **_BACK,
        **_SHELVED,
        **_GONE,
        **dict.fromkeys(_WHOLE, _action('shelve')),
        'ERROR': _broken,
    },
    'create_image': {
        **_BACK,
        **_SHELVED,
        **_GONE,
        **dict.fromkeys(_WHOLE, _image),
        'ERROR': _broken,
    },
}


def end(context: EndContext) -> Wait | None:
    """Take the next step.

    :returns: None when it is done
    :raises climate_core.cloud.errors.Gone: the server is gone
    :raises climate_core.exceptions.Transient, climate_core.exceptions.Permanent: from Nova
    """
    server = servers.get(context.conn, context.resource_id)
    task = server.get('OS-EXT-STS:task_state')
    moved = server.get('updated'), lost_tasks.upload(context, server)
    context = context.seeing(server['status'], task, *moved)
    step = _step(server, context.on_end, _has_run(context, server))
    if step is _done:
        return None
    if task and step is not _delete:
        return lost_tasks.wait(context, server)
    if server.get('locked'):
        return _unlock(context)
    return step(context, server)


def _has_run(context: EndContext, server: Server) -> bool:
    """Tell whether there may be data in a server.

    Nova says when it was launched first, also one that Heat woke. That we noted its start is
    believed too, but not of a member of a stack, which Heat may have left asleep.
    """
    noted = context.has_run and parent_stacks.KEY not in context.reservation.params
    return noted or bool(server.get('OS-SRV-USG:launched_at'))


def _step(server: Server, on_end: str, has_run: bool) -> Step:
    status = server['status']
    if status in _GONE:
        return _GONE[status]
    if server.get('OS-EXT-STS:task_state') == 'deleting':
        return _wait
    if status == 'RESERVED' or (status == 'ERROR' and not has_run):
        return _delete
    if on_end == 'nothing':
        return _done if status != 'BUILD' else _wait
    if on_end == 'delete':
        return _delete
    return STEPS[on_end].get(status, _wait)


def _unlock(context: EndContext) -> Wait:
    """Undo the owner's lock; the lock of an administrator is respected."""
    try:
        return _act(context, 'unlock')
    except errors.Refused as exc:
        raise exceptions.Transient('The server was locked by an administrator.') from exc
