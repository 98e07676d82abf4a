# SPDX-License-Identifier: Apache-2.0
"""What a refusal says of units that a request names one by one."""

import dataclasses
import random
from collections.abc import Collection
from typing import Any

import pytest

from climate_core.calendar import explain
from climate_core.calendar.model import Demand
from tests.unit.calendar.units import GAPS, demand, own_unit, search, timeline


def naming(numbers: Collection[int], **more: Any) -> Demand:
    """Return a demand for all of these units."""
    return demand(
        len(numbers),
        matches=lambda unit: unit.id in numbers,
        names_units=True,
        unit_name=lambda unit: f'unit{unit.id}',
        **more,
    )


@pytest.mark.parametrize(
    ('asked', 'period', 'own', 'names'),
    [
        (naming([1, 2, 3]), (8, 12), False, ['unit1']),
        (naming([1, 2, 3]), (18, 25), False, ['unit1', 'unit2']),
        (naming([3]), (0, 99), False, []),
        # Those that it has are not named by its request.
        (demand(unit_name=lambda unit: f'unit{unit.id}'), (8, 12), False, []),
        (demand(unit_name=lambda unit: f'unit{unit.id}'), (8, 12), True, ['unit1']),
        # Users know no names.
        (demand(names_units=True), (8, 12), False, []),
    ],
)
def test_units_that_others_are_promised_are_named(
    asked: Demand, period: tuple[int, int], own: bool, names: list[str]
) -> None:
    looked = search(asked, *period, own={1: own_unit(1, 1, 0)})
    assert explain.allocated_names(looked, {'host': GAPS}, own) == names


@pytest.mark.parametrize(
    ('first', 'second', 'told'),
    [
        (naming([1, 2]), naming([2]), 'unit2 twice, here and in second'),
        (naming([1]), naming([2]), None),
        # Each has enough of what both name.
        (demand(matches=naming([1, 2]).matches, names_units=True), naming([2]), None),
        (naming([1]), demand(), None),
    ],
)
def test_unit_that_a_request_names_twice_is_a_mistake(
    first: Demand, second: Demand, told: str | None
) -> None:
    searches = [
        search(dataclasses.replace(asked, field=field))
        for asked, field in ((first, 'first'), (second, 'second'))
    ]
    error = explain.Rejection(searches, {'host': GAPS}, random.Random(0)).find_error(0)
    assert (error is None) == (told is None)
    if error is not None and told is not None:
        assert error.field == 'first'
        assert told in error.message


@pytest.mark.parametrize(
    ('asked', 'text'),
    [
        (naming([1]), 'unit1 is disabled'),
        (naming([1, 2]), 'unit1 and unit2 are disabled'),
        (naming([3]), None),
        (demand(), None),
    ],
)
def test_named_units_that_are_disabled_are_told(asked: Demand, text: str | None) -> None:
    units = [timeline(number, available=number > 2).unit for number in (1, 2, 3)]
    lack = explain.find_disabled_units(asked, units)
    assert (lack and lack.text) == text
