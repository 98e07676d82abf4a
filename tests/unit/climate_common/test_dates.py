# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_common import dates

NOW = datetime.datetime(2082, 12, 1, 12, 0, 1, 5, tzinfo=datetime.UTC)
NEW_YORK = zoneinfo.ZoneInfo('America/New_York')
BERLIN = zoneinfo.ZoneInfo('Europe/Berlin')


@pytest.mark.parametrize(
    ('text', 'serialized'),
    [
        ('now', '2082-12-01T12:00:01.000005'),
        (' NOW ', '2082-12-01T12:00:01.000005'),
        ('+2h', '2082-12-01T14:00:01.000005'),
        ('+ 1d 12h', '2082-12-03T00:00:01.000005'),
        ('+PT30M', '2082-12-01T12:30:01.000005'),
        ('2082-12-01 16:07', '2082-12-01T16:07:00.000000'),
        ('2013-12-1 6:7', '2013-12-01T06:07:00.000000'),
        ('2013-12-1T6:07', '2013-12-01T06:07:00.000000'),
        ('2082-12-01 16:07:09', '2082-12-01T16:07:09.000000'),
        ('2082-12-01 16:07:9.5', '2082-12-01T16:07:09.500000'),
        (' 2082-12-01 16:07 ', '2082-12-01T16:07:00.000000'),
        ('2082-12-01T16:07:00.000000', '2082-12-01T16:07:00.000000'),
        ('2082-12-01T16:07:00,25', '2082-12-01T16:07:00.250000'),
        ('2082-12-01T16:07', '2082-12-01T16:07:00.000000'),
        ('2082-12-01T16:07:00Z', '2082-12-01T16:07:00.000000'),
        ('2082-12-01T16:07:00+01:00', '2082-12-01T15:07:00.000000'),
        ('2082-12-01T16:07:00.25-0530', '2082-12-01T21:37:00.250000'),
        ('2082-12-01 16:07:00 -0530', '2082-12-01T21:37:00.000000'),
    ],
)
def test_parse_reads_each_form_of_a_date(text: str, serialized: str) -> None:
    assert dates.serialize(dates.parse(text, NOW)) == serialized


@pytest.mark.parametrize(
    'value',
    [
        *('', 'tomorrow', '2026-13-01 00:00', '2026-02-30 00:00', '2082-12-01', '16:07', None, 7),
        *(
            '2082-12-01 24:01',
            '2082-12-01 16:07 CET',
            '20261201T1607',
        ),
        *('٢٠٢٦-12-01T16:07', '2082-12-01T16:07:00+99:00', '+', '+h', '-2h', '+9000y'),
        *('2082-12-01 10:00+01:60', '+300000000000s', 'now now', 'x' * 1000),
    ],
)
@pytest.mark.parametrize('zone', [datetime.UTC, BERLIN])
def test_parse_refuses_and_says_what_would_be_right(value, zone) -> None:
    with pytest.raises(dates.DateError) as caught:
        dates.parse(value, NOW, zone)
    assert str(caught.value) == f'{value!r:.80} is not a date: it must be {dates.FORMS}.'


@pytest.mark.parametrize(
    ('text', 'is_date'),
    [
        ('1000-01-01T00:00:00Z', True),
        ('9000-01-01T00:00:00Z', True),
        ('9000-01-01T10:00:00+10:00', True),
        ('0999-12-31T23:59:59.999999Z', False),
        ('9000-01-01T00:00:00.000001Z', False),
        ('8999-12-31T23:59:59-00:01', False),
        ('0001-01-01T00:00:00+10:00', False),
        ('9999-12-31T23:59:59-10:00', False),
    ],
)
@pytest.mark.parametrize('zone', [datetime.UTC, BERLIN, None])
def test_parse_takes_the_dates_that_can_be_stored_and_shown(text, is_date, zone) -> None:
    if is_date:
        assert dates.parse(text, NOW, zone).tzinfo is datetime.UTC
        return
    with pytest.raises(dates.DateError) as caught:
        dates.parse(text, NOW, zone)
    assert str(caught.value) == (
        f'{text!r} is too early or too late: it must be a date from 1000-01-01 to 9000-01-01.'
    )


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('2082-12-01 16:07', '2082-12-01T15:07:00+00:00'),
        ('2026-07-01 16:07', '2026-07-01T14:07:00+00:00'),
        ('2026-07-01T16:07:08.25', '2026-07-01T14:07:08.250000+00:00'),
        ('2082-12-01T16:07Z', '2082-12-01T16:07:00+00:00'),
        ('2026-10-25 02:30+01:00', '2026-10-25T01:30:00+00:00'),
    ],
)
@pytest.mark.parametrize('zone', [BERLIN, None])
def test_date_without_offset_is_in_the_zone(text, expected, zone, berlin) -> None:
    assert dates.isoformat(dates.parse(text, NOW, zone)) == expected


