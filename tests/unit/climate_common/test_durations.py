# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_common import dates


@pytest.mark.parametrize(
    ('value', 'seconds'),
    [
        (1, 1),
        (5400, 5400),
        (5400.0, 5400),
        ('5400', 5400),
        ('90s', 90),
        ('90m', 5400),
        ('1w', 604800),
        ('1d12h', 129600),
        ('1d 12h', 129600),
        ('30m1h', 5400),
        ('1h1h', 7200),
        ('1 h', 3600),
        ('1h30', 3630),
        ('1w2d3h4m5s', 788645),
        (' 2H ', 7200),
        ('PT1H30M', 5400),
        ('P1DT12H', 129600),
        ('p1w', 604800),
        ('PT0H1S', 1),
        ('24855d', 24855 * 86400),
    ],
)
def test_parse_reads_each_form_of_a_duration(value: object, seconds: int) -> None:
    assert dates.parse_duration(value) == datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    'value',
    [
        float('nan'), float('inf'),
        None, True, 1.5, [], '', ' ', 'P', 'PT', 'P1DT', 'soon', 'h', '-5', '1h-5m', '1 2h',
        '1.5h', 'P1Y', 'P1M', 'PT1.5H', 'PT1M1H', 'PT1H 1M', '3 weeks', '3y',
        '१h', '9' * 30 + 'd',
        0, -1, '0', '0m', 'PT0S', 10**15, 10**400, '999999999w', '24856d', '24855d1s',
    ],
)  # fmt: skip
def test_parse_refuses_and_says_what_would_be_right(value: object) -> None:
    with pytest.raises(dates.DurationError) as caught:
        dates.parse_duration(value)
    assert str(caught.value) == (
        f'{value!r:.80} is not a duration: it must be {dates.DURATION_FORMS}, from 1 second to '
        '24855 days.'
    )


@given(st.text(alphabet='PTpt0123456789wdhmsWDHMS .-', max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with contextlib.suppress(dates.DurationError):
        assert dates.parse_duration(text) >= dates.SHORTEST_DURATION


def test_longest_duration_fits_the_column_of_its_seconds() -> None:
    assert dates.LONGEST_DURATION.total_seconds() < 2**31


def test_end_is_not_later_than_the_last_date() -> None:
    start = datetime.datetime(8999, 1, 1, tzinfo=datetime.UTC)
    assert dates.add_duration(start, datetime.timedelta(days=365)).year == 9000
    for days in (366, 3_000_000):
        with pytest.raises(dates.DurationError, match='must not be later than 9000-01-01'):
            dates.add_duration(start, datetime.timedelta(days=days))


@pytest.mark.parametrize(
    ('seconds', 'displayed'),
    [(0, '0s'), (-5, '0s'), (52, '52s'), (3600, '1h'), (5430, '1h 30m'), (183600, '2d 3h')],
)
def test_display_in_two_units(seconds: int, displayed: str) -> None:
    assert dates.display_duration(datetime.timedelta(seconds=seconds)) == displayed
