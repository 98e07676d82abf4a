# SPDX-License-Identifier: Apache-2.0
"""Read the calendar into memory before the first request needs it."""

from typing import ClassVar, Final

from oslo_log import log

from climate_core.calendar.admission import Calendar
from climate_core.db.engine import TROUBLE
from climate_core.threads import Worker

LOG = log.getLogger(__name__)

#: Seconds between two looks: what changed in an hour is read faster than what changed in a month.
_INTERVAL: Final = 600.0


class CalendarReader(Worker):
    """Read the calendar at the start, and now and then what changed, in a thread of its own."""

    name = 'calendar'
    trouble: ClassVar[tuple[type[Exception], ...]] = TROUBLE
    complaint = 'The calendar was not read; each request that needs it reads it'

    def __init__(self, calendar: Calendar) -> None:
        super().__init__(_INTERVAL)
        self._calendar = calendar
        self._told = False

    def look(self) -> None:
        self._calendar.read()
        if not self._told:
            self._told = True
            LOG.info('The calendar is in memory')
