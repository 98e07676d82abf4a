# SPDX-License-Identifier: Apache-2.0
"""The leases that the members of a group join, and the phase of these leases."""

import enum
from collections.abc import Callable, Iterable
from typing import Any

from heat.engine.resources import stack_resource

from heat_ext.members import reservable, reservation_request
from heat_ext.service import leases


class LeasePhase(enum.Enum):
    """The phase of the leases of a group."""

    NONE = 'no member joins a lease'
    PENDING = 'no lease has started'
    STARTED = 'a lease has started'
    OVER = 'a lease can no longer be joined'


def find_phase(lease_ids: Iterable[str], make_client: Callable[[], Any]) -> LeasePhase:
    """Return the phase of some leases.

    :param make_client: returns a climateclient.client.Client; not called without leases
    :raises keystoneauth1.exceptions.ClientException: the lease service does not answer
    """
    now = leases.now()
    found = [leases.find(make_client(), each) for each in lease_ids]
    if not all(leases.is_joinable(lease) for lease in found):
        return LeasePhase.OVER
    if any(leases.has_started(lease, now) for lease in found):
        return LeasePhase.STARTED
    return LeasePhase.PENDING if found else LeasePhase.NONE


def list_lease_ids(stack: Any) -> set[str]:
    """Return the leases that the servers and volumes of a stack request to join.

    A resource with a new lease of its own counts for none: it is woken up without heat.

    :param stack: a heat.engine.stack.Stack; it need not be stored
    :raises climateclient.extension.hints.BadHint: the hints of one contradict each other
    """
    found = set()
    for each in stack.values():
        if isinstance(each, reservable.Reservable):
            request = each.reservation_request()
            if request and reservation_request.is_lease_id(request.lease_id):
                found.add(request.lease_id)
        elif isinstance(each, stack_resource.StackResource):
            nested = each.get_nested_parameters_stack()
            found |= list_lease_ids(nested) if nested else set()
    return found
