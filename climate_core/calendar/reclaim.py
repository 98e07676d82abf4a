# SPDX-License-Identifier: Apache-2.0
"""Choose what is released: the leases that are preempted, the pieces that are returned. Pure."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar('T')

#: Maximum number of sets of leases that are compared to find a smaller set.
_MAX_COMPARED: Final = 100


def choose_preempted(candidates: Sequence[T], is_enough: Callable[[Sequence[T]], bool]) -> list[T]:
    """Choose as few leases as necessary, and the youngest.

    :param candidates: the youngest first
    :param is_enough: returns whether capacity is sufficient without these
    :returns: nothing if capacity is insufficient without all of them, too
    """
    if not candidates or not is_enough(candidates):
        return []
    fewest, most = 1, len(candidates)
    while fewest < most:
        middle = (fewest + most) // 2
        if is_enough(candidates[:middle]):
            most = middle
        else:
            fewest = middle + 1
    chosen = list(candidates[:most])
    # The oldest of them is necessary. Some of the younger leases may be spared, the oldest first.
    return _without_spared(chosen, chosen[-2::-1], is_enough)


def choose_fewest_preempted(
    candidates: Sequence[T],
    is_enough: Callable[[Sequence[T]], bool],
    may_compare: Callable[[], bool] = lambda: True,
) -> list[T]:
    """Choose the smallest number of leases, and the youngest, as :func:`choose_preempted`.

    Where leases free different parts of hosts, few older leases may replace many younger leases.
    Of very many leases not all sets are compared.

    :param may_compare: returns whether another set may be compared
    """
    chosen = choose_preempted(candidates, is_enough)
    left = _MAX_COMPARED
    for number in range(1, len(chosen)):
        for some in itertools.combinations(candidates, number):
            if not left or not may_compare():
                return chosen
            left -= 1
            if is_enough(some):
                return [*some]
    return chosen


def _without_spared(
    chosen: list[T], block: Sequence[T], is_enough: Callable[[Sequence[T]], bool]
) -> list[T]:
    """Return what is chosen without the unnecessary leases of a block.

    :param block: some of the chosen leases; the first is spared first
    """
    if not block:
        return chosen
    spared = {id(each) for each in block}
    rest = [each for each in chosen if id(each) not in spared]
    if is_enough(rest):
        return rest
    if len(block) == 1:
        return chosen
    middle = len(block) // 2
    for part in (block[:middle], block[middle:]):
        chosen = _without_spared(chosen, part, is_enough)
    return chosen


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
