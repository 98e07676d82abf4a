# SPDX-License-Identifier: Apache-2.0
"""Units that are proposed from memory, and promised without another look at all the others."""

from collections.abc import Mapping
from typing import Any

import pytest

from climate_core.calendar.model import Demand, Unit
from climate_core.db import calendar as db_calendar
from tests.support.world import executed
from tests.unit.calendar.hall import VCPU, Hall, demand


class Looks:
    """Remember which units a search had a look at."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def demand(self, *counts: int, **more: Any) -> Demand:
        return demand(*counts, matches=self._matches, **more)

    def _matches(self, unit: Unit) -> bool:
        self.seen.add(unit.id)
        return True


@pytest.mark.parametrize('count', [1, 2])
def test_units_are_proposed_from_memory_alone(hall: Hall, count: int) -> None:
    (free,) = {*hall.units(2)} - {each.unit_id for each in hall.book(demand())}
    hall.calendar.refresh()
    wanted = [hall.wanted('new', demand(count))]
    proposed = {free} if count == 1 else None

    def ask() -> None:
        assert hall.calendar.propose(wanted, hall.at(0), hall.at(1), hall.now) == proposed

    assert not executed(hall.database, ask)


@pytest.mark.parametrize('piece', [None, VCPU])
def test_promise_looks_at_proposed_units_alone(
    any_hall: Hall, piece: Mapping[str, int] | None
) -> None:
    hall, looks = any_hall, Looks()
    ids = hall.units(5)
    wanted = looks.demand(2, piece=piece, max_per_unit=1)
    made = hall.book(wanted, proposed=ids[1:3])
    assert {each.unit_id for each in made} == looks.seen == {*ids[1:3]}


@pytest.mark.parametrize('missing', ['taken', 'gone', 'disabled'])
def test_promise_takes_others_if_a_proposed_unit_cannot_be_had(
    any_hall: Hall, missing: str
) -> None:
    hall = any_hall
    proposed, other = hall.units(2)
    hall.calendar.refresh()
    if missing == 'taken':
        hall.book(demand(matches=lambda each: each.id == proposed))
    elif missing == 'gone':
        hall.delete_unit(proposed)
    else:
        hall.change_unit(proposed, available=False)
    (made,) = hall.book(demand(), proposed=[proposed])
    assert made.unit_id == other
    assert not hall.wrong()


def test_promise_takes_as_many_as_there_are_not_as_were_proposed(hall: Hall) -> None:
    ids = hall.units(3)
    made = hall.book(demand(1, 2), proposed=ids[:1])
    assert len(made) == 2


def test_promise_that_lost_a_race_looks_at_all_units(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, looks = hall.units(2), Looks()
    guard, wins = db_calendar.guard_units, [False, True, True]
    monkeypatch.setattr(db_calendar, 'guard_units', lambda *args: wins.pop(0) and guard(*args))
    hall.book(looks.demand(), proposed=ids[:1])
    assert looks.seen == {*ids}
    # The next one trusts what is proposed again.
    looks = Looks()
    hall.book(looks.demand(), start=2, end=3, proposed=ids[:1])
    assert looks.seen == {ids[0]}
