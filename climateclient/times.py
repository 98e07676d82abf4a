# SPDX-License-Identifier: Apache-2.0
"""Times and durations as people write and read them.

People write in the zone of their machine (the variable TZ counts) unless they give an offset;
they read the same form, with its offset, so what was printed can be typed in again.
"""

import datetime
import re

UTC = datetime.UTC

_SECONDS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
_DURATION = re.compile(r'(?:\d+[smhdw])+')
_PART = re.compile(r'(\d+)([smhdw])')
_TIME = re.compile(
    r'(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})'
    r'[ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<part>\d{1,6}))?)?'
    r' ?(?P<offset>Z|[+-]\d{2}:?\d{2})?'
)

#: What :func:`parse_time` takes, for help texts.
TIME_FORMS = (
    '"now", "+2h" (from now; s, m, h, d or w), "YYYY-MM-DD HH:MM[:SS]" in the local time zone, '
    'or ISO 8601 with an offset (2026-12-01T16:07+01:00)'
)


def parse_duration(text: str) -> datetime.timedelta:
    """Read a duration: ``90s``, ``3h``, ``2d``, ``1w``, or a sum like ``1h30m``.

    A day is 24 hours, also when the clocks change.

    :raises ValueError: it is none, or it is not longer than nothing
    """
    if not _DURATION.fullmatch(text.strip()):
        raise ValueError(
            f'"{text}" is not a duration: write a number with s, m, h, d or w, like 90m or 1d12h.'
        )
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if not seconds:
        raise ValueError('The duration must be longer than nothing.')
    try:
        return datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(f'"{text}" is too long.') from None


def parse_time(
    text: str, now: datetime.datetime, zone: datetime.tzinfo | None = None
) -> datetime.datetime:
    """Read a time.

    :param text: one of the forms of :data:`TIME_FORMS`
    :param now: the present, timezone-aware
    :param zone: the zone of a time without an offset; the machine's own if None
    :returns: the time in UTC
    :raises ValueError: it is not a time, or the local clock shows it twice or never
    """
    text = text.strip()
    if text.lower() == 'now':
        return now.astimezone(UTC)
    if text.startswith('+'):
        return now.astimezone(UTC) + parse_duration(text[1:])
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f'"{text}" is not a time: write {TIME_FORMS}.')
    try:
        clock = _clock(match)
    except ValueError as error:
        raise ValueError(f'"{text}" is not a time: {error}.') from None
    if match['offset']:
        return clock.replace(tzinfo=_offset(match['offset'])).astimezone(UTC)
    return _at(clock, zone)


def show_time(moment: datetime.datetime | None, zone: datetime.tzinfo | None = None) -> str:
    """A time for people: ``2026-12-01 16:07:00+01:00`` in the zone, the machine's if None."""
    if moment is None:
        return ''
    return moment.astimezone(zone).isoformat(sep=' ', timespec='seconds')


def iso_time(moment: datetime.datetime | None) -> str | None:
    """A time for programs: ``2026-12-01T15:07:00+00:00``, always UTC."""
    return None if moment is None else moment.astimezone(UTC).isoformat()


def show_duration(duration: datetime.timedelta) -> str:
    """A duration for people, in its two largest units: ``1d 3h``, ``52s``."""
    left = max(0, round(duration.total_seconds()))
    parts = []
    for unit in 'dhms':
        number, left = divmod(left, _SECONDS[unit])
        if number:
            parts.append(f'{number}{unit}')
    return ' '.join(parts[:2]) or '0s'


def _clock(match: re.Match[str]) -> datetime.datetime:
    return datetime.datetime(
        int(match['year']),
        int(match['month']),
        int(match['day']),
        int(match['hour']),
        int(match['minute']),
        int(match['second'] or 0),
        int((match['part'] or '').ljust(6, '0')),
    )


def _offset(text: str) -> datetime.tzinfo:
    if text == 'Z':
        return UTC
    sign = -1 if text[0] == '-' else 1
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f'"{text}" is not an offset from UTC.')
    return datetime.timezone(sign * datetime.timedelta(hours=hours, minutes=minutes))


def _at(clock: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """When the clock on the wall of a zone shows this."""
    first, second = (_utc(clock.replace(fold=fold), zone) for fold in (0, 1))
    if first == second:
        return first
    shown = first.astimezone(zone).replace(tzinfo=None)
    if shown != clock:
        problem = 'never comes: the clocks are put forward over it'
    else:
        problem = 'comes twice: the clocks are put back'
    raise ValueError(f'{clock} {problem}. Give it with an offset from UTC, like {clock}+01:00.')


def _utc(clock: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    local = clock.astimezone() if zone is None else clock.replace(tzinfo=zone)
    return local.astimezone(UTC)
