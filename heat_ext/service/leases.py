# SPDX-License-Identifier: Apache-2.0
"""The lease of a stack, as its resources see it."""

import datetime
from typing import Any

from heat.common import exception
from oslo_utils import timeutils

from climateclient import exceptions, models
from climateclient.extension import leases

#: What the lease service calls a stack.
STACK = 'virtual:stack'
#: Statuses of a reservation that the lease service still works on.
_LIVE = frozenset(('pending', 'active'))
#: Those of one that holds its resource; it does so too if that could not be woken.
_HOLDING = _LIVE | {'error'}
_STARTED = frozenset(('STARTING', 'ACTIVE'))


def find(client: Any, lease_id: str) -> models.Lease | None:
    """Read a lease; None if there is none in this project.

    :param client: a climateclient.client.Client
    :raises keystoneauth1.exceptions.ClientException: the lease service does not answer
    """
    try:
        return client.leases.get(lease_id)
    except exceptions.NotFound:
        return None


def is_joinable(lease: models.Lease | None) -> bool:
    """Whether something can be reserved in it."""
    return lease is not None and lease.status in leases.JOINABLE


def has_started(lease: models.Lease | None, now: datetime.datetime) -> bool:
    """Whether what it holds is to run.

    A lease in ERROR could not wake something; what else it holds is woken nevertheless.

    :param now: timezone-aware
    """
    if lease is None:
        return False
    if lease.status == 'ERROR':
        return lease.start_date is not None and lease.start_date <= now
    return lease.status in _STARTED


def now() -> datetime.datetime:
    """Give the time as heat has it, timezone-aware."""
    return timeutils.utcnow().replace(tzinfo=datetime.UTC)


def hold(client: Any, lease_id: str, stack_id: str) -> None:
    """Make sure that a lease holds a stack, before it gets members of that stack.

    Two engines that do this at once get the same reservation.

    :param stack_id: of the root stack
    :raises heat.common.exception.Error: the lease cannot be joined
    :raises climateclient.exceptions.ApiError: the lease service says no, for one because another
        lease holds the stack
    """
    lease = client.leases.get(lease_id)
    if not is_joinable(lease):
        raise exception.Error(f'Lease {lease_id} is {lease.status} and cannot be joined.')
    if not holds(lease, stack_id):
        client.leases.add_reservation(lease_id, STACK, stack_id)


def holds(lease: models.Lease | None, stack_id: str) -> bool:
    """Whether a stack is reserved in a lease that is not over."""
    return is_joinable(lease) and any(
        (each.resource_type, each.resource_id) == (STACK, stack_id) and each.status in _LIVE
        for each in lease.reservations
    )


def has(lease: models.Lease | None, resource_id: str) -> bool:
    """Whether a server or volume is reserved in a lease."""
    return lease is not None and any(
        each.resource_id == resource_id and each.status in _HOLDING for each in lease.reservations
    )
