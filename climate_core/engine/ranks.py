# SPDX-License-Identifier: Apache-2.0
"""Order the resources of one lease for their wake-up and their end. Pure.

A permanent failure keeps no resource waiting: a server that does not use the volume that failed
can still be woken. And a plugin may say which resources it blocks, as a stack does its members.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from climate_core.lease import model, transitions
from climate_core.plugins.base import ResourcePlugin


def in_order(
    reservations: Iterable[model.Reservation],
    plugins: Mapping[str, ResourcePlugin],
    ascending: bool,
) -> Iterator[Sequence[model.Reservation]]:
    """Yield the reservations of one rank after the other.

    :param plugins: resource type -> plugin; a type without one has the rank of most
    :param ascending: the lowest rank first, as at the start; False: the highest, as at the end
    """

    def rank(reservation: model.Reservation) -> int:
        plugin = plugins.get(reservation.resource_type, ResourcePlugin)
        at_end = plugin.rank if plugin.rank_at_end is None else plugin.rank_at_end
        return plugin.rank if ascending else at_end

    ordered = sorted(reservations, key=rank, reverse=not ascending)
    for _, group in itertools.groupby(ordered, rank):
        yield tuple(group)


def blocking(
    reservation: model.Reservation,
    tried: Iterable[tuple[model.Reservation, transitions.Outcome]],
    plugins: Mapping[str, ResourcePlugin],
) -> Sequence[transitions.Outcome]:
    """Return the outcomes of the reservations that block this one and are not done.

    :param tried: what was tried of the ranks before, not what only waited for others: a
        reservation that waits for such a one waits for those others, too, or for none
    """

    def blocks(own: model.Reservation) -> bool:
        plugin = plugins.get(own.resource_type)
        return plugin is None or plugin.blocks(own, reservation)

    return [o for own, o in tried if o.result is not transitions.Result.DONE and blocks(own)]
