# SPDX-License-Identifier: Apache-2.0
"""Promises on each database."""

import pytest

from climate_core import exceptions
from climate_core.calendar.model import Wanted
from tests.unit.calendar.hall import Hall, at, demand


def test_promise_takes_units_until_none_is_free(any_hall: Hall) -> None:
    hall = any_hall
    ids = hall.units(3)
    assert len(hall.book(demand(1, 2))) == 2
    assert len(hall.book(demand(1, 2))) == 1
    assert {unit for unit, *_ in hall.promised()} == set(ids)
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.book(demand(2), start=0.5, end=2)
    assert refused.value.field == 'field0'
    assert refused.value.available_from == '2096-12-01T13:00:00.000000'
    assert len(hall.promised()) == 3
    hall.book(demand(3), start=1, end=2)


def test_replan_and_release(any_hall: Hall) -> None:
    hall = any_hall
    hall.units(2)
    (first,) = hall.book(demand())
    (second,) = hall.book(demand(), start=1, end=2)
    wanted = [Wanted(reservation_id=first.reservation_id, demand=demand(1, 2), field='end_date')]
    with pytest.raises(exceptions.NotEnough):
        hall.database.write(
            hall.calendar.replan,
            [Wanted(reservation_id=first.reservation_id, demand=demand(2), field='end_date')],
            at(0),
            at(2),
            False,
        )
    hall.database.write(hall.calendar.replan, wanted, at(0), at(3), False)
    hall.database.write(hall.calendar.release, [second.reservation_id], at(1))
    assert len(hall.promised()) == 1
    assert len(hall.database.write(hall.calendar.replan, wanted, at(0), at(3), True)) == 1
