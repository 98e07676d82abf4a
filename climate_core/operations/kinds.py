# SPDX-License-Identifier: Apache-2.0
"""The kind of a new lease: which one it has, and which ones its resources allow."""

from collections.abc import Sequence
from typing import Final

from climate_common import resource_types
from climate_core import exceptions
from climate_core.lease.states import LeaseKind
from climate_core.operations.draft import Item

#: Kinds of leases that hold nothing before the calendar promises it, or they are made.
_OF_CALENDAR: Final = frozenset({LeaseKind.SCHEDULED, LeaseKind.RETRY, LeaseKind.BEST_EFFORT})


def is_for_hosts(types: Sequence[str]) -> bool:
    """Tell whether a lease of resources of these types may be of the kind best_effort."""
    return list(types) == [resource_types.HOST]


def of(asked: str | None, items: Sequence[Item]) -> str:
    """Return the kind of a lease.

    :param asked: the kind that the request names; None: ``scheduled`` if the calendar promises all
        that it asks for, else ``immediate``
    :param items: what it asks for
    :raises climate_core.exceptions.BadRequest: a lease of that kind cannot have these resources
    """
    made = [each for each in items if each.reservation.group]
    held = [each for each in items if each.reservation.unit_kind is None and each not in made]
    if asked is None:
        return LeaseKind.SCHEDULED if items and not (held or made) else LeaseKind.IMMEDIATE
    if asked not in _OF_CALENDAR:
        return asked
    types = [each.reservation.resource_type for each in items]
    if asked == LeaseKind.BEST_EFFORT and not is_for_hosts(types):
        raise exceptions.BadRequest(
            'A lease of the kind best_effort must ask for hosts, in one reservation, and for '
            'nothing else.',
            field='kind',
        )
    if not items:
        raise exceptions.BadRequest(
            f'A lease of the kind {asked} must ask for hosts, capacity, floating IPs or '
            'networks, or for servers or volumes that are made for it.',
            field='kind',
        )
    if held:
        shown = resource_types.api_name(held[0].reservation.resource_type)
        raise exceptions.BadRequest(
            f'{held[0].field} ({shown}) is held already or not at all, so the kind must be '
            f'immediate; {asked} is for hosts, capacity, floating IPs and networks.',
            field='kind',
        )
    if made and asked == LeaseKind.RETRY and len(made) < len(items):
        raise exceptions.BadRequest(
            f'{made[0].field}: what is made for a lease can be in one of the kind immediate or '
            'scheduled, or retry if all of it is made.',
            field='kind',
        )
    return asked
