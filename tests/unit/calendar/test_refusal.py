# SPDX-License-Identifier: Apache-2.0
"""The errors of demands that cannot be promised, by tables; those of requests: test_admission."""

import dataclasses
import random

import pytest

from climate_core import exceptions
from climate_core.calendar.explain import Rejection
from climate_core.calendar.search import InsufficientCapacity
from tests.unit.calendar.units import GAPS, demand, search, timeline

SECOND = 1_000_000


def refused(wanted, timelines, count=0, field='min', noun='hosts'):
    one = dataclasses.replace(wanted, field=field, noun=noun)
    place = search(one, 10 * SECOND, 20 * SECOND)
    request = Rejection([place], {'host': timelines}, random.Random(0))
    return request.explain(InsufficientCapacity(0, count))


@pytest.mark.parametrize(
    ('wanted', 'timelines', 'count', 'text', 'available'),
    [
        (
            demand(),
            [timeline(1, (0, 30 * SECOND))],
            0,
            'None of the hosts that match are free from 1970-01-01 00:00:10 UTC '
            'to 1970-01-01 00:00:20 UTC. Capacity is sufficient for the same duration from '
            '1970-01-01 00:00:30 UTC on.',
            '1970-01-01T00:00:30.000000',
        ),
        (demand(3), GAPS, 2, 'Only 2 of at least 3 hosts are free from 1970-01-01 00:00:10', None),
        (
            demand(4),
            GAPS,
            3,
            'Capacity is insufficient at all times: there is capacity for 3',
            None,
        ),
    ],
)
def test_refusal_says_when_there_is_enough_or_why_never(
    wanted, timelines, count, text, available
) -> None:
    error = refused(wanted, timelines, count)
    assert isinstance(error, exceptions.NotEnough)
    assert (error.field, error.available_from) == ('min', available)
    assert text in error.message


@pytest.mark.parametrize(
    ('least', 'count', 'one_unit', 'text'),
    [
        (1, 0, False, 'There is no capacity for a server of this shape from 1970-01-01'),
        (1, 0, True, 'There is no capacity for a server of this shape from 1970-01-01'),
        (4, 0, False, 'There is no capacity for any of 4 servers of this shape from 1970-01-01'),
        (4, 3, False, 'There is capacity for 3 of 4 servers of this shape from 1970-01-01'),
        (4, 0, True, 'There is no capacity for 4 servers of this shape on one host from 1970'),
    ],
)
def test_refusal_speaks_of_room_for_servers(least, count, one_unit, text) -> None:
    wanted = demand(least, piece={'vcpus': 1}, single_unit=one_unit)
    error = refused(wanted, [timeline(1, (0, 30 * SECOND))], count, noun='servers')
    assert error.message.startswith(text)


@pytest.mark.parametrize(
    ('wanted', 'error', 'field'),
    [
        (demand(pool='b'), exceptions.HostPoolNotFound, 'reservations[1].pool'),
        (
            demand(property_fields={'gpu': 'resources'}),
            exceptions.BadRequest,
            'reservations[1].resources',
        ),
    ],
)
def test_demand_for_what_nothing_has_is_a_mistake(wanted, error, field) -> None:
    found = refused(wanted, [timeline(1, properties={'vcpus': 4})], field='reservations[1].min')
    assert isinstance(found, error)
    assert found.field == field
