# SPDX-License-Identifier: Apache-2.0
"""Order the resources of one lease for their wake-up and their end. Pure.

It is that of ``rank`` and ``rank_at_end``, see :class:`climate_core.plugins.base.ResourcePlugin`.
A permanent failure keeps no resource waiting: a server that does not use the volume that failed
can still be woken. And a plugin may say which resources it blocks, as a stack does its members.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from climate_core.lease import model, results
from climate_core.plugins.base import ResourcePlugin

_UNSETTLED = (results.Result.WAIT, results.Result.RETRY)


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
        if not ascending and plugin.rank_at_end is not None:
            return plugin.rank_at_end
        return plugin.rank

    ordered = sorted(reservations, key=rank, reverse=not ascending)
    for _, group in itertools.groupby(ordered, rank):
        yield tuple(group)


def before(
    reservation: model.Reservation,
    tried: Iterable[tuple[model.Reservation, results.Outcome]],
    plugins: Mapping[str, ResourcePlugin],
) -> Sequence[results.Outcome]:
    """Return the outcomes of the reservations that block this one and are not done.

    :param tried: what was tried of the ranks before, not what only waited for others: a
        reservation that waits for such a one waits for those others, too, or for none
    """

    def is_blocked_by(own: model.Reservation) -> bool:
        plugin = plugins.get(own.resource_type)
        return plugin is None or plugin.blocks(own, reservation)

    return tuple(
        outcome
        for own, outcome in tried
        if outcome.result is not results.Result.DONE and is_blocked_by(own)
    )


def unsettled(outcomes: Iterable[results.Outcome]) -> results.Outcome | None:
    """Return the outcome of reservations that must wait until these outcomes are settled.

    :returns: a wait until the first of these is looked at again; None when all are settled
    """
    seconds = [o.seconds for o in outcomes if o.result in _UNSETTLED]
    return results.Outcome(results.Result.WAIT, min(seconds)) if seconds else None
