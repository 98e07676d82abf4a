# SPDX-License-Identifier: Apache-2.0
"""Choose the hosts of a reservation, and those that it keeps when it returns some. Pure."""

from collections.abc import Mapping, Sequence

from climate_core.calendar.model import Shortage, Unit, UnitFilter
from climate_core.plugins import filters


class HostFilter(UnitFilter):
    """The hosts that satisfy the conditions of a reservation."""

    def __init__(self, conditions: filters.Filter) -> None:
        self._conditions = conditions

    def matches(self, unit: Unit) -> bool:
        return self._conditions.matches(unit.properties)

    def find_shortage(self, units: Sequence[Unit]) -> Shortage | None:
        return self._conditions.lacking([unit.properties for unit in units])


class PiecesInUse(Exception):
    """More pieces are in use than the reservation may keep.

    :ivar count: number of pieces in use
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def choose_retained(own: Mapping[int, int], used: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how many pieces of each unit a reservation keeps, by the ids of the units.

    Unused units are returned first, and of these the units with the fewest pieces.

    :param own: id of a unit -> number of pieces that it has
    :param used: id of a unit -> number of pieces in use
    :param most: maximum number of pieces that it keeps
    :raises PiecesInUse: more are in use
    """
    in_use = {unit_id: min(pieces, used.get(unit_id, 0)) for unit_id, pieces in own.items()}
    if sum(in_use.values()) > most:
        raise PiecesInUse(sum(in_use.values()))
    left = dict(own)
    too_many = sum(own.values()) - most
    for unit_id in sorted(own, key=lambda each: (in_use[each] > 0, own[each], -each)):
        less = min(own[unit_id] - in_use[unit_id], max(0, too_many))
        left[unit_id] -= less
        too_many -= less
    return left
