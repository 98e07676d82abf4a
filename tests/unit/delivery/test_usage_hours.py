# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.delivery import usage

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)
HOUR, DAY = usage.HOUR, usage.DAY
AMOUNTS = {
    'servers': 1,
    'vcpus': 2,
    'memory_mb': 512,
    'disk_gb': 10,
    'volumes': 3,
    'gigabytes': 30,
    'stacks': 2,
    'hosts': 3,
}


def at(hours: float) -> datetime.datetime:
    return NOON + hours * HOUR


def period(begin: float, end: float) -> usage.Span:
    return usage.Span(at(begin), at(end))


def use(
    held: float, woken: float | None = None, freed: float | None = None, **more: object
) -> usage.ReservationUse:
    made = usage.ReservationUse(
        id='r',
        lease_id='l',
        lease_name='lease1',
        project_id='p',
        user_id='u',
        resource_type='t',
        resource_id='x',
        amounts=AMOUNTS,
        held_at=at(held),
        woken_at=None if woken is None else at(woken),
        freed_at=None if freed is None else at(freed),
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('reservation', 'reserved', 'used'),
    [
        (use(0, 1, 2), 2, 1),
        (use(-5, -4, 2), 2, 2),
        (use(-5, 3, 20), 4, 1),
        (use(1), 3, 0),
        (use(1, 2), 3, 2),
        (use(-5, -4, 0), 0, 0),
        (use(4, 5, 6), 0, 0),
        (use(1, None, 2), 1, 0),
        (use(0, 1, 2, amounts={}), 0, 0),
    ],
)
def test_hours_are_counted_within_the_period(
    reservation: usage.ReservationUse, reserved: float, used: float
) -> None:
    total = usage.sum_lease([reservation], period(0, 4))
    for name, each in (
        ('server_hours', 1),
        ('vcpu_hours', 2),
        ('memory_gib_hours', 0.5),
        ('disk_gb_hours', 10),
        ('volume_hours', 3),
        ('volume_gb_hours', 30),
        ('stack_hours', 2),
        ('host_hours', 3),
    ):
        assert total.reserved[name] == pytest.approx(reserved * each)
        assert total.used[name] == pytest.approx(used * each)


def test_what_was_given_up_is_preempted_until_its_lease_has_it_again() -> None:
    lost = use(-5, -5, 1, lost_until=at(3))
    total = usage.sum_lease([lost], period(0, 4))
    named = (total.reserved, total.used, total.preempted)
    assert [each['host_hours'] for each in named] == [3, 3, 2 * 3]
    before = use(-5, -5, -1, lost_until=at(3))
    (only,) = usage.sum_by_project([before], period(0, 4)).values()
    assert (only.reserved['host_hours'], only.preempted['host_hours']) == (0, 3 * 3)
    weekly = usage.sum_by_week([before], period(0, 4), at(2))
    assert [each.preempted['host_hours'] for each in weekly.values()] == [2 * 3]
    assert usage.sum_by_project([use(-5, -5, -1)], period(0, 4)) == {}


def test_usage_is_summed_by_project() -> None:
    totals = usage.sum_by_project(
        [use(0, 0), use(0, 0, lease_id='m'), use(2), use(0, project_id='q')], period(0, 4)
    )
    assert {name: len(total.leases) for name, total in totals.items()} == {'p': 2, 'q': 1}
    assert totals['p'].reserved['vcpu_hours'] == 2 * (4 + 4 + 2)
    assert totals['p'].used['vcpu_hours'] == 2 * (4 + 4)
    assert totals['q'].used['vcpu_hours'] == 0
    assert usage.sum_by_project([use(0)], period(4, 4)) == {}


@given(st.integers(-5, 20), st.integers(0, 20), st.lists(st.integers(0, 20), max_size=5))
def test_usage_of_periods_adds_up_to_that_of_all(
    created: int, lasts: int, cuts: list[int]
) -> None:
    one = use(created, created, created + lasts)
    bounds = sorted({0, 20, *cuts})
    parts = [
        usage.sum_lease([one], period(begin, end)).used['vcpu_hours']
        for begin, end in itertools.pairwise(bounds)
    ]
    whole = usage.sum_lease([one], period(0, 20)).used['vcpu_hours']
    assert sum(parts) == pytest.approx(whole)


def test_the_first_period_is_the_last_that_is_due() -> None:
    now = at(0.5)
    assert usage.next_period(None, HOUR, now) == period(-1, 0)
    assert usage.next_period(None, HOUR, at(0)) == period(-2, -1)
    assert usage.next_period(None, DAY, now) == period(-36, -12)


def test_one_period_follows_the_other() -> None:
    assert usage.next_period(at(0), HOUR, at(50)) == period(0, 1)
    assert usage.next_period(at(-12), DAY, at(50)) == period(-12, 12)


def test_the_length_is_changed() -> None:
    assert usage.next_period(at(3), DAY, at(50)) == period(3, 12)
    assert usage.next_period(at(12), HOUR, at(50)) == period(12, 13)


def test_month_begins_on_its_first_day() -> None:
    assert usage.month_start(NOON) == datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)


def test_weeks_are_from_monday_to_monday():
    # A Thursday, and the Tuesday after the next week.
    period = usage.Span(utc(2026, 1, 1, 5), utc(2026, 1, 13))
    found = [*usage.split_weeks(period)]
    assert [(each.begin, each.end) for each in found] == [
        (utc(2026, 1, 1, 5), utc(2026, 1, 5)),
        (utc(2026, 1, 5), utc(2026, 1, 12)),
        (utc(2026, 1, 12), utc(2026, 1, 13)),
    ]


def test_past_and_planned_hours_meet_now():
    now = utc(2026, 1, 6)
    use = usage.ReservationUse(
        'r',
        'lease',
        'name',
        'project',
        'user',
        'type',
        'id',
        {'servers': 2},
        held_at=utc(2026, 1, 4),
        woken_at=utc(2026, 1, 5),
        freed_at=None,
        ends_at=utc(2026, 1, 13),
    )
    found = usage.sum_by_week([use], usage.Span(utc(2025, 12, 29), utc(2026, 1, 19)), now)
    told = [
        (week.begin.day, *(kind['server_hours'] / 48 for kind in (t.reserved, t.used, t.planned)))
        for (week, _), t in found.items()
    ]
    assert told == [(29, 1, 0, 0), (5, 1, 1, 6), (12, 0, 0, 1)]
    waits = dataclasses.replace(use, ends_at=None)
    found = usage.sum_by_week([waits], usage.Span(utc(2026, 1, 5), utc(2026, 1, 19)), now)
    assert [total.planned['server_hours'] for total in found.values()] == [0]


def utc(*parts):
    return datetime.datetime(*parts, tzinfo=datetime.UTC)
