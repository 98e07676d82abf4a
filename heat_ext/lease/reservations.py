# SPDX-License-Identifier: Apache-2.0
"""The reservations that a template asks for, compared with those that the lease has.

A lease has more: what joined it by hints, or by hand. Only what the template says, or said
before, is touched.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from climateclient import models
from heat_ext.service import leases

#: Statuses of a reservation that holds its resource; one that could not be woken does so too.
_HELD = frozenset(('pending', 'active', 'error', 'deleting'))
#: What a stack is made from. The lease service takes it once and does not show it.
_SOURCE = ('template', 'parameters', 'environment', 'files')
#: What a resource holds. The lease service believes Heat's token, so no template may say it.
AMOUNTS = 'amounts'

_PLACE = re.compile(r'reservations\[(\d+)\](\S*): ')

Item = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """What is to be done.

    :param missing: what the lease does not have
    :param changes: each the ``id`` of a reservation and what of it is different
    :param surplus: the ids of reservations that the template does not ask for any more
    """

    missing: list[Item]
    changes: list[Item]
    surplus: list[str]


def of_stack(stack_id: str, on_end: str) -> dict[str, str]:
    """Write the reservation of a stack."""
    return {'resource_type': leases.STACK, 'resource_id': stack_id, 'on_end': on_end}


def held(lease: models.Lease) -> list[models.Reservation]:
    """Give the reservations that hold their resource."""
    return [each for each in lease.reservations if each.status in _HELD]


def compare(lease: models.Lease, wanted: Iterable[Item], before: Iterable[Item]) -> Difference:
    """Say what leads from what a lease has to what is wanted.

    :param before: what the template asked for before
    """
    left = held(lease)
    found = [(item, _take(left, item)) for item in wanted]
    return Difference(
        missing=[item for item, reservation in found if reservation is None],
        changes=[
            {'id': reservation.id, **changed}
            for item, reservation in found
            if reservation is not None and (changed := _changed(reservation, item))
        ],
        surplus=[each.id for item in before if (each := _take(left, item)) is not None],
    )


def remade(
    lease: models.Lease, wanted: Iterable[Item], before: Iterable[Item]
) -> list[models.Reservation]:
    """Give the stacks of a lease that would be made from something else than they were made from.

    What the lease has given back meanwhile is made anew, from whatever it may be.
    """
    made = {item['name']: _source(item) for item in before if _is_made(item)}
    changed = [
        item
        for item in wanted
        if _is_made(item) and made.get(item['name'], _source(item)) != _source(item)
    ]
    return [each for each in held(lease) if any(_is(each, item) for item in changed)]


def failed(reservation: models.Reservation) -> bool:
    """Whether it could not be held, and is gone, or could not be woken."""
    return bool(reservation.status == 'error')


def _is_made(item: Item) -> bool:
    return 'template' in item and 'name' in item


def _source(item: Item) -> dict[str, Any]:
    return {key: item[key] for key in _SOURCE if item.get(key)}


def _take(left: list[models.Reservation], item: Item) -> models.Reservation | None:
    """Find the reservation that an item means, and take it away from what is left."""
    for each in left:
        if _is(each, item):
            left.remove(each)
            return each
    return None


def _is(reservation: models.Reservation, item: Item) -> bool:
    if reservation.resource_type != item['resource_type']:
        return False
    if item.get('resource_id') is not None:
        return bool(reservation.resource_id == item['resource_id'])
    if _is_made(item):
        return bool(reservation.params.get('name') == item['name'])
    return not _changed(reservation, item)


def _changed(reservation: models.Reservation, item: Item) -> dict[str, Any]:
    return {
        key: value
        for key, value in item.items()
        if key not in ('resource_type', 'resource_id', *_SOURCE)
        and reservation.params.get(key) != value
    }


def clean(items: Sequence[Item] | None) -> list[Item]:
    """Give the items of a template without what has no value, and what it may not say."""
    return [
        {key: value for key, value in item.items() if value is not None and key != AMOUNTS}
        for item in items or ()
    ]


def blamed(reason: str, sent: Sequence[Item], given: Sequence[Item]) -> str:
    """Say which item of the template it is that the lease service blames.

    :param reason: its words, perhaps with the place in what it was sent
    :param given: the items of the template
    """
    place = _PLACE.match(reason)
    if place is None:
        return reason
    why, number = reason[place.end() :], int(place[1])
    item = sent[number] if number < len(sent) else None
    return f'reservations[{given.index(item)}]{place[2]}: {why}' if item in given else why
