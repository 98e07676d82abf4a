# SPDX-License-Identifier: Apache-2.0
"""Wake and end the servers and volumes that belong to a reserved stack.

A stack is a reservation of its lease, and so is each reserved server and volume in it: a member,
whose ``stack_id`` is that of the root stack. Heat wakes the members when the stack is woken, and
ends them with it; their own plugins do what remains:

============================================  ===================================================
at the start the stack is to be woken, or is  Heat wakes those that are wanted; nothing is asked
at the start it is out of the lease, or       they are woken as if there were no stack
cannot be woken
at the end it was deleted, or never woke      they are gone with it, or have their own end
at the end it was kept by its end action      they are left as they are; those asleep are deleted
at the end it should be suspended, and        its servers are suspended one by one
Heat could not do that
============================================  ===================================================
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core import concurrency
from climate_core.cloud import errors, servers, stacks, volumes
from climate_core.lease import model, states

if TYPE_CHECKING:
    from climate_core.cloud import Cloud, connections

STACK_TYPE: Final = 'virtual:stack'
#: The property that makes a reservation a member: the id of its root stack.
STACK_ID_KEY: Final = 'stack_id'
#: The schema of this property.
STACK_ID_SCHEMA: Final[Mapping[str, Any]] = {STACK_ID_KEY: {'type': 'string', 'format': 'uuid'}}
#: End actions that keep a stack.
KEEPING_END_ACTIONS = frozenset({'suspend', 'snapshot', 'nothing'})
#: End actions that keep it suspended.
SUSPENDING_END_ACTIONS = frozenset({'suspend', 'snapshot'})

_S = states.ReservationStatus
_SERVER_TYPE: Final = 'virtual:instance'
#: Maximum number of cached stacks at their end, and seconds: their members end together.
_MAX_CACHED_STACKS: Final = 1000
_CACHE_SECONDS: Final = 10.0


def find_parent_stack(lease: model.Lease, member: model.Reservation) -> model.Reservation | None:
    """Return the latest reservation of the stack that a member belongs to."""
    stack = STACK_TYPE, member.params.get(STACK_ID_KEY)
    found = [r for r in lease.reservations if (r.resource_type, r.resource_id) == stack]
    return max(found, key=lambda each: (each.live, each.created_at), default=None)


def is_woken_by_heat(lease: model.Lease, member: model.Reservation) -> bool:
    """Return whether a member is woken with its stack, not by its own plugin."""
    stack = find_parent_stack(lease, member)
    return stack is not None and stack.status in (_S.PENDING, _S.ACTIVE)


class ParentStacks:
    """The stacks of members at their end, each read once for all of its members."""

    def __init__(self, cloud: 'Cloud') -> None:
        self._cloud = cloud
        self._statuses: concurrency.RecentCache[str | None] = concurrency.RecentCache(
            _MAX_CACHED_STACKS, _CACHE_SECONDS
        )

    def at_end(
        self, conn: 'connections.Connection', lease: model.Lease, member: model.Reservation
    ) -> model.Reservation:
        """Return a member with the end action that it has: ``nothing`` if its stack was kept.

        A server is suspended if its stack should be and is not.

        :param conn: the rights to read the stack
        """
        stack = find_parent_stack(lease, member)
        if stack is None or not _is_kept(lease, stack):
            return member
        status = self._status(conn, lease, stack.resource_id)
        if status is None:
            return member
        wanted = stack.params['on_end'] in SUSPENDING_END_ACTIONS and status != 'SUSPEND_COMPLETE'
        on_end = 'suspend' if wanted and member.resource_type == _SERVER_TYPE else 'nothing'
        return dataclasses.replace(member, params={**member.params, 'on_end': on_end})

    def _status(
        self, conn: 'connections.Connection', lease: model.Lease, stack_id: str
    ) -> str | None:
        """Return the status of a stack; None if it is gone, or about to be."""
        as_service = conn is self._cloud.service()

        def look() -> str | None:
            try:
                status = stacks.get(conn, stack_id).status
            except errors.Gone:
                if as_service:
                    stacks.check_all_visible(conn)
                return None
            return None if status.startswith('DELETE_') else status

        return self._statuses.get(f'{as_service} {lease.trust_id} {stack_id}', look)


def list_reserved_members(conn: 'connections.Connection', all_projects: bool) -> set[str]:
    """Return the ids of the servers and volumes that wait for a lease, in two calls per thousand.

    :param all_projects: of all projects, which administrators may ask for; else of its own
    """
    waiting = set(servers.list_ids(conn, all_projects, status='RESERVED'))
    if volumes.CINDER.is_offered(conn):
        waiting |= set(volumes.list_ids(conn, all_projects, status='lease-reserved'))
    return waiting


def are_all_members_reserved(
    conn: 'connections.Connection', lease: model.Lease, stack: model.Reservation
) -> bool:
    """Return whether a stack has members, and all of them are reserved."""
    members = {
        r.resource_id for r in lease.live if r.params.get(STACK_ID_KEY) == stack.resource_id
    }
    return bool(members) and members <= list_reserved_members(conn, all_projects=False)


def _is_kept(lease: model.Lease, stack: model.Reservation) -> bool:
    """Return whether the end of the lease was the end of a stack, with a keeping end action.

    A stack that was never recorded as active may have started in part: it is kept, too.
    """
    taken_out = bool(lease.events_of(model.END_RESERVATION, reservation_id=stack.id))
    ended = stack.status == _S.DELETED and not stack.missing_resources and not taken_out
    return ended and stack.params.get('on_end') in KEEPING_END_ACTIONS
