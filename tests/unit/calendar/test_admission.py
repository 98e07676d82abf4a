# SPDX-License-Identifier: Apache-2.0
"""Promises, and how they follow the changes of leases."""

import pytest
from sqlalchemy import orm

from climate_common import dates
from climate_core import exceptions
from climate_core.calendar import explain
from climate_core.db import calendar as db_calendar
from climate_core.db import engine
from tests.support.world import executed
from tests.unit.calendar.hall import HOUR, Hall, demand, shares


def test_promise_takes_units_until_none_is_free(any_hall: Hall) -> None:
    hall = any_hall
    ids = hall.units(3)
    assert len(hall.book(demand(1, 2))) == 2
    assert len(hall.book(demand(1, 2))) == 1
    assert {row[0] for row in hall.promised()} == {*ids}
    with pytest.raises(exceptions.NotEnough):
        hall.book(demand(), start=0.5, end=2)
    assert len(hall.promised()) == 3
    assert len(hall.book(demand(3), start=1, end=2)) == 3


def test_promise_shares_a_unit_up_to_its_capacity(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units()
    (first,) = hall.book(shares(3))
    (second,) = hall.book(shares(1, 3))
    assert hall.promised() == [(unit, 0, 1, 3, 0), (unit, 0, 1, 1, 1)]
    assert (first.piece, second.piece) == ({'vcpus': 1}, {'vcpus': 1})
    for each in (shares(), demand()):
        with pytest.raises(exceptions.NotEnough):
            hall.book(each)


def test_promise_to_two_reservations_of_a_lease_on_one_unit(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units()
    hall.book(shares(), shares(2), shares())
    assert [row[3:] for row in hall.promised()] == [(1, 0), (2, 1), (1, 2)]
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.book(shares(2), shares(3), start=1, end=2)
    assert refused.value.field == 'field1'
    hall.book(shares(2), shares(2), start=1, end=2)
    assert not hall.wrong()
    assert unit


def test_promise_does_not_begin_in_the_past(hall: Hall) -> None:
    hall.units()
    now = hall.hours(hall.now)
    hall.book(demand(), start=now - 1, end=1)
    ((_, start, end, *_),) = hall.promised()
    assert now <= start < now + 1
    assert end == 1


@pytest.mark.parametrize('keep', [False, True])
def test_replan_longer_and_shorter(any_hall: Hall, keep: bool) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == unit), end=2)
    hall.book(demand(matches=lambda each: each.id == unit), start=4, end=5)
    hall.book(demand(matches=lambda each: each.id == other), start=0, end=1)
    if keep:
        hall.begin(25)
    assert len(hall.replan(mine, demand(), end=4, keep=keep)) == 1
    assert hall.promised()[0][:3] == (unit, 0, 4)
    assert hall.replan(mine, demand(), end=4, keep=keep) == []
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.replan(mine, demand(), end=4.5, keep=keep)
    assert (refused.value.available_from is None) == keep
    assert hall.promised()[0][:3] == (unit, 0, 4)
    hall.replan(mine, demand(), end=3, keep=keep)
    assert hall.promised()[0][:3] == (unit, 0, 3)
    hall.book(demand(), start=3, end=4)


def test_replan_before_the_start_moves_to_other_units(any_hall: Hall) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == unit))
    hall.book(demand(matches=lambda each: each.id == unit), start=1, end=2)
    hall.replan(mine, demand(), start=1, end=3)
    assert hall.promised() == [(unit, 1, 2, 1, 1), (other, 1, 3, 1, 0)]


def test_replan_more_fewer_and_others(hall: Hall) -> None:
    ids = hall.units(3)
    (mine,) = hall.book(demand(matches=lambda each: each.id == ids[1]))
    hall.replan(mine, demand(3))
    assert [row[0] for row in hall.promised()] == ids
    hall.replan(mine, demand(2, matches=lambda each: each.id != ids[1]))
    assert [row[0] for row in hall.promised()] == [ids[0], ids[2]]
    # Both would do; it stays where it is.
    hall.replan(mine, demand(1, matches=lambda each: each.id != ids[0]))
    assert [row[0] for row in hall.promised()] == [ids[2]]


