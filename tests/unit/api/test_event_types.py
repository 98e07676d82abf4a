# SPDX-License-Identifier: Apache-2.0
"""The API and the manager agree on the types of events that a user may give."""

import datetime

import pytest

from climate_core import exceptions
from climate_core.api import validation
from climate_core.api.schemas import leases
from climate_core.lease import request

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)


def body(event_type: str) -> dict[str, object]:
    event = {'event_type': event_type, 'time': '2099-01-01 09:00'}
    return {'name': 'n', 'end_date': '2099-01-01 10:00', 'events': [event]}


@pytest.mark.parametrize(
    'event_type', ['x', 'half_time', 'half-time', 'mail.2', 'error', 'x' * 66]
)
def test_event_type_is_taken_by_schema_and_request(event_type: str) -> None:
    validation.check(body(event_type), leases.CREATE)
    assert (
        request.read_lease_request(body(event_type), NOON, request.RequestRules()).events[0][0]
        == event_type
    )


@pytest.mark.parametrize(
    'event_type',
    [
        *('', 'X', '1x', '_x', '.x', 'a b', 'ä', 'x' * 67),
        *('end_lease', 'before_start_lease', 'end_lease.error', 'x.stop'),
    ],
)
def test_event_type_is_refused_by_schema_and_request(event_type: str) -> None:
    with pytest.raises(exceptions.BadRequest):
        validation.check(body(event_type), leases.CREATE)
    with pytest.raises(exceptions.BadRequest):
        request.read_lease_request(body(event_type), NOON, request.RequestRules())


@pytest.mark.parametrize('event_type', ['x\n', 'end_lease\n', 'x' * 66 + '\n'])
def test_the_api_refuses_a_line_end(event_type: str) -> None:
    with pytest.raises(exceptions.BadRequest):
        validation.check(body(event_type), leases.CREATE)
