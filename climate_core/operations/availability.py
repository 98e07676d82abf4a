# SPDX-License-Identifier: Apache-2.0
"""Availability: tell when the calendar could promise what a request asks for."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from oslo_utils import uuidutils

from climate_common import dates
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import times
from climate_core.operations import forecasting
from climate_core.operations.build import Builder
from climate_core.operations.promises import Promises
from climate_core.operations.reserve import Reserver
from climate_core.plugins.common_pool.emptying import RunningServer

#: How far ahead windows are searched by default, and at most.
_USUAL: Final = timedelta(days=30)
_FARTHEST: Final = timedelta(days=366)
#: How many windows are found by default.
_WINDOWS: Final = 5


def find_windows(
    builder: Builder,
    promises: Promises,
    cloud: forecasting.UserConnector | None,
    context: RequestContext,
    values: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the earliest times in which a lease would be granted.

    :param values: ``reservations`` and ``duration``; perhaps ``from`` (default now), ``to`` (when
        the lease ends at the latest; default 30 days later) and ``limit``
    :param cloud: tells what is free for servers that are not made yet; None: nobody can
    :returns: ``start_date`` and ``end_date`` of each, the earliest first, and whether the calendar
        guarantees it or it is only expected; of times that follow each other without a break
        only the first
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    now = builder.clock.now()
    length = times.duration(values['duration'])
    late = timedelta(seconds=builder.conf.manager.late_start_seconds)
    earliest, latest = _read_period(values, now, late, length)
    limit = values.get('limit', _WINDOWS)
    if any('server' in each for each in values['reservations']):
        servers = _servers(cloud, context, values['reservations'])
        assert cloud is not None, 'it told what the servers are'  # nosec B101 # for mypy: it holds already
        forecast = forecasting.Expectation(builder.database, cloud).forecast()
        expected = forecasting.find(forecast, servers, length, earliest, latest, limit)
        return [_serialize_window(*each, guaranteed=False) for each in expected]
    reserver = Reserver(builder.plugins, context, uuidutils.generate_uuid(), now, builder.conf)
    items, _ = reserver.reserve_items(values['reservations'])
    for item in items:
        if item.reservation.unit_kind is None:
            raise exceptions.BadRequest(
                f'{item.field}.resource_type: of {item.reservation.resource_type} no calendar is '
                'kept; whether it can be reserved shows when it is.',
                field=f'{item.field}.resource_type',
            )
    found = promises.windows(items, length, earliest, latest, limit)
    return [_serialize_window(each.start, each.end, guaranteed=True) for each in found]


def _read_period(
    values: Mapping[str, Any], now: datetime, late: timedelta, length: timedelta
) -> tuple[datetime, datetime]:
    """Return when a lease of this length starts at the earliest and ends at the latest.

    :param late: how long ago the start may be
    :raises climate_core.exceptions.BadRequest: naming the field that was given
    """
    since = times.date(values.get('from') or 'now', now, 'from')
    if since < now - late:
        # A lease could not start then either.
        raise times.past('earliest start', 'from', now)
    # Clients show whole seconds, and the time between them is to be the duration.
    earliest = dates.round_up(max(now, since))
    last = times.end_after(earliest, _FARTHEST, 'from')
    to = values.get('to')
    if length > _FARTHEST:
        told = f'duration: must be {_FARTHEST.days} days at most.'
        raise exceptions.InvalidDuration(told, field='duration')
    if not to:
        if length > _USUAL:
            told = f'duration: must be {_USUAL.days} days at most if to is not given.'
            raise exceptions.InvalidDuration(told, field='duration')
        return earliest, earliest + _USUAL
    latest, first = times.date(to, now, 'to'), earliest + length
    if not first <= latest <= last:
        raise exceptions.InvalidDate(
            f'to: must be from {dates.sentence(first)} to {dates.sentence(last)}: the duration '
            f'after from, and {_FARTHEST.days} days after it at the latest.',
            field='to',
        )
    return earliest, latest


def _servers(
    cloud: forecasting.UserConnector | None,
    context: RequestContext,
    wanted: Sequence[Mapping[str, Any]],
) -> list[RunningServer]:
    if cloud is None:
        raise exceptions.ServiceUnavailable(
            'There is no cloud to ask what is free for servers. Ask for hosts or capacity.'
        )
    for number, each in enumerate(wanted):
        if 'server' not in each:
            raise exceptions.BadRequest(
                f'reservations[{number}]: the calendar guarantees it, and servers are only '
                'expected to find room. Ask for the two one after the other.',
                field=f'reservations[{number}]',
            )
    asked = {f'reservations[{n}].server': each['server'] for n, each in enumerate(wanted)}
    return forecasting.read_servers(cloud, context, asked)


def _serialize_window(start: datetime, end: datetime, *, guaranteed: bool) -> dict[str, Any]:
    return {
        'start_date': dates.serialize(start),
        'end_date': dates.serialize(end),
        'guaranteed': guaranteed,
    }