def test_replan_of_a_running_lease_adds_from_now_and_gives_up_from_now(hall: Hall) -> None:
    first, *_ = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == first), end=3)
    hall.begin(25)
    hall.change_unit(first, available=False)
    hall.replan(mine, demand(2), end=3, keep=True)
    old, new = hall.promised()
    assert old[:3] == (first, 0, 3)
    assert 1 <= new[1] < 1.1
    # The one with the lower id stays, though it takes no new promises.
    hall.replan(mine, demand(1), end=3, keep=True, after=HOUR)
    old, new = hall.promised()
    assert (old[:3], 2 <= new[2] < 2.1) == ((first, 0, 4), True)
    # What was given up does not come back: it is being cleaned.
    assert [each.unit_id for each in hall.replan(mine, demand(1, 2), end=5, keep=True)] == [first]
    assert hall.promised()[1] == new


def test_refused_change_of_a_running_lease_says_when_it_would_do(any_hall: Hall) -> None:
    hall = any_hall
    first, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == first), end=9)
    for start, end in ((0, 2), (2, 4), (5, 6)):
        hall.book(demand(matches=lambda each: each.id == other), start=start, end=end)
    hall.begin(25)
    with pytest.raises(exceptions.NotEnough, match='Retry later: capacity is') as refused:
        hall.replan(mine, demand(2), end=9, keep=True)
    assert refused.value.available_from == f'{hall.at(6):%Y-%m-%dT%H:%M:%S.%f}'
    hall.book(demand(matches=lambda each: each.id == other), start=6, end=12)
    with pytest.raises(exceptions.NotEnough, match='at all times until the lease ends') as refused:
        hall.replan(mine, demand(2), end=9, keep=True)
    assert refused.value.available_from is None


@pytest.mark.parametrize(('looks', 'later'), [(0, 8), (explain.MAX_CHECKS, 3)])
def test_refused_change_of_a_running_lease_is_explained_outside_of_its_transaction(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, looks: int, later: int
) -> None:
    """Without looks it is told a time at which there is enough, if not the earliest one."""
    first, *others = hall.units(3)
    (mine,) = hall.book(demand(matches=lambda each: each.id == first), end=9)
    for other, hours in zip(others, (3, 8), strict=True):
        for start in range(hours):
            only = demand(matches=lambda each, unit_id=other: each.id == unit_id)
            hall.book(only, start=start, end=start + 1)
    hall.begin(25)
    monkeypatch.setattr(explain, 'MAX_CHECKS', looks)
    wanted = hall.wanted(mine.reservation_id, demand(2))
    times = hall.at(0), hall.at(9)
    with hall.database.writer() as session, pytest.raises(engine.TransactionRejected) as refused:
        transaction = hall.calendar.transaction(session)
        hall.calendar.reallocate(transaction, [wanted], *times, keep=True)
    error = refused.value.explain()
    assert isinstance(error, exceptions.NotEnough)
    assert error.available_from == dates.serialize(hall.at(later))


def test_refused_change_of_a_running_lease_says_no_time_when_it_is_over(hall: Hall) -> None:
    first, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == first), end=9, after=HOUR)
    hall.book(demand(matches=lambda each: each.id == other), end=9.5)
    hall.begin(25)
    with pytest.raises(exceptions.NotEnough, match='at all times until the lease ends'):
        hall.replan(mine, demand(2), end=9, keep=True, after=HOUR)


def test_replan_of_a_running_lease_grows_in_its_lane(hall: Hall) -> None:
    (unit,) = hall.units()
    hall.book(shares(), end=1)
    (mine,) = hall.book(shares(), end=3)
    hall.begin(25)
    hall.replan(mine, shares(3), end=3, keep=True)
    assert hall.promised() == [(unit, 0, 1, 1, 0), (unit, 0, 3, 3, 1)]
    hall.replan(mine, shares(2), end=3, keep=True)
    assert hall.promised()[1] == (unit, 0, 3, 2, 1)


