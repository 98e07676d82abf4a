# SPDX-License-Identifier: Apache-2.0
"""What a reservation gives back."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_hosts.plugins.lane_plugin import choose_retained


@pytest.mark.parametrize(
    ('own', 'used', 'most', 'left'),
    [
        ({1: 1, 2: 1, 3: 1}, {2: 1}, 2, {1: 1, 2: 1, 3: 0}),
        ({1: 1, 2: 1}, {2: 1}, 1, {1: 0, 2: 1}),
        ({1: 1, 2: 1}, {1: 1, 2: 1}, 3, {1: 1, 2: 1}),
        # What is not used at all goes first, then what is used in part.
        ({1: 2, 2: 4, 3: 3}, {1: 1}, 4, {1: 2, 2: 2, 3: 0}),
        ({1: 2, 2: 4}, {1: 1, 2: 2}, 4, {1: 1, 2: 3}),
    ],
)
def test_choose_keeps_pieces_in_use(
    own: Mapping[int, int], used: Mapping[int, int], most: int, left: Mapping[int, int]
) -> None:
    in_use = dict.fromkeys(own, 0) | dict(used)
    assert choose_retained(own, in_use, most) == left


_PIECES = st.dictionaries(st.integers(1, 5), st.integers(1, 4), min_size=1)


@given(_PIECES, _PIECES, st.integers(1, 20))
def test_choose_never_gives_back_pieces_in_use(
    own: Mapping[int, int], used: Mapping[int, int], most: int
) -> None:
    in_use = {unit_id: min(each, used.get(unit_id, 0)) for unit_id, each in own.items()}
    most = max(most, sum(in_use.values()))
    left = choose_retained(own, in_use, most)
    assert sum(left.values()) == min(most, sum(own.values()))
    assert all(in_use[each] <= left[each] <= own[each] for each in own)
