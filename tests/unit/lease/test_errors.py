# SPDX-License-Identifier: Apache-2.0
"""Errors of a request: the first is raised, or all are collected."""

import pytest

from climate_core import exceptions
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field

WRONG = exceptions.BadRequest('end_date: must be a date.', field='end_date')
OTHER = exceptions.NotEnough('None is free.', field='min')


def test_collector_collects_the_errors_of_its_blocks() -> None:
    errors = ErrorCollector()
    with errors.collected():
        raise WRONG
    with errors.collected():
        raise OTHER
    assert errors.found == [WRONG, OTHER]


@pytest.mark.parametrize(
    'error',
    [
        exceptions.ServiceUnavailable('Nova does not answer.'),
        exceptions.Unauthorized('The token is not valid.'),
        ValueError('a bug'),
    ],
)
def test_collector_raises_what_says_nothing_about_the_request(error: Exception) -> None:
    errors = ErrorCollector()
    with pytest.raises(type(error)), errors.collected():
        raise error
    assert errors.found == []


def test_first_error_is_raised() -> None:
    with pytest.raises(exceptions.BadRequest) as caught, RAISE_FIRST.collected():
        raise WRONG
    assert caught.value is WRONG
    assert RAISE_FIRST.found == []


@pytest.mark.parametrize(
    ('place', 'field', 'message', 'told'),
    [
        ('events[2]', 'time', 'time: must be a date.', ('events[2].time', 'events[2].time: must')),
        ('events[2]', 'time', 'It is past.', ('events[2].time', 'It is')),
        ('events[2]', None, 'It is past.', (None, 'It is')),
        ('', 'time', 'time: must be a date.', ('time', 'time: must')),
    ],
)
def test_within_names_the_place_in_the_field_and_in_the_sentence(
    place, field, message, told
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught, prefix_field(place):
        raise exceptions.BadRequest(message, field=field)
    assert (caught.value.field, caught.value.message[: len(told[1])]) == told
