# SPDX-License-Identifier: Apache-2.0
"""The request for a lease: what is read of it, and what a schema cannot refuse."""

import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import request
from climate_core.lease.request import ErrorCollector
from tests.support.leases import HOUR, MINUTE, NOON

RULES = request.RequestRules(max_retries=5, best_effort_timeout=600)
END = {'end_date': '2082-12-01 14:00'}


def read(values, errors=None, **more):
    errors = {'errors': errors} if errors else {}
    return request.read_lease_request({'name': 'lease1', **values}, NOON, RULES, **errors, **more)


@pytest.mark.parametrize(
    ('values', 'fields'),
    [
        (END, {'start': NOON, 'end': NOON + 2 * HOUR, 'start_is_relative': True}),
        (END, {'before_end': NOON + HOUR, 'lasts': None, 'kind': None, 'identified': False}),
        (
            {'duration': '3h', 'start_date': '2082-12-01 13:00'},
            {'end': NOON + 4 * HOUR, 'lasts': 3 * HOUR, 'start_is_relative': False},
        ),
        ({'end_date': '+1h'}, {'end': NOON + HOUR, 'end_is_relative': True, 'before_end': NOON}),
        ({**END, 'before_start': [60, 3600, 60]}, {'before_start': (3600, 60)}),
        ({**END, 'idempotency_key': 'k'}, {'identified': True}),
        ({**END, 'kind': 'retry', 'max_retries': 5, 'priority': 9}, {'max_retries': 5}),
        (
            {**END, 'events': [{'event_type': 'note', 'time': '+1h'}]},
            {'events': (('note', NOON + HOUR),)},
        ),
        (
            {**END, 'before_end_notification': '2082-12-01 13:30'},
            {'before_end': NOON + HOUR * 1.5},
        ),
    ],
)
def test_read_request_returns_fields(values, fields) -> None:
    asked = read(values)
    assert {name: getattr(asked, name) for name in fields} == fields


@pytest.mark.parametrize(
    ('values', 'field', 'text'),
    [
        ({}, 'end_date', 'Exactly one of'),
        ({**END, 'duration': '1h'}, 'duration', 'Exactly one of'),
        ({'end_date': 'later'}, 'end_date', "'later' is not a date"),
        ({'end_date': '2082-12-01 12:00'}, 'end_date', 'must be after the start'),
        ({'end_date': '2082-12-01 11:59', 'start_date': '-'}, 'start_date', "'-' is not a date"),
        ({**END, 'start_date': '2082-12-01 11:54'}, 'start_date', 'past'),
        ({**END, 'name': ' '}, 'name', 'must be a text'),
        ({**END, 'start_policy': 'never'}, 'start_policy', 'auto or manual'),
        ({**END, 'kind': 'soon'}, 'kind', 'must be one of'),
        ({**END, 'max_retries': 1}, 'max_retries', 'kind'),
        ({**END, 'kind': 'retry', 'max_retries': 0}, 'max_retries', 'integer from 1'),
        ({**END, 'kind': 'retry', 'max_retries': True}, 'max_retries', 'integer from 1'),
        ({**END, 'kind': 'retry', 'max_retries': 6}, 'max_retries', 'at most 5'),
        ({**END, 'kind': 'retry', 'priority': 10}, 'priority', 'integer from 0 to 9'),
        ({**END, 'priority': 1}, 'priority', 'kind'),
        ({**END, 'best_effort_timeout': 9}, 'best_effort_timeout', 'kind'),
        (
            {**END, 'kind': 'best_effort', 'best_effort_timeout': 601},
            'best_effort_timeout',
            'at most 600',
        ),
        ({**END, 'before_end_date': '2082-12-01 15:00'}, 'before_end_date', 'between the start'),
        ({**END, 'before_start': [0]}, 'before_start', 'integers'),
        (
            {**END, 'events': [{'event_type': 'note', 'time': '+3h'}]},
            'events[0].time',
            'after the end',
        ),
        (
            {
                **END,
                'events': [
                    {'event_type': 'note', 'time': '+1h'},
                    {'event_type': 'late', 'time': '2082-12-01 11:00'},
                ],
            },
            'events[1].time',
            'event late must not be in the past',
        ),
        (
            {**END, 'events': [{'event_type': 'end_lease', 'time': 'now'}]},
            'events[0].event_type',
            'end_lease',
        ),
        ({**END, 'webhook': 'http://x/'}, 'webhook', 'must be an object'),
    ],
)
def test_read_request_refuses_and_names_field(values, field, text) -> None:
    with pytest.raises(exceptions.ClimateError, match=text) as caught:
        read(values)
    assert caught.value.field == field


def test_collector_gets_all_mistakes_at_once() -> None:
    errors = ErrorCollector()
    read({**END, 'kind': 'soon', 'start_policy': 'never', 'name': ''}, errors)
    assert {each.field for each in errors.found} == {'kind', 'start_policy', 'name'}


def test_request_for_a_lease_that_is_there_may_be_past_and_over_limits() -> None:
    values = {'kind': 'retry', 'max_retries': 6, 'start_date': '2082-12-01 10:00'}
    asked = read({**values, 'end_date': '2082-12-01 11:00'}, new=False)
    assert (asked.end, asked.max_retries) == (NOON - HOUR, 6)


@pytest.mark.parametrize(
    ('minutes', 'before_end'),
    [(0, None), (30, NOON + 2 * HOUR - 30 * MINUTE), (600, NOON)],
)
def test_time_before_end_is_that_of_the_operator_within_the_lease(minutes, before_end) -> None:
    rules = request.RequestRules(minutes_before_end=minutes)
    asked = request.read_lease_request({'name': 'lease1', **END}, NOON, rules)
    assert asked.before_end == before_end
    assert asked.start == NOON.replace(tzinfo=datetime.UTC)
