# SPDX-License-Identifier: Apache-2.0
"""The kinds of leases: which resources a lease of each kind may have. Pure."""

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Final, NoReturn

from climate_common import resource_types
from climate_core import exceptions, packages
from climate_core.lease.states import LeaseKind
from climate_core.operations.draft import Item

#: Kinds of leases that hold nothing until the calendar allocates it, or it is created.
_CALENDAR_KINDS: Final = frozenset({LeaseKind.SCHEDULED, LeaseKind.RETRY, LeaseKind.BEST_EFFORT})


def may_be_best_effort(types: Sequence[str]) -> bool:
    """Return whether a lease of these types of resources may be of the kind best_effort."""
    evacuated = {kind for each in packages.list_packages() for kind in each.best_effort_types}
    return len(types) == 1 and types[0] in evacuated


def creates_now(kind: str | None, start: datetime.datetime, now: datetime.datetime) -> bool:
    """Return whether servers of a lease are created when they are requested.

    Servers of the kind ``retry`` may be queued.
    """
    return kind != LeaseKind.RETRY and (kind != LeaseKind.SCHEDULED or start <= now)


def choose_kind(asked: str | None, items: Sequence[Item]) -> str:
    """Return the kind of a lease.

    :param asked: the kind of the request; None: ``scheduled`` if the calendar allocates all of its
        items, else ``immediate``
    :param items: the items of the request
    :raises climate_core.exceptions.BadRequest: a lease of that kind cannot have these resources
    """
    made = [each for each in items if each.reservation.group]
    held = [each for each in items if each.reservation.unit_kind is None and each not in made]
    if asked is None:
        return LeaseKind.SCHEDULED if items and not (held or made) else LeaseKind.IMMEDIATE
    if asked not in _CALENDAR_KINDS:
        return asked
    if asked == LeaseKind.SCHEDULED:
        stacks = [each for each in held if each.reservation.parts is not None]
        _check_stacks(stacks)
        held = [each for each in held if each not in stacks]
    types = [each.reservation.resource_type for each in items]
    if asked == LeaseKind.BEST_EFFORT and not may_be_best_effort(types):
        raise exceptions.BadRequest(
            'A lease of the kind best_effort must ask for hosts, in one reservation, and for '
            'nothing else.',
            field='kind',
        )
    if not items:
        retry = asked == LeaseKind.RETRY
        may_be_made = 'servers or volumes' if retry else 'servers, volumes or stacks'
        raise exceptions.BadRequest(
            f'A lease of the kind {asked} must ask for hosts, capacity, floating IPs or '
            f'networks, or for {may_be_made} that are made for it.',
            field='kind',
        )
    if held:
        _reject_held(held[0], asked)
    if made and asked == LeaseKind.RETRY and len(made) < len(items):
        raise exceptions.BadRequest(
            f'{made[0].field}: what is made for a lease can be in one of the kind immediate or '
            'scheduled, or retry if all of it is made.',
            field='kind',
        )
    return asked


def fit_items(kind: str, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items without the params that a lease of a kind does not have.

    In a scheduled lease a stack is neither held now nor created at the start.
    """
    if kind != LeaseKind.SCHEDULED:
        return tuple(items)
    return tuple(each if each.reservation.parts is None else _without_hold(each) for each in items)


def _without_hold(item: Item) -> Item:
    params = {name: each for name, each in item.reservation.params.items() if name != 'hold'}
    return item._replace(reservation=dataclasses.replace(item.reservation, params=params))


def _check_stacks(stacks: Sequence[Item]) -> None:
    """Reject stacks that would be created at the start, when capacity is not certain."""
    for each in stacks:
        if each.reservation.params.get('hold') == 'start':
            field = f'{each.field}.hold'
            raise exceptions.BadRequest(
                f'{field}: must be left out in a lease of the kind {LeaseKind.SCHEDULED}: the '
                'stack is made shortly before the start.',
                field=field,
            )


def _reject_held(item: Item, kind: str) -> NoReturn:
    """Reject a resource that exists already, or that cannot be scheduled.

    :raises climate_core.exceptions.BadRequest: always
    """
    if item.reservation.parts is not None:
        raise exceptions.BadRequest(
            f'{item.field}: a stack that is made from a template can be in a lease of the kind '
            f'immediate or scheduled, not {kind}.',
            field='kind',
        )
    shown = resource_types.api_name(item.reservation.resource_type)
    raise exceptions.BadRequest(
        f'{item.field} ({shown}) is held already or not at all, so the kind must be immediate; '
        f'{kind} is for hosts, capacity, floating IPs and networks.',
        field='kind',
    )
