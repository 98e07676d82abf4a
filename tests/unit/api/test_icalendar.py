# SPDX-License-Identifier: Apache-2.0
"""A feed is a calendar that strict programs read, whatever leases the database has."""

import dataclasses
import datetime

from hypothesis import given
from hypothesis import strategies as st

from climate_core.api import calendar_feed
from climate_core.lease.states import LeaseStatus
from tests.support import calendars, leases

START = datetime.datetime(2082, 12, 1, 10, 0, 0, 200_000, datetime.UTC)
TIMES = st.datetimes(timezones=st.just(datetime.UTC))
#: What a database stores: no surrogates, and no NUL.
NAMES = st.text(st.characters(codec='utf-8', exclude_characters='\x00'), max_size=80)


def test_calendar_without_leases_has_a_component() -> None:
    assert calendars.read(calendar_feed.render_calendar('phone', [])).walk('VEVENT') == []


def test_event_within_one_second_has_no_end() -> None:
    for microseconds, shown in ((0, False), (600_000, False), (800_000, True), (-900_000, False)):
        end = START + datetime.timedelta(microseconds=microseconds)
        lease = dataclasses.replace(leases.lease(), start_date=START, end_date=end)
        (event,) = calendars.read(calendar_feed.render_calendar('phone', [(lease, ())])).walk(
            'VEVENT'
        )
        assert f'{event.decoded("dtstart"):%H:%M:%S}' == '10:00:00'
        assert ('dtend' in event) is shown


def test_names_keep_all_but_control_characters() -> None:
    stored, shown = 'a\x7fb\x85c\x9bd\n\u2028e; f, g\\n"', 'a b c d \u2028e; f, g\\n"'
    lease = dataclasses.replace(leases.lease(), name=stored)
    calendar = calendars.read(calendar_feed.render_calendar(stored, [(lease, ())]))
    (event,) = calendar.walk('VEVENT')
    assert [str(event['summary']), str(calendar['x-wr-calname'])] == [shown, shown]


@given(NAMES, NAMES, TIMES, TIMES, TIMES, st.sampled_from(list(LeaseStatus)))
def test_any_stored_lease_is_an_event(
    feed: str,
    name: str,
    start: datetime.datetime,
    end: datetime.datetime,
    changed: datetime.datetime,
    status: LeaseStatus,
) -> None:
    lease = dataclasses.replace(
        leases.lease(),
        name=name,
        start_date=start,
        end_date=end,
        updated_at=changed,
        status=status,
    )
    (event,) = calendars.read(calendar_feed.render_calendar(feed, [(lease, ())])).walk('VEVENT')
    assert event.decoded('dtstart') == start.replace(microsecond=0)
