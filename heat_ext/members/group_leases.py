# SPDX-License-Identifier: Apache-2.0
"""Which leases the members of a group join, and how far these are."""

import enum
from collections.abc import Callable, Iterable
from typing import Any

from heat.engine.resources import stack_resource

from heat_ext.members import reservable, wishes
from heat_ext.service import leases


class Phase(enum.Enum):
    """What the leases of the members are."""

    NONE = 'there is none'
    BEFORE = 'they have not started'
    STARTED = 'one has started'
    OVER = 'one cannot be joined any more'


def phase_of(lease_ids: Iterable[str], make_client: Callable[[], Any]) -> Phase:
    """Look how far some leases are.

    :param make_client: gives a climateclient.client.Client; not called without leases
    :raises keystoneauth1.exceptions.ClientException: the lease service does not answer
    """
    now = leases.now()
    found = [leases.find(make_client(), each) for each in lease_ids]
    if not all(leases.is_joinable(lease) for lease in found):
        return Phase.OVER
    if any(leases.has_started(lease, now) for lease in found):
        return Phase.STARTED
    return Phase.BEFORE if found else Phase.NONE


def leases_of(stack: Any) -> set[str]:
    """Find out which leases the servers and volumes of a stack are to join.

    What is to get a lease of its own counts for none: it is woken without heat.

    :param stack: a heat.engine.stack.Stack; it need not be stored
    :raises climateclient.extension.hints.BadHint: the hints of one make no sense
    """
    found = set()
    for each in stack.values():
        if isinstance(each, reservable.Reservable):
            wish = each.wish()
            found |= {wish.lease_id} if wish and wishes.is_id(wish.lease_id) else set()
        elif isinstance(each, stack_resource.StackResource):
            nested = each.get_nested_parameters_stack()
            found |= leases_of(nested) if nested else set()
    return found
