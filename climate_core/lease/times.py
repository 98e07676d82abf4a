# SPDX-License-Identifier: Apache-2.0
"""Dates and durations of a request: the grammar is shared, an error names the field here."""

import contextlib
import datetime
from collections.abc import Iterator

from climate_common import dates, durations
from climate_core import exceptions


def date(value: object, now: datetime.datetime, field: str) -> datetime.datetime:
    """Read a date of a request, as :func:`climate_common.dates.parse` does.

    :raises climate_core.exceptions.InvalidDate: naming the field
    """
    with in_field(field):
        return dates.parse(value, now)


def duration(value: object, field: str = 'duration') -> datetime.timedelta:
    """Read a duration of a request, as :func:`climate_common.durations.parse` does.

    :raises climate_core.exceptions.InvalidDuration: naming the field
    """
    with in_field(field):
        return durations.parse(value)


def end_after(
    start: datetime.datetime, duration: datetime.timedelta, field: str = 'duration'
) -> datetime.datetime:
    """Return when something ends that starts then and lasts so long.

    :raises climate_core.exceptions.InvalidDuration: it would end after the year 9999
    """
    with in_field(field):
        return durations.end(start, duration)


@contextlib.contextmanager
def in_field(name: str) -> Iterator[None]:
    """Name the field of the request in an error of the grammar."""
    try:
        yield
    except dates.InvalidDate as error:
        raise exceptions.InvalidDate(str(error), field=name) from None
    except durations.InvalidDuration as error:
        raise exceptions.InvalidDuration(str(error), field=name) from None
