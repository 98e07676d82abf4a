# SPDX-License-Identifier: Apache-2.0
"""Find the reservations whose resource is gone, with few calls."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from climate_core.lease.model import Reservation

#: Up to so many reservations are looked up one by one, more by listing.
_FEW = 10


def find(
    reservations: Sequence['Reservation'],
    every_id: Callable[[], Iterable[str]],
    exists: Callable[[str], bool],
) -> list['Reservation']:
    """Return the reservations whose resource is not there.

    :param every_id: lists the ids of all resources there are
    :param exists: looks one up by its id
    """
    unseen = list(reservations)
    if len(unseen) > _FEW:
        seen = set(every_id())
        unseen = [each for each in unseen if each.resource_id not in seen]
    # A listing by pages can miss what is created meanwhile: look it up.
    return [each for each in unseen if not exists(each.resource_id)]
