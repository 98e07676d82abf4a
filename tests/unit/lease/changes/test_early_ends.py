# SPDX-License-Identifier: Apache-2.0
"""Resources that end before their lease, because they could not be extended with it."""

import dataclasses
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.lease import changes, model
from tests.support.leases import HOUR, MINUTE, NOON, lease, reservation

TWO, FOUR, SIX = (NOON + hours * HOUR for hours in (2, 4, 6))


def extended(end: Any = FOUR, **early: Any) -> model.Lease:
    """Return a lease of the resources a and b, some of which end early."""
    one = lease(reservation('a', 'active'), reservation('b', 'active'), status='ACTIVE', end=end)
    return one.with_events(
        *(
            model.new_event('lease', model.END_RESERVATION, at, NOON, key)
            for key, at in early.items()
        )
    )


@pytest.mark.parametrize(
    ('values', 'partial'),
    [
        ({}, False),
        ({'partial': False, 'start_date': TWO}, False),
        ({'partial': True, 'end_date': FOUR}, True),
        ({'partial': True, 'duration': '4h', 'start_date': None}, True),
    ],
)
def test_change_is_partial_if_it_says_so(values: dict[str, Any], partial: bool) -> None:
    assert changes.read_partial(values) is partial


@pytest.mark.parametrize(
    'values', [{}, {'name': 'other'}, {'end_date': None}, {'end_date': FOUR, 'start_date': TWO}]
)
def test_partial_change_that_is_no_extension_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(exceptions.BadRequest, match='partial: must be left out unless') as refused:
        changes.read_partial({'partial': True, **values})
    assert refused.value.field == 'partial'


def test_refused_resources_keep_the_end_that_they_had() -> None:
    after = changes.add_early_ends(extended(TWO, b=NOON + HOUR), extended(FOUR), ['a', 'b'], NOON)
    assert after.early_ends == {'a': TWO, 'b': NOON + HOUR}


def test_resource_that_is_being_freed_has_no_early_end() -> None:
    one = extended(FOUR, a=TWO)
    freed = dataclasses.replace(one.reservations[0], status='deleting')
    assert one.with_reservations(freed).early_ends == {}


@pytest.mark.parametrize(
    ('end', 'partial', 'minutes', 'resumes'),
    [
        (SIX, False, 0, False),
        (SIX, True, 0, True),
        (TWO, False, 0, True),
        # It is due: what has ended is not taken back.
        (SIX, True, 120, False),
    ],
)
def test_resource_ends_with_its_lease_again_if_that_can_be(
    end: Any, partial: bool, minutes: int, resumes: bool
) -> None:
    before = extended(FOUR, a=TWO)
    moved = dataclasses.replace(before, end_date=end)
    after = changes.cancel_early_ends(before, moved, partial, NOON + minutes * MINUTE)
    assert changes.resumed_ends(before, after) == ({'a'} if resumes else set())
    assert after.early_ends == ({} if resumes else {'a': TWO})


def test_partial_change_to_an_earlier_end_is_refused() -> None:
    before = extended(FOUR, a=TWO)
    moved = dataclasses.replace(before, end_date=NOON + 3 * HOUR)
    with pytest.raises(exceptions.BadRequest, match='does not end later'):
        changes.cancel_early_ends(before, moved, True, NOON)
