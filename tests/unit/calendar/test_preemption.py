# SPDX-License-Identifier: Apache-2.0
"""The choice of preemptible leases, by tables."""

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
    found = preemption.choose(
        range(len(pieces)), lambda some: sum(pieces[each] for each in some) >= needed
    )
    assert found == chosen


def test_candidates_are_halved_so_that_few_questions_are_asked() -> None:
    asked = []

    def is_enough(some: range) -> bool:
        asked.append(len(some))
        return 0 in some

    assert preemption.choose(range(1000), is_enough) == [0]
    assert len(asked) <= 11
