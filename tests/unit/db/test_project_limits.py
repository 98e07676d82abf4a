# SPDX-License-Identifier: Apache-2.0
"""The limits of a project, and what counts for them in each database."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import exceptions
from climate_core.db import project_limits as limits
from climate_core.lease import model
from tests.support import quotas
from tests.support.world import World, user

NOW = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def test_amounts_are_the_sum_of_the_reservations() -> None:
    small = model.new_reservation('l', 't', 'a', {}, NOW, {'servers': 1, 'vcpus': 2, 'disk_gb': 5})
    unknown = model.new_reservation('l', 't', 'b', {}, NOW)
    assert limits.sum_amounts([small, small, unknown], leases=1) == {
        **dict.fromkeys(limits.NAMES, 0),
        'leases': 1,
        'reserved_servers': 2,
        'reserved_vcpus': 4,
    }


def test_up_to_the_limit() -> None:
    limits.enforce_limits({'leases': 3}, {'leases': 2}, {'leases': 1})
    limits.enforce_limits({'leases': -1}, {'leases': 2000}, {'leases': 1})
    limits.enforce_limits({}, {'leases': 2000}, {'leases': 1})


def test_what_adds_nothing_is_fine_above_the_limit_too() -> None:
    used = {'leases': 1, 'reserved_vcpus': 9}
    limits.enforce_limits(
        {'leases': 3, 'reserved_vcpus': 4}, used, {'leases': 1, 'reserved_vcpus': 0}
    )


def test_refusal_names_both_limits_that_are_exceeded() -> None:
    most = {'leases': 1, 'reserved_vcpus': 4}
    with pytest.raises(exceptions.LimitExceeded) as caught:
        limits.enforce_limits(
            most, {'leases': 1, 'reserved_vcpus': 1}, {'leases': 1, 'reserved_vcpus': 4}
        )
    assert caught.value.field == 'leases'
    assert 'reserved_vcpus: 4 more would exceed the limit of 4, 1 in use' in caught.value.message


def held(hours: float, vcpus: int) -> limits.HeldAmounts:
    return limits.HeldAmounts(NOW + hours * HOUR, {'leases': 1, 'reserved_vcpus': vcpus})


@pytest.mark.parametrize(
    ('vcpus', 'expected'), [(1, 0), (2, 1), (5, 1), (6, 2), (10, 3), (11, None)]
)
def test_when_there_is_room(vcpus: int, expected: float | None) -> None:
    running = [held(2, 4), held(1, 4), held(3, 1)]
    time = limits.available_from({'reserved_vcpus': 10}, {'reserved_vcpus': vcpus}, running, NOW)
    assert time == (None if expected is None else NOW + expected * HOUR)


def test_a_lease_that_is_hard_to_free_makes_room_now_at_the_earliest() -> None:
    most, adding = {'leases': 1}, {'leases': 1}
    assert limits.available_from(most, adding, [held(-1, 0)], NOW) == NOW


@given(
    st.integers(0, 10),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), max_size=6),
)
def test_the_time_is_the_first_at_which_it_fits(
    most: int, vcpus: int, running: list[tuple[int, int]]
) -> None:
    def fits(hours: int) -> bool:
        return sum(count for end, count in running if end > hours) + vcpus <= most

    leases = [held(end, count) for end, count in running]
    time = limits.available_from({'reserved_vcpus': most}, {'reserved_vcpus': vcpus}, leases, NOW)
    expected = next((hours for hours in range(6) if fits(hours)), None)
    assert time == (None if expected is None else NOW + expected * HOUR)


#: What one resource of :class:`tests.support.quotas.Servers` holds.
EACH = {'reserved_servers': 1, 'reserved_vcpus': 2, 'reserved_memory_mb': 512}


def test_leases_and_what_their_resources_hold_are_counted(any_world: World) -> None:
    quotas.limit(any_world)
    assert any_world.database.read(limits.count_used, 'project1') == dict.fromkeys(limits.NAMES, 0)
    any_world.create('a', 'b')
    any_world.create()
    any_world.create('c')
    any_world.create('d', context=user('project2'))
    held = {name: 3 * number for name, number in EACH.items()}
    counted = {'leases': 3, **held}
    assert (
        any_world.database.read(limits.count_used, 'project1')
        == dict.fromkeys(limits.NAMES, 0) | counted
    )
