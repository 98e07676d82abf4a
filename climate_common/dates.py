# SPDX-License-Identifier: Apache-2.0
"""Dates and durations: the one grammar of the API, scheduler hints, Heat properties and commands.

===============================  ================================================================
``now``                          the current time of the service that reads it
``+2h``                          a duration from now
``YYYY-MM-DD HH:MM[:SS]``        leading zeros may be left out, fractions of a second be added. In
                                 UTC, except for commands, which read the zone of their machine
``2026-12-01T16:07:00+01:00``    ISO 8601; without an offset as the form above. The offset may be
                                 ``Z`` or ``UTC``, and have the name of its zone behind it
===============================  ================================================================

All of them from 1000-01-01 to 9000-01-01. Inside, every time is timezone-aware UTC, or a number:
whole microseconds since 1970, which the calendar compares fast and exactly.

=======================  ========================================================================
``5400``, ``"5400"``     seconds: a JSON integer, or a number without a unit
``"90m"``, ``"1d 12h"``  a sum of weeks (w), days (d), hours (h), minutes (m) and seconds (s) in
                         any order; blanks may stand before and after a unit. A last number
                         without a unit is seconds: ``"1h30"`` is 3630 seconds
``"PT1H30M"``            ISO 8601, without fractions, years and months, which have no fixed length
=======================  ========================================================================

Upper and lower case mean the same. A day is 24 hours, also when the clocks change.
"""

import datetime
import re
from typing import Final

from climate_common import limits

UTC = datetime.UTC

#: The forms, for descriptions and help texts.
FORMS = (
    '"now", "+2h" (from now), "YYYY-MM-DD HH:MM[:SS]" or ISO 8601 with an offset like '
    '2026-12-01T16:07:00+00:00'
)

#: Of a time as it is written, without its zone.
_LENGTH = len('YYYY-MM-DDTHH:MM:SS.ffffff')
_LAST = datetime.datetime.max.replace(tzinfo=UTC, microsecond=0)
_DATE = re.compile(
    r'(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})'
    r'[ T](?P<hour>\d{1,2}):(?P<minute>\d{1,2})'
    r'(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,6}))?)?'
    r'(?: ?(?P<offset>Z|UTC|[+-]\d{2}:?\d{2})(?: [A-Z]{1,5})?)?',
    re.ASCII,
)


class DateError(ValueError):
    """A value is not a date; the text says what would be one."""


def parse(
    value: object, now: datetime.datetime, zone: datetime.tzinfo | None = UTC
) -> datetime.datetime:
    """Read a date.

    :param value: a text in one of the forms of this module
    :param now: the present, timezone-aware
    :param zone: the zone of a date without an offset; None for the zone of the machine
    :returns: the time in UTC
    :raises DateError: it is none of these, not in the calendar, too early or too late, or shown
        by the clocks of the zone twice or never
    """
    text = value.strip() if isinstance(value, str) else ''
    time = None
    try:
        if is_relative(text):
            ahead = text[1:]
            time = (now + parse_duration(ahead) if text[0] == '+' else now).astimezone(UTC)
        elif match := _DATE.fullmatch(text):
            time = _absolute(match, zone)
    except DateError:
        raise
    except ValueError:
        pass
    except OverflowError:
        time = datetime.datetime.max.replace(tzinfo=UTC)
    if time is None:
        raise DateError(f'{value!r:.80} is not a date: it must be {FORMS}.')
    if not limits.FIRST_DATE <= time <= limits.LAST_DATE:
        raise DateError(
            f'{value!r:.80} is too early or too late: it must be a date from '
            f'{limits.FIRST_DATE:%Y-%m-%d} to {limits.LAST_DATE:%Y-%m-%d}.'
        )
    return time


def is_relative(value: object) -> bool:
    """Return whether a date means another time whenever it is read: ``now``, ``+2h``."""
    text = value.strip().lower() if isinstance(value, str) else ''
    return text == 'now' or text.startswith('+')


def serialize(time: datetime.datetime | str | None) -> str | None:
    """Write a time as the API and the notifications do: UTC, microseconds, no offset.

    :param time: a text is one that has a blank in place of the ``T``, as databases write it
    """
    if time is None:
        return None
    if isinstance(time, str):
        return f'{time[:10]}T{time[11:]}'
    # Nearly all are in UTC, and a list has thousands of them.
    utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return utc.isoformat('T', 'microseconds')[:_LENGTH]


def isoformat(time: datetime.datetime | None) -> str | None:
    """Write a time for programs, in UTC with its offset: ``2026-12-01T15:07:00+00:00``."""
    return None if time is None else time.astimezone(UTC).isoformat()


def round_up(time: datetime.datetime) -> datetime.datetime:
    """Return the first whole second that is not before a time; the last one that there is."""
    whole = time.replace(microsecond=0)
    is_later = time.microsecond and whole < _LAST
    return whole + datetime.timedelta(seconds=1) if is_later else whole


