# SPDX-License-Identifier: Apache-2.0
"""What a transaction has of a promise; what it writes: test_admission and test_races."""

import pytest

from climate_common.microseconds import from_microseconds
from climate_core.calendar import transaction
from climate_core.calendar.model import NewAllocation
from climate_core.calendar.timeline import Entry
from climate_core.db.calendar import StoredAllocation


@pytest.mark.parametrize(
    ('pieces', 'piece', 'amounts'),
    [(1, None, None), (1, {'vcpus': 2}, {'vcpus': 2}), (3, {'vcpus': 2}, {'vcpus': 6})],
)
def test_promises_that_are_read_and_made_have_the_same_entry(pieces, piece, amounts) -> None:
    entry = Entry(5, 20, 7, amounts)
    assert transaction.stored_entry(StoredAllocation('r', 1, 1, 5, 20, 7, pieces, piece)) == entry
    made = NewAllocation(
        unit_id=1,
        reservation_id='r',
        start=from_microseconds(5),
        end=from_microseconds(20),
        pieces=pieces,
        piece=piece,
        lane=7,
    )
    assert transaction.new_entry(made) == entry
