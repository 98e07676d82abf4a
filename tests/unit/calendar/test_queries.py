# SPDX-License-Identifier: Apache-2.0
"""Answers of the calendar: whether and when there is room, for whom, and why there is none."""

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_core.calendar.model import Demand, QueuedRequest, Shortage, Unit, Window
from climate_core.db import calendar as db_calendar
from tests.unit.calendar.hall import HOUR, Hall, demand, shares


def no_unit(_unit: Unit) -> bool:
    return False


def test_check_of_a_demand_promises_nothing(hall: Hall) -> None:
    hall.units()
    hall.check(demand())
    with pytest.raises(exceptions.NotEnough):
        hall.check(demand(2))
    assert not hall.promised()


@pytest.mark.parametrize(
    ('least', 'sentence', 'later'),
    [
        (2, 'Only 1 of at least 2 hosts is free', 5),
        (3, 'there is capacity for 2 hosts in all, not for 3.', None),
    ],
)
def test_refusal_says_what_is_missing_and_when_it_is_not(
    hall: Hall, least: int, sentence: str, later: int | None
) -> None:
    hall.units(2)
    hall.book(demand(), start=0, end=2)
    hall.book(demand(2), start=3, end=5)
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.book(demand(least), start=1, end=3)
    error = refused.value
    assert error.field == 'field0'
    assert sentence in error.message
    if later is None:
        assert error.message.startswith('Capacity is insufficient at all times: ')
        assert error.available_from is None
    else:
        start, end = (dates.sentence(hall.at(hours)) for hours in (1, 3))
        assert f' free from {start} to {end}. ' in error.message
        assert error.message.endswith(f'duration from {dates.sentence(hall.at(later))} on.')
        assert error.available_from == dates.serialize(hall.at(later))
    # What RPC makes of it.
    assert type(error)(error.message, **error.kwargs).body == error.body


def test_refusal_has_the_times_of_the_lease_not_of_its_cleaning(hall: Hall) -> None:
    hall.units()
    hall.book(demand(), start=0, end=2, after=2 * HOUR)
    assert hall.promised()[0][1:3] == (0, 4)
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.book(demand(), start=3, end=4, after=HOUR)
    period = f'{dates.sentence(hall.at(3))} to {dates.sentence(hall.at(4))}'
    assert f' free from {period}' in refused.value.message
    assert refused.value.available_from == f'{hall.at(4):%Y-%m-%dT%H:%M:%S.%f}'


def test_units_that_are_disabled_are_not_promised(hall: Hall) -> None:
    hall.units(available=False)
    hall.units(lanes=0)
    with pytest.raises(exceptions.NotEnough) as refused:
        hall.book(demand())
    assert refused.value.available_from is None
    assert 'no host matches. More units match, but are disabled' in refused.value.message


@pytest.mark.parametrize(
    ('wanted', 'sentence'),
    [
        (demand(piece={'vcpus': 64}), 'no host has 64 vcpus; the largest has 4.'),
        (shares(5, single_unit=True), 'no host has 5 vcpus; the largest has 4.'),
        (shares(9), 'there is capacity for 8 hosts in all, not for 9.'),
        (
            shares(3, max_per_unit=1),
            'there is capacity for 2 hosts in all, each on another host, not for 3.',
        ),
        (
            demand(matches=no_unit, find_shortage=lambda units: Shortage(f'{len(units)} lack it')),
            'k it.',
        ),
        (demand(owner=('other', None)), 'no host is in a pool that may be used.'),
    ],
)
def test_refusal_says_what_no_unit_has_although_all_are_taken(
    hall: Hall, wanted: Demand, sentence: str
) -> None:
    hall.units(2, access={'project_ids': ['p'], 'domain_ids': []})
    hall.book(demand(2))
    with pytest.raises(exceptions.NotEnough, match='insufficient at all times') as refused:
        hall.book(wanted)
    assert refused.value.message.endswith(sentence)
    assert (refused.value.field, refused.value.available_from) == ('field0', None)


def test_windows_are_the_earliest_times_with_enough_units(any_hall: Hall) -> None:
    hall = any_hall
    hall.units(2)
    hall.book(demand(), start=0, end=2)
    hall.book(demand(2), start=3, end=5)
    wanted = [hall.wanted('new', demand(2))]

    def windows(length: float, latest: float, limit: int = 9) -> list[float]:
        times = length * HOUR, hall.at(0), hall.at(latest), limit
        found = hall.calendar.find_windows(wanted, *times)
        assert all(each == Window(each.start, each.start + length * HOUR) for each in found)
        return [hall.hours(each.start) for each in found]

    assert windows(1, 9) == [2, 5]
    assert windows(1, 9, limit=1) == [2]
    assert windows(2, 9) == [5]
    assert windows(2, 6.5) == []
    assert windows(2, 1) == []


def test_shortage_has_what_is_missing_and_the_disabled_units_that_would_do(
    hall: Hall,
) -> None:
    (free,) = hall.units()
    (disabled,) = hall.units(available=False)
    hall.units(available=False, capacity={'vcpus': 1})
    big = {'vcpus': 2}
    wanted = demand(4, piece=big, matches=lambda unit: unit.capacity['vcpus'] >= 2)
    answer = hall.calendar.count_missing(hall.wanted('new', wanted), hall.at(0), hall.at(1))
    assert answer == (2, {disabled})
    enough = hall.wanted('new', demand(matches=lambda unit: unit.id == free))
    assert hall.calendar.count_missing(enough, hall.at(0), hall.at(1)) == (0, set())


def test_preempted_leases_are_those_without_whose_promises_there_is_room(any_hall: Hall) -> None:
    hall = any_hall
    hall.units(3)
    booked = [hall.book(demand()) for _ in range(3)]
    ids = [mine.reservation_id for (mine,) in booked]
    rows = hall.database.read(db_calendar.allocations_of_reservations, ids)
    promises = {key: [each for each in rows if each.reservation_id == key] for key in ids}

    def preempted(count: int) -> list[str]:
        wanted = [hall.wanted('new', demand(count))]
        return hall.calendar.find_preempted(wanted, hall.at(0), hall.at(1), promises)

    assert preempted(2) == ids[:2]
    assert preempted(4) == []


def test_leases_that_wait_and_have_enough_are_chosen_in_their_order(hall: Hall) -> None:
    hall.units(2)
    hall.book(demand(), start=0, end=2)

    def waits(name: str, count: int, latest: float = 0) -> QueuedRequest:
        wanted = [hall.wanted(name, demand(count))]
        times = {'start': hall.at(0), 'end': hall.at(1), 'latest': latest * HOUR}
        return QueuedRequest(id=name, project_id='p', demands=wanted, **times)

    found = hall.calendar.find_startable([waits('two', 2, 5), waits('one', 1), waits('none', 1)])
    assert [(each.number, each.seconds) for each in found] == [(0, 7200), (1, 0), (2, None)]
    assert [each.seconds for each in hall.calendar.find_startable([waits('two', 2)])] == [None]