@pytest.mark.parametrize(
    ('text', 'zone', 'often', 'example'),
    [
        ('2026-03-29 02:30', BERLIN, 'never', '2026-03-29 03:30:00+02:00'),
        ('2026-10-25 02:30', BERLIN, 'twice', '2026-10-25 02:30:00+01:00'),
        ('2026-03-29 02:30', None, 'never', '2026-03-29 03:30:00+02:00'),
        ('2026-10-25 02:30', None, 'twice', '2026-10-25 02:30:00+01:00'),
        ('2082-11-01 01:30', NEW_YORK, 'twice', '2082-11-01 01:30:00-05:00'),
    ],
)
def test_parse_refuses_what_the_clocks_show_not_once(text, zone, often, example, berlin) -> None:
    with pytest.raises(dates.DateError) as caught:
        dates.parse(text, NOW, zone)
    told = f'The clocks here show {text}:00 {often}: it must have an offset, like {example}.'
    assert str(caught.value) == told
    assert dates.display(dates.parse(example, NOW), zone).startswith(example)


def test_example_of_an_offset_is_of_utc() -> None:
    with pytest.raises(dates.DateError, match=r'with an offset like \S+\+00:00\.$'):
        dates.parse('soon', NOW)


@pytest.mark.parametrize(
    ('value', 'is_relative'),
    [
        ('now', True),
        (' Now', True),
        ('+2h', True),
        ('2082-12-01 16:07+01:00', False),
        (None, False),
    ],
)
def test_is_relative_tells_dates_that_depend_on_now(value, is_relative) -> None:
    assert dates.is_relative(value) is is_relative


def test_display_names_the_zone_of_the_time(berlin) -> None:
    assert dates.display(NOW) == '2082-12-01 13:00:01+01:00 CET'
    assert dates.display(NOW, datetime.UTC) == '2082-12-01 12:00:01 UTC'
    assert dates.display(NOW, zoneinfo.ZoneInfo('Asia/Tashkent')) == '2082-12-01 17:00:01+05:00'
    assert dates.display(NOW, is_named=False) == '2082-12-01 13:00:01+01:00'
    assert dates.display(None) == ''


@pytest.mark.parametrize(
    ('time', 'sentence'),
    [
        (NOW, '2082-12-01 12:00:02 UTC'),
        (NOW.astimezone(BERLIN).replace(second=0, microsecond=0), '2082-12-01 12:00 UTC'),
        (datetime.datetime.max.replace(tzinfo=datetime.UTC), '9999-12-31 23:59:59 UTC'),
    ],
)
def test_time_in_a_sentence_has_its_zone_and_is_not_too_early(time, sentence) -> None:
    assert dates.sentence(time) == sentence


@given(st.datetimes(timezones=st.just(datetime.UTC)), st.one_of(st.timezones(), st.none()))
def test_any_time_is_shown_in_any_zone(time, zone) -> None:
    assert dates.localize(time, zone) == time
    assert dates.display(time, zone)
    assert dates.sentence(time).endswith(' UTC')


@pytest.mark.parametrize('zone', [zoneinfo.ZoneInfo('Asia/Tokyo'), None])
def test_last_time_is_shown_in_utc_where_its_day_is_out_of_the_calendar(zone, berlin) -> None:
    last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    assert dates.display(last, zone) == '9999-12-31 23:59:59 UTC'


def test_nothing_is_written_as_nothing() -> None:
    assert dates.serialize(None) is None
    assert dates.isoformat(None) is None


@given(st.datetimes(timezones=st.timezones(), allow_imaginary=False))
def test_what_is_written_is_read_as_the_same(time: datetime.datetime) -> None:
    offset = time.utcoffset()
    if offset is None or offset.total_seconds() % 60 or not 1000 <= time.year < 8999:
        return
    parsed = dates.parse(time.isoformat(), NOW)
    assert parsed == time.astimezone(datetime.UTC)
    assert dates.parse(dates.serialize(parsed), NOW) == parsed
    assert dates.parse(dates.isoformat(parsed), NOW, BERLIN) == parsed
    said = dates.parse(dates.sentence(parsed), NOW, BERLIN)
    assert datetime.timedelta(0) <= said - parsed < datetime.timedelta(seconds=1)
    if parsed.year > 1900:  # Before, offsets had seconds.
        assert dates.parse(dates.display(parsed, BERLIN), NOW) == parsed.replace(microsecond=0)


@given(st.text(max_size=40))
def test_any_text_is_a_date_or_refused(text: str) -> None:
    with contextlib.suppress(dates.DateError):
        assert dates.parse(text, NOW).tzinfo is datetime.UTC
