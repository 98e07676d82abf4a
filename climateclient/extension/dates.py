# SPDX-License-Identifier: Apache-2.0
"""Dates and lengths as users write them in hints. Inside, all is timezone-aware UTC."""

import datetime
import re

from climateclient import times

UTC = datetime.UTC

_PLAIN = re.compile(r'^(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2})(?::(\d{1,2}))?$')
_ISO = re.compile(
    r'^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$'
)
#: What may stand before and after the unit of a length.
_SPACE = re.compile(r'\s+(?=[smhdw])|(?<=[smhdw])\s+')


def parse(text: object, now: datetime.datetime) -> datetime.datetime:
    """Turn the text of a user into a time.

    :param text: ``now``; ``YYYY-MM-DD HH:MM[:SS]`` in UTC, leading zeros may be left out; or
        ISO 8601, which is UTC if it names no offset
    :param now: what ``now`` means
    :raises ValueError: it is none of these, or no day of the calendar
    """
    if not isinstance(text, str):
        raise ValueError(f'{text!r} is not a date')
    text = text.strip()
    if text == 'now':
        return now
    try:
        return _plain(text) or _iso(text)
    except (ValueError, OverflowError):
        raise ValueError(
            f'{text[:80]!r} is not a date; write "now", "YYYY-MM-DD HH:MM" (UTC) or ISO 8601 '
            'with an offset'
        ) from None


def _plain(text: str) -> datetime.datetime | None:
    match = _PLAIN.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(number or 0) for number in match.groups())
    return datetime.datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _iso(text: str) -> datetime.datetime:
    if not _ISO.match(text):
        raise ValueError(text)
    time = datetime.datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_length(text: object) -> datetime.timedelta:
    """Turn ``90m``, ``3h``, ``2d 12h`` into a length of time.

    :param text: as the commands take it (:func:`climateclient.times.parse_duration`), also with
        spaces between the parts
    :raises ValueError: it is not written so, or is nothing
    """
    try:
        return times.parse_duration(_SPACE.sub('', text) if isinstance(text, str) else '')
    except ValueError:
        raise ValueError(
            f'{text!r} is not a length of time; write 90m, 3h, 2d or "2d 12h"'
        ) from None


def show(time: datetime.datetime) -> str:
    """Write a time in ISO 8601 with its offset, as every version of the lease API takes it."""
    return time.astimezone(UTC).isoformat()
