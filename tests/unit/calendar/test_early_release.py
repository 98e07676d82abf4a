# SPDX-License-Identifier: Apache-2.0
"""Which promises get another end when they are freed, by tables."""

import pytest

from climate_core.calendar import transaction
from climate_core.lease.model import Allocation

SECOND = 1_000_000


def own(end: int, *, piece: bool = False, released: bool = False) -> Allocation:
    amounts = {'vcpus': 1} if piece else None
    return Allocation(1, 'r', 0, end * SECOND, 2, 3, amounts, 1, released)


@pytest.mark.parametrize(
    ('promise', 'end', 'used', 'moved'),
    [
        (own(100), 50, True, True),
        (own(100), 100, True, False),
        # It is late, but only what was in use until now takes longer.
        (own(100), 120, True, True),
        (own(100), 120, False, False),
        (own(100), 104, True, False),
        # Others have the room after a piece, and what was given up is left as it is.
        (own(100, piece=True), 120, True, False),
        (own(100, released=True), 120, True, False),
        (own(100, piece=True), 50, False, True),
    ],
)
def test_promise_is_moved_if_it_ends_at_another_time(promise, end, used, moved) -> None:
    assert transaction._moves_end(promise, 60 * SECOND, end * SECOND, used) is moved
