# SPDX-License-Identifier: Apache-2.0
"""Choose the preemptible leases that are preempted for another lease. Pure."""

import itertools
from collections.abc import Callable, Sequence
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
