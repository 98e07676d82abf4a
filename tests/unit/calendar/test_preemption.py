# SPDX-License-Identifier: Apache-2.0
"""The choice of preemptible leases, by tables."""

from collections.abc import Sequence

import pytest

from climate_core.calendar import preemption


@pytest.mark.parametrize(
    ('pieces', 'needed', 'chosen'),
    [
        ([], 1, []),
        ([1, 1], 3, []),
        ([1, 1], 0, [0]),
        ([1, 1, 1], 1, [0]),
        ([1, 1, 1], 2, [0, 1]),
        # Where an older one is enough alone, the younger ones keep what they have.
        ([1, 5, 1], 5, [1]),
        ([1, 1, 3], 4, [0, 2]),
        ([2, 1, 3], 5, [0, 2]),
        ([1, 2, 3], 6, [0, 1, 2]),
    ],
)
def test_fewest_and_youngest_leases_that_are_enough_are_chosen(
    pieces: list[int], needed: int, chosen: list[int]
) -> None:
    """Candidates are the indexes of ``pieces``, the youngest first."""
    found = preemption.choose_preempted(
        range(len(pieces)), lambda some: sum(pieces[each] for each in some) >= needed
    )
    assert found == chosen


def test_candidates_are_halved_so_that_few_questions_are_asked() -> None:
    asked = []

    def is_enough(some: range) -> bool:
        asked.append(len(some))
        return 0 in some

    assert preemption.choose_preempted(range(1000), is_enough) == [0]
    assert len(asked) <= 11


@pytest.mark.parametrize('needed', [[999], [0, 999], [3, 4, 500], [*range(100, 110)]])
def test_few_of_many_are_found_with_few_questions(needed: list[int]) -> None:
    asked = []

    def is_enough(some: Sequence[int]) -> bool:
        asked.append(len(some))
        return {*needed} <= {*some}

    assert preemption.choose_preempted(range(1000), is_enough) == needed
    assert len(asked) <= 80


@pytest.mark.parametrize(
    ('pieces', 'needed', 'chosen'),
    [
        ([], 1, []),
        ([1, 1], 3, []),
        ([1, 1, 1], 2, [0, 1]),
        # One that is older is enough where two younger ones would be, too.
        ([2, 2, 4], 4, [2]),
        ([1, 1, 1, 2, 2, 3], 4, [0, 5]),
        ([1, 2, 3], 6, [0, 1, 2]),
    ],
)
def test_fewest_are_chosen_where_leases_free_different_amounts(
    pieces: list[int], needed: int, chosen: list[int]
) -> None:
    found = preemption.choose_fewest_preempted(
        range(len(pieces)), lambda some: sum(pieces[each] for each in some) >= needed
    )
    assert found == chosen


def test_no_set_is_compared_that_may_not_be() -> None:
    left = [True, False]
    found = preemption.choose_fewest_preempted(
        [2, 1, 4, 5], lambda some: sum(some) >= 3, lambda: left.pop(0)
    )
    assert found == [2, 1]
    assert left == []


def test_of_very_many_leases_not_all_sets_are_looked_at() -> None:
    asked = []

    def is_enough(some: Sequence[int]) -> bool:
        asked.append(len(some))
        return len(some) >= 50

    assert preemption.choose_fewest_preempted(range(1000), is_enough) == [*range(50)]
    assert len(asked) <= 250
