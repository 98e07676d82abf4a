# SPDX-License-Identifier: Apache-2.0
"""The servers of a preemptible lease that gives way: shelved then, and woken when it has room.

Only a server that is shelved and off its host leaves its capacity to others: of one that is
suspended Placement still has the claim. It is shelved with the rights of its owner, whose image it
becomes, and then locked with those of the service, so that its owner does not unshelve it
meanwhile. The reason of the lock says that it is ours, to every manager that comes later.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors, servers
from climate_core.plugins import stuck_action_repair
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import end_steps
from climate_core.plugins.step_context import EndContext, StepContext

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: Statuses from which Nova shelves.
SHELVABLE: Final = frozenset({'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'})
SHELVED: Final = frozenset({'SHELVED', 'SHELVED_OFFLOADED'})
_GONE: Final = frozenset({'DELETED', 'SOFT_DELETED'})
#: What the reason of our lock begins with.
_LOCK_PREFIX: Final = 'Climate: '
#: What the reason begins with if the lock is of one lease.
_LEASE_LOCK_PREFIX: Final = _LOCK_PREFIX + 'the preemptible lease {} '
_PREEMPTED_LOCK_REASON: Final = (
    _LEASE_LOCK_PREFIX + 'gave way to another one. The server is unshelved when there '
    'is room again; to delete it take it out of the lease, or end that.'
)
_ENDING_LOCK_REASON: Final = _LEASE_LOCK_PREFIX + 'ends. The server is unlocked in a minute.'
#: What counts as asked for while a server is locked because its lease ends.
_LOCK_REQUEST: Final = 'lock'
#: Seconds after which no request of ours is on its way to Nova any more.
_IN_FLIGHT_SECONDS: Final = 60.0


def is_locked_by_climate(server: Mapping[str, Any], lease_id: str | None = None) -> bool:
    """Tell whether a server is locked because its lease, or this very lease, gave way."""
    reason = str(server.get('locked_reason') or '')
    begin = _LOCK_PREFIX if lease_id is None else _LEASE_LOCK_PREFIX.format(lease_id)
    return bool(server.get('locked')) and reason.startswith(begin)


def find_obstacle(server: Mapping[str, Any]) -> str | None:
    """Return why a server cannot give way; None if it can."""
    if server['status'] not in SHELVABLE or server.get('OS-EXT-STS:task_state'):
        return f'it is {server["status"]}'
    if server.get(servers.VOLUMES):
        return 'it has volumes'
    return None


def shelve_and_lock(context: EndContext, server: Mapping[str, Any]) -> PollAgain | None:
    """Take the next step until a server has left its host; None when it has."""
    status, task = server['status'], server.get('OS-EXT-STS:task_state')
    if status in _GONE:
        return None
    if status not in SHELVED:
        unlocked_server = ensure_unlocked(context, server)
        return (
            end_steps.take_end_step(context.with_on_end('shelve'), unlocked_server)
            or context.wait()
        )
    if not is_locked_by_climate(server):
        _lock(context)
        return context.wait()
    if status == 'SHELVED_OFFLOADED' and task is None:
        return None
    wait = end_steps.take_end_step(context.with_on_end('shelve'), {**server, 'locked': False})
    return wait or _wait_until_off(end_steps.observe_server(context, server), server)


def unshelve(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Take the next step of the way back of a server that is shelved.

    One for which Nova finds no host is locked again until the next try.
    """
    task = server.get('OS-EXT-STS:task_state')
    if task:
        return _wait_long(context, f'The server has been {server["status"]}, {task}')
    if context.progress.asked == 'unshelve':
        if not is_locked_by_climate(server):
            _lock(context)
        raise context.failure('Nova finds no room for the server, which stays shelved until then.')
    rest = context.rest()
    if rest is not None:
        return rest
    ensure_unlocked(context, server)
    return context.ask(
        'unshelve', lambda: servers.act(context.conn, context.resource_id, 'unshelve')
    )


def keep_shelved(context: EndContext, server: Mapping[str, Any]) -> PollAgain | None:
    """Keep a server shelved at the end of its lease that was about to run again.

    A request to unshelve it may be on its way: the lock was undone before it, and it shows in Nova
    only when nova-api takes it. With our lock nova-api refuses it; one that it took before shows.

    :returns: None if there is no such request any more
    """
    status, task = server['status'], server.get('OS-EXT-STS:task_state')
    was_given_up = context.lease.preemptible and not context.has_run
    is_kept = context.on_end not in ('delete', 'nothing')
    if not was_given_up or not is_kept or status not in SHELVED or task:
        return None
    asked = context.progress.asked
    if asked == _LOCK_REQUEST:
        return context.wait() if context.age < _IN_FLIGHT_SECONDS else None
    ending = _ENDING_LOCK_REASON.format(context.lease.id)
    # Any lock refuses the request, that of an administrator too. Once something else was asked
    # for, ours has been there for long enough.
    if asked is not None or (server.get('locked') and server.get('locked_reason') != ending):
        return None
    return context.ask(_LOCK_REQUEST, lambda: _lock(context, ending))


def ensure_unlocked(context: StepContext, server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Undo our lock of a server, if there is one; return the server as it is then."""
    if not is_locked_by_climate(server):
        return server
    servers.act(context.service, context.resource_id, 'unlock')
    return {**server, 'locked': False}


def list_locked(conn: 'connections.Connection') -> Iterator[str]:
    """Yield the ids of the servers that are locked because their lease gave way."""
    yield from (
        str(each['id']) for each in servers.list_locked(conn) if is_locked_by_climate(each)
    )


def release_lock(
    conn: 'connections.Connection',
    server_id: str,
    lease_id: str | None = None,
    may_sleep: bool = True,
) -> bool:
    """Undo our lock of a server, or only that of one lease; one that is gone is fine.

    :param may_sleep: whether that of a server that is shelved is undone, too. One that runs needs
        no lock. It may be just about to be shelved: :func:`give_up` unlocks it itself then, and
        locks it when it is shelved
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
    """Wait for Nova to take a server off its host; tell an administrator when that is too long.

    Nova does so by itself ([DEFAULT] shelved_offload_time) where the service may not ask for it.
    """
    task = server.get('OS-EXT-STS:task_state')
    doing = f'The server has been {server["status"]}{f", {task}" if task else ""}'
    if task:
        return _wait_long(context, doing)
    seconds = 60 * context.options.lost_task_minutes
    why = 'the policy os_compute_api:os-shelve:shelve_offload of Nova is against it'
    command = f'openstack server shelve --offload {context.resource_id}'
    return stuck_action_repair.wait_for_operator(context, doing, seconds, why, command)


def _wait_long(context: StepContext, doing: str) -> PollAgain:
    """Wait for what Nova copies to or from a host; tell an administrator when it is lost."""
    seconds = 60 * context.options.lost_upload_minutes
    command = f'openstack server event list {context.resource_id}, and repair what it says'
    return stuck_action_repair.wait_for_operator(
        context, doing, seconds, 'its data may be in its image alone', command
    )


def _lock(context: StepContext, reason: str | None = None) -> None:
    told = {'locked_reason': reason or _PREEMPTED_LOCK_REASON.format(context.lease.id)}
    servers.act(context.service, context.resource_id, 'lock', told)
