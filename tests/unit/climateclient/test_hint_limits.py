# SPDX-License-Identifier: Apache-2.0
"""Hints that nova-api accepts are accepted by the lease service, and the other way round."""

import contextlib
import datetime

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.api.schemas import leases as schema
from climate_core.exceptions import ClimateError
from climate_core.lease import events, request
from climateclient.extension import hints

NOW = datetime.datetime(2082, 11, 21, 12, 0, tzinfo=datetime.UTC)


def serve(lease):
    """Read the body of POST /v1/leases as the lease service does."""
    jsonschema.Draft202012Validator(
        schema.CREATE, format_checker=jsonschema.FormatChecker()
    ).validate(lease)
    request.read_lease_request(lease, NOW, request.RequestRules(late_start_seconds=60))


def ask(params):
    """Read a hint as nova-api does, and give the body that is sent to the lease service."""
    wanted = hints.parse({'lease_params': params}, NOW, hints.HintRules(('delete',)))
    return {'id': wanted.lease_id, **wanted.lease, 'reservations': []}


def event(kind, **values):
    return {'event_type': kind, 'time': '2082-11-21 13:00', **values}


@pytest.mark.parametrize(
    'params',
    [
        {},
        {'name': ' a name\u00a0with spaces '},
        {'start': '2082-11-21 11:59', 'start_policy': None, 'before_start': None},
        {'start': '2082-11-22 12:00', 'events': [event('before-start.of_it')]},
        {'start': '+1h', 'length': 'PT2H', 'start_policy': 'manual', 'before_start': [600, 60]},
        {'before_end_date': None, 'before_start': []},
        {'length': 7200.0, 'before_start': [600.0, 60]},
        '{"length": 7200.0, "before_start": [6e2]}',
        {'before_end': '2082-11-21 13:00'},
        {'events': [event('before_end_lease')] * 100},
        {'events': [event('x', time='2082-11-21 11:59')]},
    ],
)
def test_accepted_hints_are_accepted_by_the_service(params):
    serve(ask(params))


@pytest.mark.parametrize(
    'params',
    [
        {'start_policy': 'sometimes'},
        {'before_start': [True]},
        {'before_start': [60.5]},
        {'name': 'a\x1bb'},
        {'name': 'a\ud800b'},
        {'events': [event('x')] * 101},
        {'events': [event('x', time='2082-11-21 10:00')]},
        {'events': [event('x', time='2030-11-21 10:00')]},
        *({'events': [event(each)]} for each in sorted(events.RESERVED_TYPES)),
    ],
)
def test_hints_that_the_service_refuses_are_refused(params):
    with pytest.raises(hints.BadHint):
        ask(params)
    with pytest.raises((jsonschema.ValidationError, ClimateError)):
        serve({'name': 'l', 'end_date': '2082-12-21 12:00', **params})


kinds = st.text('aZ09_.-\n', max_size=70) | st.sampled_from(sorted(events.RESERVED_TYPES))
times = st.datetimes(
    datetime.datetime(2082, 11, 21, 11, 58), datetime.datetime(2082, 11, 21, 14)
).map(str)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            'name': st.text(max_size=300),
            'start': times,
            'end': times,
            'before_end': times,
            'events': st.lists(
                st.fixed_dictionaries({'event_type': kinds, 'time': times}), max_size=3
            ),
        },
    )
)
def test_any_accepted_hints_are_accepted_by_the_service(params):
    lease = None
    with contextlib.suppress(hints.BadHint):
        lease = ask(params)
    if lease is not None:
        serve(lease)
