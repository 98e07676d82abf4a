# SPDX-License-Identifier: Apache-2.0
"""Shelve the servers of a preempted lease, and unshelve them when it has capacity again.

Only a server that is shelved and offloaded releases its capacity: the claim of a suspended server
stays in Placement. A server is shelved with the rights of its owner, who owns the image, and then
locked with those of the service, so that its owner does not unshelve it. The reason of the lock
marks it as Climate's for every manager.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors, servers
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import end_steps
from climate_core.plugins.step_context import EndContext, StepContext, wait_for_operator

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: Statuses from which Nova shelves.
SHELVABLE: Final = frozenset({'ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED'})
SHELVED: Final = frozenset({'SHELVED', 'SHELVED_OFFLOADED'})
_GONE: Final = frozenset({'DELETED', 'SOFT_DELETED'})
#: Start of the reason of Climate's locks.
_LOCK_PREFIX: Final = 'Climate: '
#: Start of the reason if the lock is of one lease.
_LEASE_LOCK_PREFIX: Final = _LOCK_PREFIX + 'the preemptible lease {} '
_PREEMPTED_LOCK_REASON: Final = (
    _LEASE_LOCK_PREFIX + 'was preempted by another one. The server is unshelved when there '
    'is room again; to delete it take it out of the lease, or end that.'
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
    """Take the next step to unshelve a server.

    A server for which Nova finds no host is locked again until the next try.
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
    asked = context.progress.asked
    if asked == _LOCK_REQUEST:
        return context.wait() if context.age < _IN_FLIGHT_SECONDS else None
    ending = _ENDING_LOCK_REASON.format(context.lease.id)
    # Any lock rejects the request, that of an administrator too. Once something else was
    # requested, the lock of Climate has existed for long enough.
    if asked is not None or (server.get('locked') and server.get('locked_reason') != ending):
        return None
    return context.ask(_LOCK_REQUEST, lambda: _lock(context, ending))


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
    task = server.get('OS-EXT-STS:task_state')
    doing = f'The server has been {server["status"]}{f", {task}" if task else ""}'
    if task:
        return _wait_long(context, doing)
    seconds = 60 * context.options.lost_task_minutes
    why = 'the policy os_compute_api:os-shelve:shelve_offload of Nova is against it'
    command = f'openstack server shelve --offload {context.resource_id}'
    return wait_for_operator(context, doing, seconds, why, command)


def _wait_long(context: StepContext, doing: str) -> PollAgain:
    """Wait for what Nova copies to or from a host; require an administrator when it is lost."""
    seconds = 60 * context.options.lost_upload_minutes
    command = f'openstack server event list {context.resource_id}, and repair what it says'
    return wait_for_operator(
        context, doing, seconds, 'its data may be in its image alone', command
    )


def _lock(context: StepContext, reason: str | None = None) -> None:
    told = {'locked_reason': reason or _PREEMPTED_LOCK_REASON.format(context.lease.id)}
    servers.act(context.service, context.resource_id, 'lock', told)
