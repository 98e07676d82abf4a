# SPDX-License-Identifier: Apache-2.0
"""Choose the preemptible leases whose promises another lease takes. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar('T')


def choose(candidates: Sequence[T], is_enough: Callable[[Sequence[T]], bool]) -> list[T]:
    """Choose as few as there must be, and the youngest of them.

    :param candidates: the youngest first
    :param is_enough: tells whether there is enough without these
    :returns: nothing if there is not enough without all of them either
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
    # The oldest of them must be among them; of the younger ones some may be spared, the oldest
    # first.
    for each in chosen[-2::-1]:
        rest = [other for other in chosen if other is not each]
        if is_enough(rest):
            chosen = rest
    return chosen