def localize(time: datetime.datetime, zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """Return a time in a zone; in UTC if the calendar ends before that day in the zone.

    :param zone: None for the zone of the machine
    """
    try:
        return time.astimezone(zone)
    except (OverflowError, ValueError):
        return time.astimezone(UTC)


def sentence(time: datetime.datetime) -> str:
    """Format a time for a sentence, in UTC: ``2026-12-21 10:00 UTC``.

    Fractions of a second are rounded up: what is free from then on is free at the time shown.
    """
    whole = round_up(time).astimezone(UTC)
    shown = whole.replace(tzinfo=None).isoformat(' ', 'seconds' if whole.second else 'minutes')
    return f'{shown} UTC'


def display(
    time: datetime.datetime | None, zone: datetime.tzinfo | None = None, is_named: bool = True
) -> str:
    """Format a time for users, with its zone: ``2026-12-01 16:07:00+01:00 CET``.

    Nothing for None, and ``2026-12-01 15:07:00 UTC`` where that is the zone.

    :param zone: None for the zone of the machine
    :param is_named: False: only its offset is shown, to save space
    """
    if time is None:
        return ''
    local = localize(time, zone)
    if local.tzname() == 'UTC':
        return f'{local.replace(tzinfo=None).isoformat(" ", "seconds")} UTC'
    shown, name = local.isoformat(' ', 'seconds'), local.tzname() or ''
    # Zones that have no name are called by their offset.
    return f'{shown} {name}' if is_named and re.fullmatch('[A-Z]{1,5}', name) else shown


def _absolute(match: re.Match[str], zone: datetime.tzinfo | None) -> datetime.datetime:
    year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
    fraction = int((match['fraction'] or '').ljust(6, '0'))
    clock = datetime.datetime(year, month, day, hour, minute, second, fraction)
    if match['offset']:
        offset = match['offset'].replace('UTC', 'Z')
        zone = datetime.datetime.strptime(offset, '%z').tzinfo
    first, last = (_to_utc(clock.replace(fold=fold), zone) for fold in (0, 1))
    if first == last:
        return first
    # A zone with summer time: its clocks skip an hour in spring, and show one twice in autumn.
    shown = max(first, last).astimezone(zone)
    often = 'twice' if shown.replace(tzinfo=None) == clock else 'never'
    raise DateError(f'The clocks here show {clock} {often}: it must have an offset, like {shown}.')


def _to_utc(clock: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    local = clock.astimezone() if zone is None else clock.replace(tzinfo=zone)
    return local.astimezone(UTC)


#: The forms, for descriptions and help texts.
DURATION_FORMS = 'seconds, a sum like "90m" or "1d 12h", or ISO 8601 like "PT1H30M"'
SHORTEST_DURATION = datetime.timedelta(seconds=1)
LONGEST_DURATION = limits.LONGEST_DURATION

_SECONDS = {'w': 604800, 'd': 86400, 'h': 3600, 'm': 60, 's': 1, '': 1}
_PART = re.compile(r'(\d{1,15})\s*([wdhms]|$)\s*', re.ASCII)
_SUM = re.compile(rf'(?:{_PART.pattern})+', re.ASCII)
_ISO = re.compile(
    r'p(?!$)(?:\d{1,15}w)?(?:\d{1,15}d)?(?:t(?!$)(?:\d{1,15}h)?(?:\d{1,15}m)?(?:\d{1,15}s)?)?',
    re.ASCII,
)


class DurationError(ValueError):
    """A value is not a duration; the text says what would be one."""


def parse_duration(value: object) -> datetime.timedelta:
    """Read a duration.

    :param value: an integer of seconds, or a text in one of the forms of this module
    :returns: from 1 second to 24855 days, which is 68 years
    :raises DurationError: it is none of these
    """
    seconds = _read_seconds(value)
    if seconds is None or not 1 <= seconds <= LONGEST_DURATION.total_seconds():
        raise DurationError(
            f'{value!r:.80} is not a duration: it must be {DURATION_FORMS}, from 1 second to '
            f'{LONGEST_DURATION.days} days.'
        )
    return datetime.timedelta(seconds=seconds)


def add_duration(start: datetime.datetime, duration: datetime.timedelta) -> datetime.datetime:
    """Return the end of a time that starts then and has this duration.

    :raises DurationError: it would end after the last date of a request
    """
    # Not their sum, which may be later than the last date of Python.
    if duration > limits.LAST_DATE - start:
        last = f'{limits.LAST_DATE:%Y-%m-%d}'
        raise DurationError(f'The duration is too long: the end must not be later than {last}.')
    return start + duration


def display_duration(duration: datetime.timedelta) -> str:
    """Format a duration for users, in its two largest units: ``1d 3h``, ``52s``."""
    left = max(0, round(duration.total_seconds()))
    parts = []
    for unit in 'dhms':
        number, left = divmod(left, _SECONDS[unit])
        if number:
            parts.append(f'{number}{unit}')
    return ' '.join(parts[:2]) or '0s'


def _read_seconds(value: object) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # JSON has one kind of number: 3600.0 is 3600.
        return int(value) if value % 1 == 0 else None
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    if _ISO.fullmatch(text):
        text = text.translate({ord('p'): None, ord('t'): None})
    elif not _SUM.fullmatch(text):
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

#: Before and after every time.
NEVER: Final = -(2**62)
FOREVER: Final = 2**62


def delta_to_microseconds(delta: datetime.timedelta) -> int:
    """Return a duration in microseconds."""
    return delta // _MICROSECOND


def to_microseconds(time: datetime.datetime) -> int:
    """Return a time as a number."""
    return delta_to_microseconds(time - _EPOCH)


_LAST_MICROSECOND = to_microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC))


def from_microseconds(moment: int) -> datetime.datetime:
    """Return the UTC time of a number; the last possible time for later numbers."""
    return _EPOCH + datetime.timedelta(microseconds=min(moment, _LAST_MICROSECOND))


def format_microseconds(moment: int) -> str:
    """Return a number as a time for users."""
    return sentence(from_microseconds(moment))
