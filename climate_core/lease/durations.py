# SPDX-License-Identifier: Apache-2.0
"""Lengths of time as users write them."""

import datetime
import re

from climate_core import exceptions

_SHORT = re.compile(
    r'(?:(?P<weeks>\d{1,9})w)?(?:(?P<days>\d{1,9})d)?(?:(?P<hours>\d{1,9})h)?'
    r'(?:(?P<minutes>\d{1,9})m)?(?:(?P<seconds>\d{1,12})s?)?',
    re.IGNORECASE | re.ASCII,
)
#: ISO 8601 without years and months, which have no fixed length.
_ISO = re.compile(
    r'P(?!$)(?:(?P<weeks>\d{1,9})W)?(?:(?P<days>\d{1,9})D)?'
    r'(?:T(?!$)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?(?:(?P<seconds>\d{1,12})S)?)?',
    re.IGNORECASE | re.ASCII,
)
_MEANING = 'write seconds, or "90m", "1d12h", or ISO 8601 as "PT1H30M"'


def parse(value: object, field: str = 'duration') -> datetime.timedelta:
    """Turn what a user wrote into a length of time of at least one second.

    :param value: an integer of seconds; weeks, days, hours, minutes and seconds as ``1w2d3h4m5s``,
        each part but one may be left out; or ISO 8601 without years and months
    :param field: name of the request's field, for the error
    :raises climate_core.exceptions.InvalidDuration: it is none of these, or zero, or longer than
        the calendar
    """
    length = _read(value)
    if length is None:
        raise exceptions.InvalidDuration(f'{value!r:.80} is no duration: {_MEANING}.', field=field)
    if length < datetime.timedelta(seconds=1):
        raise exceptions.InvalidDuration('It must last a second at least.', field=field)
    return length


def _read(value: object) -> datetime.timedelta | None:
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.timedelta(seconds=value)
        text = value.strip() if isinstance(value, str) else ''
        match = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
        if not text or match is None:
            return None
        return datetime.timedelta(**{k: int(v) for k, v in match.groupdict().items() if v})
    except OverflowError:
        return None


def after(
    start: datetime.datetime, length: datetime.timedelta, field: str = 'duration'
) -> datetime.datetime:
    """Return when something ends that starts then and lasts so long.

    :raises climate_core.exceptions.InvalidDuration: it would end after the year 9999
    """
    try:
        return start + length
    except OverflowError as exc:
        raise exceptions.InvalidDuration('It ends after the year 9999.', field=field) from exc
