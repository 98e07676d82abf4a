# SPDX-License-Identifier: Apache-2.0
"""The times that a page writes, which its forms read back."""

import datetime
import zoneinfo
from collections.abc import Iterator

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from climate_common import dates
from climate_dashboard import times

UTC = datetime.UTC
HOUR, MINUTE = datetime.timedelta(hours=1), datetime.timedelta(minutes=1)
#: With offsets of hours, halves and quarters; changes by an hour, by two and by half of one.
ZONES = (
    'America/New_York',
    'America/St_Johns',
    'America/Santiago',
    'Africa/Cairo',
    'Antarctica/Troll',
    'Asia/Beirut',
    'Asia/Kathmandu',
    'Australia/Lord_Howe',
    'Europe/Berlin',
    'Europe/Dublin',
    'Pacific/Chatham',
    'UTC',
)


def changes(zone: zoneinfo.ZoneInfo, year: int) -> Iterator[datetime.datetime]:
    """Yield the whole hours of a year around which the clocks of a zone change."""
    time = datetime.datetime(year, 1, 1, tzinfo=UTC)
    while time.year == year:
        after = time + HOUR
        if time.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            yield after
        time = after


def check(time: datetime.datetime) -> None:
    whole = time.astimezone(UTC).replace(second=0, microsecond=0)
    assert times.read(times.write(time)) == whole
    # A time that is copied from another page.
    assert times.read(f' {times.show(time)} ') == whole


@pytest.mark.parametrize('name', ZONES)
def test_times_around_both_changes_of_the_clocks_are_read_as_they_were(name: str) -> None:
    with timezone.override(name):
        zone = zoneinfo.ZoneInfo(name)
        found = list(changes(zone, 2027))
        assert len(found) == (0 if name in ('UTC', 'Asia/Kathmandu') else 2)
        for change in found:
            for minutes in range(-180, 181, 5):
                check(change + minutes * MINUTE)


@given(
    st.datetimes(datetime.datetime(1972, 1, 1), datetime.datetime(8999, 12, 30)),
    st.sampled_from(ZONES),
)
def test_any_time_is_read_as_it_was(time: datetime.datetime, name: str) -> None:
    with timezone.override(name):
        check(time.replace(tzinfo=UTC))
        # One that pages compute: the clocks of the zone may show it twice or never.
        check(time.replace(tzinfo=zoneinfo.ZoneInfo(name)))


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(ZONES))
def test_any_stored_time_is_shown(time: datetime.datetime, name: str) -> None:
    with timezone.override(name):
        assert times.show(time)
        assert times.write(times.round_up(time))


@pytest.mark.parametrize(
    'text',
    [
        '2082-12-01 16:07 CEST',
        '2082-12-01 16:07 EST',
        '2082-12-01 16:07 XYZ',
        '2082-12-01 CET',
        '2082-12-41 16:07 CET',
        # Its clocks never show this.
        '2083-03-28 02:30 CET',
        '2083-03-28 02:30 CEST',
        '0001-01-01 00:00 LMT',
    ],
)
def test_name_of_a_zone_that_no_page_shows_with_this_time_is_rejected(text: str) -> None:
    with timezone.override('Europe/Berlin'), pytest.raises(dates.DateError):
        times.read(text)


def test_only_a_time_that_comes_twice_has_its_offset() -> None:
    with timezone.override('America/New_York'):
        first = datetime.datetime(2083, 11, 7, 5, 30, tzinfo=UTC)
        written = [times.write(first + hours * HOUR) for hours in (-1, 0, 1, 2)]
    assert written == [
        '2083-11-07 00:30',
        '2083-11-07 01:30-04:00',
        '2083-11-07 01:30-05:00',
        '2083-11-07 02:30',
    ]
