# SPDX-License-Identifier: Apache-2.0
"""Times of the calendar as numbers."""

import datetime

import pytest

from climate_common import dates

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ('time', 'number'),
    [
        (EPOCH, 0),
        (EPOCH + datetime.timedelta(microseconds=1), 1),
        (EPOCH - datetime.timedelta(seconds=1), -1_000_000),
        (datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC), 3_563_352_000_000_000),
    ],
)
def test_moment_and_time_are_inverse(time, number) -> None:
    assert dates.to_microseconds(time) == number
    assert dates.from_microseconds(number) == time


def test_time_of_forever_is_the_last_time() -> None:
    assert dates.from_microseconds(dates.FOREVER) == LAST
    assert dates.NEVER < dates.to_microseconds(EPOCH.replace(year=1)) < dates.FOREVER
