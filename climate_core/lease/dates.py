# SPDX-License-Identifier: Apache-2.0
"""Dates as users write them, and as they are answered. Inside, all is timezone-aware UTC."""

import datetime
import re

from climate_core import exceptions

UTC = datetime.UTC

_PLAIN = re.compile(
    r'^(\d{4})-(\d{1,2})-(\d{1,2})[ ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?$'
)
_ISO = re.compile(
    r'^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$'
)
_MEANING = (
    'write "now", "YYYY-MM-DD HH:MM" (UTC) or '
    'ISO 8601 with an offset, as 2026-12-01T16:07:00+01:00'
)


def parse(text: object, now: datetime.datetime, field: str | None = None) -> datetime.datetime:
    """Turn the text of a user into a time.

    :param text: ``now``; ``YYYY-MM-DD HH:MM[:SS[.ffffff]]`` in UTC, zeros may be left out; or
        ISO 8601, which is UTC if it names no offset
    :param now: what ``now`` means
    :param field: name of the request's field, for the error
    :raises climate_core.exceptions.InvalidDate: it is none of these, or no day of the calendar
    """
    if not isinstance(text, str):
        raise exceptions.InvalidDate(f'{text!r} is not a date: {_MEANING}', field=field)
    text = text.strip()
    if text == 'now':
        return now
    try:
        return _plain(text) or _iso(text)
    except (ValueError, OverflowError):
        raise exceptions.InvalidDate(f'{text[:80]!r} is not a date: {_MEANING}', field=field)


def _plain(text: str) -> datetime.datetime | None:
    match = _PLAIN.match(text)
    if not match:
        return None
    *numbers, fraction = match.groups()
    year, month, day, hour, minute, second = (int(n or 0) for n in numbers)
    micro = int((fraction or '').ljust(6, '0'))
    return datetime.datetime(year, month, day, hour, minute, second, micro, UTC)


def _iso(text: str) -> datetime.datetime:
    if not _ISO.match(text):
        raise ValueError(text)
    time = datetime.datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def show(time: datetime.datetime | None) -> str | None:
    """Write a time as the API and the notifications do: UTC, microseconds, no offset."""
    if time is None:
        return None
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')
