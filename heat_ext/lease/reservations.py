# SPDX-License-Identifier: Apache-2.0
"""Compare the reservations of a template with those of its lease.

A lease also holds reservations that joined it by hints or by a request of a user. Only those that
the template lists, or listed before, are changed.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from climateclient import models
from heat_ext.service import leases

#: Statuses of a reservation that holds its resource, also after a failed wake-up.
_HELD = frozenset(('pending', 'active', 'error', 'deleting'))
#: The source of a stack. The lease service takes it at the creation only, and never shows it.
_SOURCE = ('template', 'parameters', 'environment', 'files')
#: The amounts that a resource holds. The lease service trusts heat's token, so a template must not
#: set them.
AMOUNTS = 'amounts'

_FIELD = re.compile(r'reservations\[(\d+)\](\S*): ')

Item = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The changes that bring a lease in line with a template.

    :param missing: the items that the lease has no reservation for
    :param changes: for each reservation that differs its ``id`` and the new values
    :param surplus: the ids of reservations that the template no longer lists
    """

    missing: list[Item]
    changes: list[Item]
    surplus: list[str]


def stack_item(stack_id: str, on_end: str) -> dict[str, str]:
    """Return the item that reserves a stack."""
    return {'resource_type': leases.STACK, 'resource_id': stack_id, 'on_end': on_end}


def list_held(lease: models.Lease) -> list[models.Reservation]:
    """Return the reservations of a lease that hold their resource."""
    return [each for each in lease.reservations if each.status in _HELD]


def compare(lease: models.Lease, wanted: Iterable[Item], before: Iterable[Item]) -> Difference:
    """Return the difference between a lease and the items of a template.

    :param before: the items of the template before the update
    """
    left = list_held(lease)
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


def list_recreated(
    lease: models.Lease, wanted: Iterable[Item], before: Iterable[Item]
) -> list[models.Reservation]:
    """Return the held stacks of a lease whose template, parameters or files would change.

    A stack that the lease no longer holds is created again, from any source.
    """
    sources = {item['name']: _source(item) for item in before if _has_template(item)}
    changed = [
        item
        for item in wanted
        if _has_template(item) and sources.get(item['name'], _source(item)) != _source(item)
    ]
    return [each for each in list_held(lease) if any(_matches(each, item) for item in changed)]


def has_failed(reservation: models.Reservation) -> bool:
    """Return whether a reservation could not be held, or not be woken up."""
    return bool(reservation.status == 'error')


def _has_template(item: Item) -> bool:
    return 'template' in item and 'name' in item


def _source(item: Item) -> dict[str, Any]:
    return {key: item[key] for key in _SOURCE if item.get(key)}


def _take(left: list[models.Reservation], item: Item) -> models.Reservation | None:
    """Remove the reservation that matches an item from a list, and return it."""
    for each in left:
        if _matches(each, item):
            left.remove(each)
            return each
    return None


def _matches(reservation: models.Reservation, item: Item) -> bool:
    if reservation.resource_type != item['resource_type']:
        return False
    if item.get('resource_id') is not None:
        return bool(reservation.resource_id == item['resource_id'])
    if _has_template(item):
        return bool(reservation.params.get('name') == item['name'])
    return not _changed(reservation, item)


def _changed(reservation: models.Reservation, item: Item) -> dict[str, Any]:
    return {
        key: value
        for key, value in item.items()
        if key not in ('resource_type', 'resource_id', *_SOURCE)
        and reservation.params.get(key) != value
    }


def clean_items(items: Sequence[Item] | None) -> list[Item]:
    """Return the items of a template without empty values, and without ``amounts``."""
    return [
        {key: value for key, value in item.items() if value is not None and key != AMOUNTS}
        for item in items or ()
    ]


def locate_error(reason: str, sent: Sequence[Item], items: Sequence[Item]) -> str:
    """Return an error of the lease service with the number of the item in the template.

    :param reason: the error, which may begin with the place in the request
    :param sent: the reservations of the request
    :param items: the items of the template
    """
    place = _FIELD.match(reason)
    if place is None:
        return reason
    why, number = reason[place.end() :], int(place[1])
    item = sent[number] if number < len(sent) else None
    return f'reservations[{items.index(item)}]{place[2]}: {why}' if item in items else why
