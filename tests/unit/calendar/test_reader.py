# SPDX-License-Identifier: Apache-2.0
"""The thread that reads the calendar ahead of the first request."""

from unittest import mock

from climate_core.calendar.calendar import CalendarWarmup


def test_reader_reads_at_each_look_and_says_so_once(caplog) -> None:
    calendar = mock.Mock()
    reader = CalendarWarmup(calendar)
    with caplog.at_level('INFO'):
        assert [reader.poll(), reader.poll()] == [None, None]
    assert calendar.refresh.call_count == 2
    assert caplog.messages == ['The calendar is in memory']
