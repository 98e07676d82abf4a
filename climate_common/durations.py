# SPDX-License-Identifier: Apache-2.0
"""Durations: the one grammar of the API, scheduler hints, Heat properties and commands.

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

from climate_common import limits

#: The forms, for descriptions and help texts.
FORMS = 'seconds, a sum like "90m" or "1d 12h", or ISO 8601 like "PT1H30M"'
SHORTEST = datetime.timedelta(seconds=1)
LONGEST = limits.LONGEST_DURATION

_SECONDS = {'w': 604800, 'd': 86400, 'h': 3600, 'm': 60, 's': 1, '': 1}
_PART = re.compile(r'(\d{1,15})\s*([wdhms]|$)\s*', re.ASCII)
_SUM = re.compile(rf'(?:{_PART.pattern})+', re.ASCII)
_ISO = re.compile(
    r'p(?!$)(?:\d{1,15}w)?(?:\d{1,15}d)?(?:t(?!$)(?:\d{1,15}h)?(?:\d{1,15}m)?(?:\d{1,15}s)?)?',
    re.ASCII,
)


class DurationError(ValueError):
    """A value is not a duration; the text says what would be one."""


def parse(value: object) -> datetime.timedelta:
    """Read a duration.

    :param value: an integer of seconds, or a text in one of the forms of this module
    :returns: from 1 second to 24855 days, which is 68 years
    :raises DurationError: it is none of these
    """
    seconds = _seconds(value)
    if seconds is None or not 1 <= seconds <= LONGEST.total_seconds():
        raise DurationError(
            f'{value!r:.80} is not a duration: it must be {FORMS}, from 1 second to '
            f'{LONGEST.days} days.'
        )
    return datetime.timedelta(seconds=seconds)


def end(start: datetime.datetime, duration: datetime.timedelta) -> datetime.datetime:
    """Return when something ends that starts then and lasts so long.

    :raises DurationError: it would end after the last date of a request
    """
    # Not their sum, which may be later than the last date of Python.
    if duration > limits.LAST_DATE - start:
        last = f'{limits.LAST_DATE:%Y-%m-%d}'
        raise DurationError(f'The duration is too long: the end must not be later than {last}.')
    return start + duration


def display(duration: datetime.timedelta) -> str:
    """Write a duration for people, in its two largest units: ``1d 3h``, ``52s``."""
    left = max(0, round(duration.total_seconds()))
    parts = []
    for unit in 'dhms':
        number, left = divmod(left, _SECONDS[unit])
        if number:
            parts.append(f'{number}{unit}')
    return ' '.join(parts[:2]) or '0s'


def _seconds(value: object) -> int | None:
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
