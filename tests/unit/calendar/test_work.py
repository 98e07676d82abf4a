# SPDX-License-Identifier: Apache-2.0
"""What a transaction has of a promise; what it writes: test_admission and test_races."""

import pytest

from climate_core.calendar import work
from climate_core.calendar.model import Promise
from climate_core.calendar.moments import time_of
from climate_core.calendar.timeline import Entry
from climate_core.db.calendar import OwnPromise


@pytest.mark.parametrize(
    ('pieces', 'piece', 'amounts'),
    [(1, None, None), (1, {'vcpus': 2}, {'vcpus': 2}), (3, {'vcpus': 2}, {'vcpus': 6})],
)
def test_promises_that_are_read_and_made_have_the_same_entry(pieces, piece, amounts) -> None:
    entry = Entry(5, 20, 7, amounts)
    assert work.entry(OwnPromise('r', 1, 1, 5, 20, 7, pieces, piece)) == entry
    made = Promise(
        unit_id=1,
        reservation_id='r',
        start=time_of(5),
        end=time_of(20),
        pieces=pieces,
        piece=piece,
        lane=7,
    )
    assert work.promised(made) == entry
