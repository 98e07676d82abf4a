# SPDX-License-Identifier: Apache-2.0

import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import exceptions
from climate_core.lease import durations


@pytest.mark.parametrize(
    ('value', 'seconds'),
    [
        (1, 1),
        (5400, 5400),
        ('5400', 5400),
        ('90s', 90),
        ('90m', 5400),
        ('1d12h', 129600),
        ('1w2d3h4m5s', 788645),
        (' 2H ', 7200),
        ('PT1H30M', 5400),
        ('P1DT12H', 129600),
        ('p1w', 604800),
        ('PT0H1S', 1),
    ],
)
def test_what_users_write(value: object, seconds: int) -> None:
    assert durations.parse(value) == datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    'value',
    [
        None, True, 1.5, [], '', ' ', 'P', 'PT', 'P1DT', 'soon', '-5', '1h-5m', '5m1h', '1.5h',
        'P1Y', 'P1M', 'PT1.5H', '1 h', '١h', '9' * 13,
        0, -1, '0', '0m', 'PT0S', 10**15, 10**400, '999999999w',
    ],
)  # fmt: skip
def test_what_is_none(value: object) -> None:
    with pytest.raises(exceptions.InvalidDuration) as caught:
        durations.parse(value, 'lasts')
    assert caught.value.field == 'lasts'
    assert len(caught.value.message) < 200


@given(st.text(alphabet='PTpt0123456789wdhmsWDHMS .-', max_size=12))
def test_any_text_is_a_length_or_refused(text: str) -> None:
    with contextlib.suppress(exceptions.InvalidDuration):
        assert durations.parse(text) >= datetime.timedelta(seconds=1)


def test_the_end_of_the_calendar() -> None:
    start = datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC)
    assert durations.after(start, datetime.timedelta(days=1)).day == 2
    with pytest.raises(exceptions.InvalidDuration):
        durations.after(start, datetime.timedelta(days=400))
