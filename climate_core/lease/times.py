# SPDX-License-Identifier: Apache-2.0
"""Read dates and durations of a request by the shared grammar; errors name the field."""

import contextlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from climate_common import dates, durations
from climate_core import exceptions


def date(value: object, now: datetime, field: str) -> datetime:
    """Read a date of a request; InvalidDate names its field."""
    with in_field(field):
        return dates.parse(value, now)


def duration(value: object, field: str = 'duration') -> timedelta:
    """Read a duration of a request; InvalidDuration names its field."""
    with in_field(field):
        return durations.parse(value)


def end_after(start: datetime, duration: timedelta, field: str = 'duration') -> datetime:
    """Return when something ends that lasts so long; InvalidDuration: that is too late."""
    with in_field(field):
        return durations.end(start, duration)


def past(what: str, field: str, now: datetime) -> exceptions.InvalidDate:
    """Return the error of a time that is past; it says what time it is."""
    # In whole seconds that have come: a sentence rounds up, and would name the next one.
    shown = dates.sentence(now.replace(microsecond=0))
    text = f'The {what} must not be in the past: it is {shown} now.'
    return exceptions.InvalidDate(text, field=field)


@contextlib.contextmanager
def in_field(name: str) -> Iterator[None]:
    """Name the field of the request in an error of the grammar.

    :raises climate_core.exceptions.InvalidDate: the block raised that of ``dates``
    :raises climate_core.exceptions.InvalidDuration: the block raised that of ``durations``
    """
    try:
        yield
    except dates.DateError as error:
        raise exceptions.InvalidDate(str(error), field=name) from None
    except durations.DurationError as error:
        raise exceptions.InvalidDuration(str(error), field=name) from None
