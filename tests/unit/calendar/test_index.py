# SPDX-License-Identifier: Apache-2.0
"""What the index reads, and what it does about what it has missed."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.calendar import Calendar, CalendarWarmup
from climate_core.calendar.index import Index
from climate_core.db import calendar as db_calendar
from climate_core.db import sql
from tests.support.world import executed
from tests.unit.calendar.hall import ALLOCATION, CAPACITY, Hall, demand, shares

#: Seconds for which a change has waited for its commit, so that a refresh does not see it.
LATE = 60.0


def test_refresh_reads_what_others_change(any_hall: Hall) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    index = Index()

    def seen() -> list[tuple[int, bool, int]]:
        hall.database.read(index.refresh)
        timelines = index.snapshot.timelines.values()
        return [(each.unit.id, each.unit.available, len(each.entries)) for each in timelines]

    assert seen() == [(unit, True, 0), (other, True, 0)]
    hall.book(demand(matches=lambda each: each.id == unit))
    hall.change_unit(other, available=False)
    assert seen() == [(unit, True, 1), (other, False, 0)]
    (third,) = hall.units()
    assert seen()[2:] == [(third, True, 0)]


def test_refresh_reads_again_only_what_changed(
    any_hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = any_hall
    hall.units(3)
    index = Index()
    hall.database.read(index.refresh)
    before = index.snapshot.timelines
    (mine,) = hall.book(demand())
    changed, units = db_calendar.read_changed_units, []

    def read(*args: Any) -> Any:
        now, found = changed(*args)
        units.append([row[0] for row in found])
        return now, found

    monkeypatch.setattr(db_calendar, 'read_changed_units', read)
    for number in (2, 1):
        seen = executed(hall.database, lambda: hall.database.read(index.refresh))
        assert len(seen) == number
    after = index.snapshot.timelines
    assert [unit for unit in after if after[unit] is not before[unit]] == [mine.unit_id]
    assert index.snapshot.by_kind['host'] == [*after.values()]
    # The units of this test changed just now, too, before the index was read for the first time.
    assert mine.unit_id in units[0]
    assert mine.unit_id not in units[1]


def test_own_promises_are_known_when_they_are_committed(any_hall: Hall) -> None:
    hall = any_hall
    hall.units(3, lanes=2, capacity=CAPACITY)
    hall.calendar.refresh()
    before = hall.calendar._index.snapshot
    promises = hall.book(demand(2), shares(2))
    assert len({each.unit_id for each in promises}) >= 2
    assert hall.calendar._index.snapshot is not before
    assert len(executed(hall.database, hall.calendar.refresh)) == 1
    known, read = hall.calendar._index.snapshot, Index()
    hall.database.read(read.refresh)
    for unit_id, each in read.snapshot.timelines.items():
        assert known.timelines[unit_id].unit == each.unit
        assert known.timelines[unit_id].entries == each.entries


def test_promises_that_are_rolled_back_are_not_known(hall: Hall) -> None:
    hall.units()
    hall.calendar.refresh()
    before = hall.calendar._index.snapshot.timelines

    def fail(session: orm.Session) -> None:
        wanted = [hall.wanted(hall.reserve(session), demand())]
        transaction = hall.calendar.transaction(session)
        hall.calendar.allocate(transaction, wanted, hall.at(0), hall.at(1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hall.database.write(fail)
    assert hall.calendar._index.snapshot.timelines == before


def test_refresh_after_a_change_of_more_units_than_it_names(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_calendar, '_KNOWN', 2)
    hall.units(9)
    hall.book(demand(8))
    index = Index()
    for _ in range(2):
        hall.database.read(index.refresh)
    before = index.snapshot
    hall.database.read(index.refresh)
    assert index.snapshot is before


def test_first_reading_is_what_single_units_are_read_as(any_hall: Hall) -> None:
    hall = any_hall
    properties = {'name': 'a "host"', 'traits': ['A', 'B'], 'vcpus': 4}
    ids = hall.units(3, properties=properties, lanes=8, capacity={'vcpus': 8})
    for start in range(3):
        hall.book(demand(2), start=start, end=start + 1)
        hall.book(shares(3), start=start + 9, end=start + 11)
    (old,) = hall.book(demand(), start=5, end=6)
    hall.begin(hall.hours(old.end) + 24.5)
    whole, single = Index(), Index()
    hall.database.read(whole.refresh)
    for unit in ids:
        hall.change_unit(unit)
    hall.database.read(whole.refresh)
    single.mark_stale(ids)
    hall.database.read(single.refresh)
    hall.database.read(single.refresh)
    mine, read = whole.snapshot.timelines, single.snapshot.timelines
    assert [each.unit for each in mine.values()] == [each.unit for each in read.values()]
    assert [each.entries for each in mine.values()] == [each.entries for each in read.values()]
    assert mine[ids[0]].unit.properties == properties
    # What is over is not read.
    assert sum(len(each.entries) for each in mine.values()) == len(hall.promised()) - 7


def test_texts_that_the_database_cut_off_are_not_read(
    new_database: Callable[[str], str],
) -> None:
    hall = Hall(new_database('mariadb') + '?init_command=SET SESSION group_concat_max_len=64')
    (unit,) = hall.units(lanes=99)
    for start in range(3):
        hall.book(demand(), start=start, end=start + 1)
    hall.book(shares(), start=3, end=4)
    index = Index()
    hall.database.read(index.refresh)
    assert len(index.snapshot.timelines[unit].entries) == 4
    hall.database.dispose()


def test_first_reading_is_done_once(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    hall.units()
    loads, began = [], threading.Event()
    units = db_calendar.read_units

    def slow(session: orm.Session, ids: object = None) -> object:
        loads.append(ids)
        began.wait(10)
        return units(session)

    monkeypatch.setattr(db_calendar, 'read_units', slow)
    index = Index()
    threads = [
        threading.Thread(target=hall.database.read, args=(index.refresh,)) for _ in range(3)
    ]
    for each in threads:
        each.start()
    began.set()
    for each in threads:
        each.join()
    assert loads == [None]
    assert index.snapshot.by_kind


def test_reader_has_it_read_before_the_first_request_and_logs_it_once(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    hall.units()
    reader = CalendarWarmup(hall.calendar)
    with caplog.at_level('INFO', 'climate_core.calendar'):
        assert [reader.poll(), reader.poll()] == [None, None]
    assert caplog.messages.count('The calendar is in memory') == 1
    reads = [each for each, _ in executed(hall.database, lambda: hall.check(demand()))]
    assert len(reads) == 1
    hall.database.dispose()


def test_a_unit_that_is_gone_is_not_promised(any_hall: Hall) -> None:
    hall = any_hall
    gone, left = hall.units(2)
    hall.check(demand(2))
    hall.delete_unit(gone)
    assert [each.unit_id for each in hall.book(demand(1, 2))] == [left]
    with pytest.raises(exceptions.NotEnough):
        hall.book(demand())


def free_late(hall: Hall, unit: int) -> None:
    hall.database.write(sql.change, sa.delete(ALLOCATION).where(ALLOCATION.c.unit_id == unit))
    hall.change_unit(unit, LATE)


def take_late(hall: Hall, unit: int, start: float = 0, end: float = 1) -> None:
    """Promise a unit in a transaction that took long."""
    hall.book(
        demand(matches=lambda each: each.id == unit),
        start=start,
        end=end,
        calendar=Calendar(hall.database),
    )
    hall.change_unit(unit, LATE)


def test_nothing_is_refused_for_what_was_freed_late(any_hall: Hall) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    hall.book(demand(2))
    hall.check(demand(), start=1, end=2)
    free_late(hall, unit)
    hall.check(demand())
    free_late(hall, other)
    assert len(hall.book(demand(2))) == 2


def test_what_was_promised_late_is_not_promised_again(any_hall: Hall) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    hall.check(demand())
    take_late(hall, unit)
    assert [each.unit_id for each in hall.book(demand(1, 2))] == [other]
    with pytest.raises(exceptions.NotEnough):
        hall.book(demand())
    assert not hall.wrong()


@pytest.mark.parametrize('keep', [False, True])
def test_a_lease_is_not_made_longer_into_what_was_promised_late(
    any_hall: Hall, keep: bool
) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == unit))
    hall.check(demand())
    take_late(hall, unit, start=1, end=2)
    take_late(hall, other, start=0, end=2)
    with pytest.raises(exceptions.NotEnough):
        hall.replan(mine, demand(), end=2, keep=keep)
    assert not hall.wrong()


def test_a_refusal_in_a_transaction_that_has_written_is_verified_in_another(hall: Hall) -> None:
    unit, other = hall.units(2)
    hall.book(demand(2))
    hall.check(demand(), start=1, end=2)
    attempts = []

    def write(session: orm.Session) -> None:
        attempts.append(session)
        ours = demand(matches=lambda each: each.id == other)
        first, second = (hall.wanted(hall.reserve(session), each) for each in (ours, demand()))
        transaction = hall.calendar.transaction(session)
        hall.calendar.allocate(transaction, [first], hall.at(1), hall.at(2))
        hall.calendar.allocate(transaction, [second], hall.at(0), hall.at(1))

    free_late(hall, unit)
    hall.database.write(write)
    assert len(attempts) == 2
    assert len(hall.promised()) == 3


def test_a_wider_capacity_is_seen(hall: Hall) -> None:
    (unit,) = hall.units()
    hall.book(shares(4))
    with pytest.raises(exceptions.NotEnough):
        hall.book(shares())
    hall.change_unit(unit, capacity={name: 2 * amount for name, amount in CAPACITY.items()})
    hall.book(shares(4))
