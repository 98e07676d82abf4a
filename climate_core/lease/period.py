# SPDX-License-Identifier: Apache-2.0
"""Read the time of a lease: its start, and its end or its duration. Pure."""

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from climate_common import dates, durations
from climate_core import exceptions
from climate_core.lease import times


class Period(NamedTuple):
    """The time of a lease.

    :param start_is_relative: the start was not given, or counts from now: "now", "+2h"
    :param end_is_relative: the end was given so that it counts from now
    :param lasts: the duration, if that was given in place of the end
    """

    start: datetime.datetime
    end: datetime.datetime
    start_is_relative: bool
    end_is_relative: bool
    lasts: datetime.timedelta | None


def read_period(values: Mapping[str, Any], now: datetime.datetime) -> Period:
    """Read the time of a new lease.

    :param values: ``start_date`` (default now), and either ``end_date`` or ``duration``
    :raises climate_core.exceptions.BadRequest: a text has no meaning, or not exactly one of
        end_date and duration is given
    """
    given = [each for each in ('end_date', 'duration') if values.get(each) is not None]
    if len(given) != 1:
        raise exceptions.BadRequest(
            'Exactly one of end_date and duration is needed.',
            field='duration' if given else 'end_date',
        )
    texts = values.get('start_date') or 'now', values.get('end_date')
    with times.in_field('start_date'):
        start = dates.parse(texts[0], now)
    lasts = None
    if given == ['duration']:
        with times.in_field('duration'):
            lasts = durations.parse(values['duration'])
            end = durations.end(start, lasts)
    else:
        with times.in_field('end_date'):
            end = dates.parse(texts[1], now)
    return Period(start, end, dates.is_relative(texts[0]), dates.is_relative(texts[1]), lasts)
