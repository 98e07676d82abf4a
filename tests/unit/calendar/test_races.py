# SPDX-License-Identifier: Apache-2.0
"""Several managers promise the same units at once: nothing is promised twice."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.calendar import transaction
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand
from climate_core.calendar.search import JointSearch
from climate_core.db import calendar as db_calendar
from climate_core.lease.model import Allocation
from tests.unit.calendar.hall import Hall, demand, shares


def at_once(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return what functions return or raise, each in a thread of its own."""
    together, found = threading.Barrier(len(functions)), []

    def run(function: Callable[[], Any]) -> None:
        together.wait(30)
        try:
            found.append(function())
        except Exception as exc:  # noqa: BLE001
            found.append(exc)

    threads = [threading.Thread(target=run, args=(each,)) for each in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


@pytest.mark.parametrize('one_manager', [False, True])
def test_the_last_host_has_one_winner(any_hall: Hall, one_manager: bool) -> None:
    hall = any_hall
    hall.units()
    managers = [hall.calendar if one_manager else Calendar(hall.database) for _ in range(8)]
    found = at_once([lambda c=each: hall.book(demand(), calendar=c) for each in managers])
    refused = [each for each in found if isinstance(each, exceptions.NotEnough)]
    assert len(refused) == 7, found
    assert len(hall.promised()) == 1


@pytest.mark.parametrize('one_manager', [False, True])
def test_many_promises_at_once(any_hall: Hall, one_manager: bool) -> None:
    hall = any_hall
    hall.units(5, lanes=3)

    def books(number: int) -> Callable[[], list[Any]]:
        rng = random.Random(number)
        calendar = hall.calendar if one_manager else Calendar(hall.database, rng)

        def book() -> list[Any]:
            return [_try(hall, calendar, rng) for _ in range(12)]

        return book

    found = at_once([books(number) for number in range(4)])
    made = [promise for each in found for promises in each for promise in promises]
    assert len(hall.promised()) == len(made) > 0
    assert not hall.wrong()


def _try(hall: Hall, calendar: Calendar, rng: random.Random) -> list[Allocation]:
    least, start = rng.randint(1, 2), rng.randint(0, 6)
    wanted = demand(least) if rng.random() < 0.4 else shares(least, 3)
    try:
        return hall.book(wanted, start=start, end=start + rng.randint(1, 4), calendar=calendar)
    except exceptions.NotEnough:
        return []


def test_who_loses_races_draws_from_more_units(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.units()
    guard, find = db_calendar.guard_units, JointSearch.choose
    wins, scattered = [False, False, True, True], []
    monkeypatch.setattr(db_calendar, 'guard_units', lambda *args: wins.pop(0) and guard(*args))

    def seen(search: JointSearch) -> Any:
        scattered.append(search.searches[0].scatter)
        return find(search)

    monkeypatch.setattr(JointSearch, 'choose', seen)
    hall.book(demand())
    hall.book(demand(), start=1, end=2)
    assert scattered == [0, 1, 2, 0]


def _no_guard(session: Any, units: Any, steps: Any) -> bool:
    db_calendar.raise_generations(session, units)
    return True


def _no_key(added: Sequence[Allocation], _generations: Any) -> list[Allocation]:
    # Generations that no promise has.
    return [row._replace(unit_generation=random.randrange(10**6, 10**9)) for row in added]


@pytest.mark.parametrize('database', ['mariadb', 'postgresql'])
@pytest.mark.parametrize(
    ('guard', 'key'), [(True, True), (True, False), (False, True), (False, False)]
)
def test_guard_and_key_each_prevent_promises_of_the_same(
    new_database: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    guard: bool,
    key: bool,
) -> None:
    """SQLite has one writer at a time, so that there is nothing to prevent."""
    hall = Hall(new_database(database))
    hall.units()
    rival = Calendar(hall.database)
    hall.check(demand())
    if not guard:
        monkeypatch.setattr(db_calendar, 'guard_units', _no_guard)
    if not key:
        monkeypatch.setattr(transaction, '_with_generations', _no_key)
    between = [lambda: hall.book(shares(3), calendar=rival)]
    _while_searching(monkeypatch, between)
    wanted: Demand = shares(2)
    if guard or key:
        with pytest.raises(exceptions.NotEnough):
            hall.book(wanted)
    else:
        hall.book(wanted)
    assert not between
    assert bool(hall.wrong()) == (not guard and not key)
    hall.database.dispose()


def _while_searching(monkeypatch: pytest.MonkeyPatch, between: list[Callable[[], Any]]) -> None:
    """Have something done once between a search and what is written of it."""
    choose = JointSearch.choose

    def find(*args: Any) -> Any:
        found = choose(*args)
        if between:
            between.pop()()
        return found

    monkeypatch.setattr(JointSearch, 'choose', find)


@pytest.mark.parametrize('database', ['mariadb', 'postgresql'])
def test_what_other_threads_read_meanwhile_is_not_what_was_searched(
    new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    hall = Hall(new_database(database))
    hall.units()
    hall.check(demand())

    def rival() -> None:
        hall.book(shares(3))
        # The index that the two share knows it now.
        hall.check(shares())

    _while_searching(monkeypatch, [rival])
    with pytest.raises(exceptions.NotEnough):
        hall.book(shares(2))
    assert not hall.wrong()
    hall.database.dispose()