def test_replan_of_a_running_lease_moves_others_out_of_its_lane(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units(lanes=2)
    (mine,) = hall.book(shares(), end=2)
    hall.book(shares(), start=2, end=3)
    (last,) = hall.book(shares(), start=3, end=5)
    hall.begin(25)
    hall.replan(mine, shares(2), end=4, keep=True)
    assert hall.promised() == [(unit, 0, 4, 2, 0), (unit, 2, 3, 1, 1), (unit, 3, 5, 1, 1)]
    # The memory knows it, and no lane is left.
    assert [each.lane for each in hall.replan(last, shares(), start=3, end=6)] == [1]
    hall.book(shares(), start=4, end=6)
    with pytest.raises(exceptions.NotEnough):
        hall.book(shares(), start=3.5, end=4)
    assert not hall.wrong()


def test_release_frees_from_now_on(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units()
    (running,) = hall.book(demand(), end=3)
    (later,) = hall.book(demand(), start=3, end=4)
    hall.begin(25)
    hall.release(running, 2)
    hall.release(later, 2)
    assert hall.promised() == [(unit, 0, 2, 1, 0)]
    hall.release(running, 2)
    hall.book(demand(), start=2, end=4)


def test_release_leaves_the_time_for_cleaning(hall: Hall) -> None:
    unit, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == unit), end=3, after=HOUR)
    (others,) = hall.book(demand(matches=lambda each: each.id == other), end=2)
    hall.begin(25)
    hall.release(mine, 1, after=1)
    hall.release(others, 1.5, after=1)
    assert [row[1:3] for row in hall.promised()] == [(0, 2), (0, 2.5)]
    hall.book(demand(2), start=2.5, end=3)


@pytest.mark.parametrize('empty', [1.25, 2.5])
def test_unit_that_is_late_is_kept_and_what_is_next_begins_when_it_is_clean(
    any_hall: Hall, empty: float
) -> None:
    hall = any_hall
    hall.units()
    (late,) = hall.book(demand(), end=0.5)
    (waiting,) = hall.book(demand(), start=0.5, end=9)
    hall.begin(25)
    for until in (1.5, 2):
        hall.extend(late, until)
        assert [row[1:3] for row in hall.promised()] == [(0, until), (until, 9)]
    hall.release(waiting, 0.5)
    with pytest.raises(exceptions.NotEnough):
        hall.book(demand(), start=1.75, end=9)
    (waiting,) = hall.book(demand(), start=2, end=9)
    hall.release(late, empty, after=0.25)
    free = empty + 0.25
    assert [row[1:3] for row in hall.promised()] == [(0, free), (free, 9)]
    # The memory knows it.
    hall.replan(waiting, demand(), start=free, end=8)


@pytest.mark.parametrize('change', ['extend', 'release'])
def test_what_others_promise_meanwhile_does_not_overlap_what_is_late(
    server_hall: Hall, change: str
) -> None:
    """The transaction began before that was committed, and MariaDB does not show it there."""
    hall = server_hall
    hall.units()
    (late,) = hall.book(demand(), end=0.5)
    hall.begin(25)
    used = {late.reservation_id: [late.unit_id]}
    booked = []

    def write(session: orm.Session) -> None:
        db_calendar.allocations_of_reservations(session, used, late=True)
        if not booked:
            booked.extend(hall.book(demand(), start=1.5, end=9))
        transaction = hall.calendar.transaction(session)
        if change == 'extend':
            hall.calendar.extend(transaction, used, hall.at(2))
        else:
            hall.calendar.release(transaction, used, hall.at(1.01), HOUR)

    hall.database.write(write)
    first, second = (row[1:3] for row in hall.promised())
    assert first[1] <= second[0]
    assert not hall.wrong()


def test_units_that_are_late_are_told_from_those_that_are_not(hall: Hall) -> None:
    late, empty = hall.units(2)
    (mine, _) = hall.book(demand(2), end=0.5)
    hall.book(demand(2), start=0.5, end=9)
    hall.begin(25)
    mine = mine._replace(unit_id=late)
    hall.extend(mine, 1.5)
    expected = [(late, 0, 1.5), (late, 1.5, 9), (empty, 0, 0.5), (empty, 0.5, 9)]
    assert sorted(row[:3] for row in hall.promised()) == sorted(expected)
    hall.release(mine, 1.25, after=0.25)
    assert [row[:3] for row in hall.promised() if row[0] == empty] == expected[2:]


