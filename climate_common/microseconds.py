# SPDX-License-Identifier: Apache-2.0
"""Times as whole microseconds since 1970, which compare fast and exactly."""

import datetime
from typing import Final

from climate_common import dates

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


_LAST = to_microseconds(datetime.datetime.max.replace(tzinfo=datetime.UTC))


def from_microseconds(moment: int) -> datetime.datetime:
    """Return the UTC time of a number; the last possible time for later numbers."""
    return _EPOCH + datetime.timedelta(microseconds=min(moment, _LAST))


def format_microseconds(moment: int) -> str:
    """Return a number as a time for users."""
    return dates.sentence(from_microseconds(moment))
