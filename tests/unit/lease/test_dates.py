# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import exceptions
from climate_core.lease import dates

NOW = datetime.datetime(2026, 12, 1, 12, 0, 1, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ('text', 'shown'),
    [
        ('now', '2026-12-01T12:00:01.000005'),
        ('2026-12-01 16:07', '2026-12-01T16:07:00.000000'),
        ('2013-12-1 6:7', '2013-12-01T06:07:00.000000'),
        ('2026-12-01 16:07:09', '2026-12-01T16:07:09.000000'),
        (' 2026-12-01 16:07 ', '2026-12-01T16:07:00.000000'),
        ('2026-12-01T16:07:00.000000', '2026-12-01T16:07:00.000000'),
        ('2026-12-01T16:07', '2026-12-01T16:07:00.000000'),
        ('2026-12-01T16:07:00Z', '2026-12-01T16:07:00.000000'),
        ('2026-12-01T16:07:00+01:00', '2026-12-01T15:07:00.000000'),
        ('2026-12-01T16:07:00.25-0530', '2026-12-01T21:37:00.250000'),
        ('2026-12-01 16:07:00+01:00', '2026-12-01T15:07:00.000000'),
    ],
)
def test_what_is_understood(text: str, shown: str) -> None:
    assert dates.show(dates.parse(text, NOW)) == shown


@pytest.mark.parametrize(
    'text',
    [
        *('', 'tomorrow', '2026-13-01 00:00', '2026-02-30 00:00', '2026-12-01', '16:07', None, 7),
        *('2026-12-01 24:01', '2026-12-01 16:07 CET', '0001-01-01T00:00:00+10:00', 'NOW'),
        *('٢٠٢٦-12-01T16:07', '2026-12-01T16:07:00+99:00'),
    ],
)
def test_what_is_not(text: object) -> None:
    with pytest.raises(exceptions.InvalidDate) as caught:
        dates.parse(text, NOW, 'end_date')
    assert caught.value.field == 'end_date'
    assert 'ISO 8601' in caught.value.message


@given(st.datetimes(timezones=st.timezones(), allow_imaginary=False))
def test_iso_round_trip(time: datetime.datetime) -> None:
    offset = time.utcoffset()
    if offset is None or offset.total_seconds() % 60 or not 1 < time.year < 9999:
        return
    parsed = dates.parse(time.isoformat(), NOW)
    assert parsed == time.astimezone(datetime.UTC)
    assert dates.parse(dates.show(parsed), NOW) == parsed


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_an_error_of_the_user(text: str) -> None:
    with contextlib.suppress(exceptions.InvalidDate):
        assert dates.parse(text, NOW).tzinfo is datetime.UTC
