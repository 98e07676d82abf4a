# SPDX-License-Identifier: Apache-2.0
"""Capacity over time against a sum over each unit at each moment."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from climate_core.calendar.series import Step, build_series
from climate_core.db.timeline import EqualAllocations, EqualUnits

SINCE, UNTIL = 10, 20
CPUS = 8


def equal(capacity, available, number):
    return EqualUnits('host', 'default', available, capacity, None, number)


@st.composite
def promises_of_unit(draw):
    """Return (start, end, CPUs or None for all, own): no others beside one that takes all."""
    found = []
    start = 5
    while start < 22 and draw(st.booleans()):
        start += draw(st.integers(0, 4))
        end = start + draw(st.integers(1, 8))
        if draw(st.booleans()):
            found.append((start, end, None, draw(st.booleans())))
        else:
            for _ in range(draw(st.integers(1, 3))):
                first = draw(st.integers(start, end - 1))
                last = draw(st.integers(first + 1, end))
                found.append((first, last, draw(st.integers(1, 2)), draw(st.booleans())))
        start = end
    return found


UNITS = st.lists(st.tuples(st.booleans(), promises_of_unit()), min_size=1, max_size=4)


def grouped(units):
    """Put equal units and promises together as the database does."""
    capacity = {'vcpus': CPUS}
    numbers, found = defaultdict(int), defaultdict(lambda: [0, 0])
    for unit_id, (available, promises) in enumerate(units, 1):
        numbers[available] += 1
        for start, end, cpus, own in promises:
            key = available, cpus and unit_id, start, end, cpus, own
            found[key][0] += 1
            found[key][1] += 1
    promised = [
        EqualAllocations(
            equal(capacity, available, rows),
            unit_id,
            start,
            end,
            cpus and {'vcpus': cpus},
            pieces,
            own,
        )
        for (available, unit_id, start, end, cpus, own), (rows, pieces) in found.items()
    ]
    return [equal(capacity, *each) for each in numbers.items()], promised


def slow(units, time, whole):
    """Sum up what each unit has and what each promise takes at a time."""
    total = promised = own = room = taken = 0
    for available, promises in units:
        now = [each for each in promises if each[0] <= time < each[1]]
        size = 1 if whole else CPUS
        if whole:
            every, mine = int(bool(now)), int(any(each[3] for each in now))
        else:
            every = sum(CPUS if each[2] is None else each[2] for each in now)
            mine = sum(CPUS if each[2] is None else each[2] for each in now if each[3])
        total, promised, own = total + size, promised + every, own + mine
        if available:
            room, taken = room + size, taken + every
    return total, promised, own, max(0, room - taken)


@given(UNITS)
def test_steps_are_the_sum_of_all_promises_at_each_time(units):
    found = build_series(*grouped(units), SINCE, UNTIL)
    assert [(each.kind, each.pool, each.unit) for each in found] == [
        ('host', 'default', 'host'),
        ('host', 'default', 'vcpus'),
    ]
    for each in found:
        assert each.steps[0].time == SINCE
        times = [step.time for step in each.steps]
        assert times == sorted(set(times))
        assert times[-1] < UNTIL
        for one, following in zip(each.steps, each.steps[1:], strict=False):
            assert one[1:] != following[1:]
        for time in range(SINCE, UNTIL):
            (*_, step) = (step for step in each.steps if step.time <= time)
            assert step[1:] == slow(units, time, each.unit == 'host'), time


def test_nothing_promised_is_one_step():
    (found,) = build_series([equal({}, True, 3), equal({}, False, 1)], [], SINCE, UNTIL)
    assert found.steps == [Step(SINCE, 4, 0, 0, 3)]


def test_promises_of_many_equal_units_are_counted_together():
    units = equal({'vcpus': CPUS}, True, 1000)
    promise = EqualAllocations(units._replace(number=600), None, 12, 15, None, 600, True)
    hosts, cpus = build_series([units], [promise], SINCE, UNTIL)
    assert hosts.steps == [
        Step(SINCE, 1000, 0, 0, 1000),
        Step(12, 1000, 600, 600, 400),
        Step(15, 1000, 0, 0, 1000),
    ]
    assert cpus.steps[1] == Step(12, 8000, 4800, 4800, 3200)
