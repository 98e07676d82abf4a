# SPDX-License-Identifier: Apache-2.0
"""Read the leases of a stack, and add the stack to its lease."""

import datetime
from typing import Any

from heat.common import exception
from oslo_utils import timeutils

from climate_common import resource_types
from climateclient import exceptions, models
from climateclient.extension import leases

#: The resource type of a stack in the lease service.
STACK = resource_types.STACK
#: Statuses of a reservation that waits for its start or runs.
_LIVE = frozenset(('pending', 'active'))
#: Statuses of a reservation that holds its resource, also after a failed wake-up.
_HOLDING = _LIVE | {'error'}
_JOINABLE = ', '.join(leases.JOINABLE)
_STARTED = frozenset(('STARTING', 'ACTIVE'))


def find(client: Any, lease_id: str) -> models.Lease | None:
    """Return a lease; None if the project has no such lease.

    :param client: a climateclient.client.Client
    :raises keystoneauth1.exceptions.ClientException: the lease service does not answer
    """
    try:
        return client.leases.get(lease_id)
    except exceptions.NotFound:
        return None


def is_joinable(lease: models.Lease | None) -> bool:
    """Return whether a resource can join a lease."""
    return lease is not None and lease.status in leases.JOINABLE


def has_started(lease: models.Lease | None, now: datetime.datetime) -> bool:
    """Return whether the resources of a lease have to run.

    A lease is in ERROR if one of its resources could not be woken up; the others run nevertheless.

    :param now: timezone-aware
    """
    if lease is None:
        return False
    if lease.status == 'ERROR':
        return lease.start_date is not None and lease.start_date <= now
    return lease.status in _STARTED


def now() -> datetime.datetime:
    """Return the current time, timezone-aware, by the clock that heat's tests can set."""
    return timeutils.utcnow().replace(tzinfo=datetime.UTC)


def add_stack(client: Any, lease_id: str, stack_id: str) -> None:
    """Add a stack to a lease, before members of that stack join the lease.

    Two engines that do this at once get the same reservation.

    :param stack_id: of the root stack
    :raises heat.common.exception.Error: the lease cannot be joined
    :raises climateclient.exceptions.ApiError: the lease service refuses, for example because
        another lease holds the stack
    """
    lease = client.leases.get(lease_id)
    if not is_joinable(lease):
        raise exception.Error(
            f'Lease {lease_id} is {lease.status}; it must be one of {_JOINABLE} to be joined.'
        )
    if not holds_stack(lease, stack_id):
        client.leases.add_reservation(lease_id, STACK, stack_id)


def holds_stack(lease: models.Lease | None, stack_id: str) -> bool:
    """Return whether a lease that is not over holds a stack."""
    return is_joinable(lease) and any(
        (each.resource_type, each.resource_id) == (STACK, stack_id) and each.status in _LIVE
        for each in lease.reservations
    )


def holds_resource(lease: models.Lease | None, resource_id: str) -> bool:
    """Return whether a lease holds a server or volume."""
    return lease is not None and any(
        holds_reservation(each, resource_id) for each in lease.reservations
    )


def holds_reservation(reservation: models.Reservation, resource_id: str) -> bool:
    """Return whether a reservation holds a resource."""
    return reservation.resource_id == resource_id and reservation.status in _HOLDING