def test_pieces_that_are_late_are_kept_where_nobody_else_is_promised_them(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units()
    (late,) = hall.book(shares(3), end=0.5)
    hall.book(shares(1), start=0.5, end=2)
    hall.book(shares(2), start=2, end=3)
    hall.begin(25)
    hall.extend(late, 2.5)
    assert hall.promised()[0] == (unit, 0, 2, 3, 0)
    with pytest.raises(exceptions.NotEnough):
        hall.book(shares(1), start=1.75, end=2)


def test_unit_that_was_given_up_is_not_kept(hall: Hall) -> None:
    hall.units(2)
    (mine, _) = hall.book(demand(2), end=2)
    hall.begin(25)
    # It is cleaned for longer than the other one is promised.
    hall.replan(mine, demand(1), end=2, keep=True, after=HOUR)
    hall.replan(mine, demand(1), end=1.5, keep=True)
    given_up = [row[:3] for row in hall.promised() if row[2] != 1.5]
    assert len(given_up) == 1
    hall.extend(mine, 4)
    assert sorted(row[2] for row in hall.promised())[1] == 4
    assert given_up[0] in [row[:3] for row in hall.promised()]


def test_move_replaces_a_unit_that_died(any_hall: Hall) -> None:
    hall = any_hall
    unit, other = hall.units(2)
    (mine,) = hall.book(demand(matches=lambda each: each.id == unit), end=3)
    with pytest.raises(exceptions.NotEnough):
        hall.move(mine, demand(matches=lambda each: each.id == unit))
    assert [each.unit_id for each in hall.move(mine, demand())] == [other]
    assert hall.promised() == [(other, 0, 3, 1, 0)]
    assert hall.move(mine, demand()) == []


def test_move_of_a_running_lease_begins_now(hall: Hall) -> None:
    dead, *others = hall.units(3, capacity={'vcpus': 2})
    (mine, *_) = hall.book(shares(4, matches=lambda each: each.id != others[1]), end=3)
    hall.begin(25)
    hall.move(mine._replace(unit_id=dead), shares(4))
    gone, kept, new = hall.promised()
    assert (gone[0], gone[1], kept) == (dead, 0, (others[0], 0, 3, 2, 0))
    assert 1 <= gone[2] == new[1] < 1.1
    assert (new[0], new[2], new[3]) == (others[1], 3, 2)


def test_changes_in_one_transaction_see_each_other(any_hall: Hall) -> None:
    hall = any_hall
    (unit,) = hall.units()
    (old,) = hall.book(demand(), end=2)

    def write(session: orm.Session) -> None:
        new = [hall.wanted(hall.reserve(session), demand())]
        transaction = hall.calendar.transaction(session)
        with pytest.raises(engine.TransactionRejected):
            hall.calendar.allocate(transaction, new, hall.at(0), hall.at(1))
        hall.calendar.release(transaction, [old.reservation_id], hall.at(-1))
        two = [hall.wanted(hall.reserve(session), shares()) for _ in range(2)]
        hall.calendar.allocate(transaction, two, hall.at(0), hall.at(1))
        hall.calendar.reallocate(transaction, two, hall.at(1), hall.at(3), keep=False)
        hall.calendar.allocate(transaction, new, hall.at(0), hall.at(1))

    hall.database.write(write)
    periods = [(unit, 0, 1, 1, 2), (unit, 1, 3, 1, 0), (unit, 1, 3, 1, 1)]
    assert hall.promised() == periods


def test_promise_that_is_rolled_back_leaves_nothing(any_hall: Hall) -> None:
    hall = any_hall
    hall.units()

    def fail(session: orm.Session) -> None:
        new = [hall.wanted(hall.reserve(session), demand())]
        transaction = hall.calendar.transaction(session)
        hall.calendar.allocate(transaction, new, hall.at(0), hall.at(1))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        hall.database.write(fail)
    assert not hall.promised()
    hall.book(demand())


@pytest.mark.parametrize('units', [1, 30])
def test_promises_cost_the_same_statements_for_any_number_of_units(
    any_hall: Hall, units: int
) -> None:
    hall = any_hall
    hall.units(units)
    hall.check(demand())

    def costs(function: object, *args: object, **kw: object) -> int:
        seen = executed(hall.database, lambda: function(*args, **kw))  # type: ignore[operator]
        own = ('INTO leases', 'INTO reservations')
        return sum(not any(text in each for text in own) for each, _ in seen)

    # The change, the guard, the promises.
    assert costs(hall.book, demand(units)) == 3
    # What the one before has promised is known.
    (mine, *_) = hall.book(demand(units), start=1, end=2)
    assert costs(hall.book, demand(units), start=2, end=3) == 3
    # What has changed, what it has, the guard, delete and write anew.
    assert costs(hall.replan, mine, demand(units), start=1, end=1.5) == 5
    assert costs(hall.release, mine, 0) == 3
    assert costs(hall.check, demand(units), start=1) == 2
    with pytest.raises(exceptions.NotEnough):
        hall.book(demand(units + 1))
