# SPDX-License-Identifier: Apache-2.0
import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climateclient import times

UTC = datetime.UTC
NOW = datetime.datetime(2026, 11, 21, 5, 30, tzinfo=UTC)
BERLIN = zoneinfo.ZoneInfo('Europe/Berlin')


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('now', '2026-11-21T05:30:00+00:00'),
        (' NOW ', '2026-11-21T05:30:00+00:00'),
        ('+2h', '2026-11-21T07:30:00+00:00'),
        ('+1d12h', '2026-11-22T17:30:00+00:00'),
        ('2026-12-01 16:07', '2026-12-01T15:07:00+00:00'),
        ('2026-07-01 16:07', '2026-07-01T14:07:00+00:00'),
        ('2026-12-1 6:07', '2026-12-01T05:07:00+00:00'),
        ('2026-12-01T16:07:08.25', '2026-12-01T15:07:08.250000+00:00'),
        ('2026-12-01T16:07Z', '2026-12-01T16:07:00+00:00'),
        ('2026-12-01 16:07:00 -0530', '2026-12-01T21:37:00+00:00'),
        ('2026-12-01T16:07:00+01:00', '2026-12-01T15:07:00+00:00'),
    ],
)
def test_times(text, expected):
    assert times.parse_time(text, NOW, BERLIN).isoformat() == expected


def test_a_time_without_an_offset_is_in_the_zone_of_the_machine(berlin):
    assert times.parse_time('2026-07-01 16:07', NOW).isoformat() == '2026-07-01T14:07:00+00:00'
    assert times.show_time(NOW) == '2026-11-21 06:30:00+01:00'


@pytest.mark.parametrize(
    'text',
    [
        '',
        'tomorrow',
        '2026-12-01',
        '2026-13-01 10:00',
        '2026-12-01 25:00',
        '2026-12-01 10:00+99:00',
        '+2',
        '+',
        '16:07',
        '20261201T1607',
    ],
)
def test_not_a_time(text):
    with pytest.raises(ValueError, match=r'not a|offset'):
        times.parse_time(text, NOW, BERLIN)


@pytest.mark.parametrize('zone', [BERLIN, None])
def test_an_hour_that_never_comes_or_comes_twice_is_refused(zone, berlin):
    with pytest.raises(ValueError, match='never comes'):
        times.parse_time('2026-03-29 02:30', NOW, zone)
    with pytest.raises(ValueError, match='comes twice'):
        times.parse_time('2026-10-25 02:30', NOW, zone)
    second = times.parse_time('2026-10-25 02:30+01:00', NOW, zone)
    assert times.show_time(second, zone) == '2026-10-25 02:30:00+01:00'


@given(st.datetimes(datetime.datetime(2000, 1, 1), datetime.datetime(2100, 1, 1)))
def test_what_is_shown_can_be_read(moment):
    moment = moment.replace(tzinfo=UTC, microsecond=0)
    assert times.parse_time(times.show_time(moment, BERLIN), NOW, BERLIN) == moment
    assert times.parse_time(times.iso_time(moment), NOW, BERLIN) == moment


@pytest.mark.parametrize(
    ('text', 'seconds'),
    [('90s', 90), ('15m', 900), ('3h', 10800), ('2d', 172800), ('1w', 604800), ('1h30m', 5400)],
)
def test_durations(text, seconds):
    assert times.parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize('text', ['', '3', 'h', '-3h', '3 h', '3y', '0s', '1.5h', '9' * 20 + 'w'])
def test_not_a_duration(text):
    with pytest.raises(ValueError):
        times.parse_duration(text)


@pytest.mark.parametrize(
    ('seconds', 'shown'),
    [(0, '0s'), (-5, '0s'), (52, '52s'), (3600, '1h'), (5430, '1h 30m'), (183600, '2d 3h')],
)
def test_durations_are_shown_in_two_units(seconds, shown):
    assert times.show_duration(datetime.timedelta(seconds=seconds)) == shown
