# SPDX-License-Identifier: Apache-2.0
"""Choose which of its pieces a reservation gives back. Pure."""

from collections.abc import Mapping


class InUse(Exception):
    """More pieces are in use than may be left.

    :ivar count: so many are
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def choose(own: Mapping[int, int], used: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how many pieces of each unit stay, by the ids of the units.

    Units of which nothing is used are given back first, of these the ones with the fewest pieces.

    :param own: how many pieces it has
    :param used: how many of them are in use
    :param most: so many stay at most
    :raises InUse: more are in use
    """
    in_use = {unit_id: min(pieces, used.get(unit_id, 0)) for unit_id, pieces in own.items()}
    if sum(in_use.values()) > most:
        raise InUse(sum(in_use.values()))
    left = dict(own)
    too_many = sum(own.values()) - most
    for unit_id in sorted(own, key=lambda each: (in_use[each] > 0, own[each], -each)):
        less = min(own[unit_id] - in_use[unit_id], max(0, too_many))
        left[unit_id] -= less
        too_many -= less
    return left
