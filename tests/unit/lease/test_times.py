# SPDX-License-Identifier: Apache-2.0
"""The grammar is tested in tests/unit/climate_common; here is what the lease service adds."""

import datetime

import pytest

from climate_core import exceptions
from climate_core.lease import request

NOW = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)


def test_relative_dates_and_durations_agree() -> None:
    hour = request.read_duration('PT1H')
    assert (
        request.read_date('+1h', NOW, 'start_date') == NOW + hour == request.end_after(NOW, hour)
    )


@pytest.mark.parametrize(
    ('kind', 'read'),
    [
        (exceptions.InvalidDate, lambda: request.read_date('soon', NOW, 'given')),
        (exceptions.InvalidDuration, lambda: request.read_duration('long', 'given')),
        (
            exceptions.InvalidDuration,
            lambda: request.end_after(NOW, datetime.timedelta(days=3000000), 'given'),
        ),
    ],
)
def test_error_names_the_field(kind, read) -> None:
    with pytest.raises(kind) as caught:
        read()
    assert caught.value.field == 'given'
    assert 'must' in caught.value.message


def test_past_time_is_compared_with_a_second_that_has_come() -> None:
    error = request.past_date_error('end', 'end_date', NOW + datetime.timedelta(milliseconds=400))
    assert error.message.endswith('it is 2082-12-01 12:00 UTC now.')
