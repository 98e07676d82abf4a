# SPDX-License-Identifier: Apache-2.0
"""Answer whether and when a lease would be granted: a dry run of a create, and windows.

Nothing is written.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from oslo_utils import uuidutils

from climate_common import dates
from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.context import RequestContext
from climate_core.db import held_resources
from climate_core.db.engine import retry
from climate_core.lease import request, states
from climate_core.lease.request import ErrorCollector
from climate_core.operations import allocation, pool_forecast
from climate_core.operations.create import LeaseCreator
from climate_core.operations.draft import Draft, Reserver
from climate_core.operations.idempotency import check_unreserved, find_equal_holder
from climate_core.operations.quota import Quota
from climate_core.operations.services import HostEvacuation, Services
from climate_core.plugins.server_placement import RunningServer


@retry
def dry_run_create(
    creator: LeaseCreator,
    context: RequestContext,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the result of a create, which is not executed.

    :returns: ``granted``; ``waits``, whether the lease would be created and queued; ``refusals``,
        all rejections as the API returns errors; ``available_from``, the earliest start at which
        the request would be granted for the same duration, if that is known; ``start_date`` and
        ``end_date``
    :raises climate_core.exceptions.BadRequest: the start or the end is invalid
    :raises climate_core.exceptions.ServiceUnavailable: a required service does not answer
    """
    services, errors = creator.services, ErrorCollector()
    draft = creator.read_lease(context, values, errors)
    if draft.before is None:
        with errors.collected():
            services.trusts.check(context)
    held = services.database.read(
        held_resources.find_holding_leases, [each.reservation.key for each in draft.items]
    )
    waits: list[datetime | None] = []
    if find_equal_holder(context, draft, held) is None:
        if draft.lease.preemptible:
            creator.preemption.check(draft, errors)
        check_unreserved(context, draft, held, errors)
        for (resource_type, _), holder in held.items():
            own = holder.project_id == context.project_id
            free = own and services.plugins[resource_type].reusable
            waits.append(max(draft.now, holder.end_date) if free else None)
        waits += _check_quota(creator.quota, draft, errors)
        known = len(errors.found)
        allocation.check_capacity(services, draft, errors)
        preempting = creator.preemption.find(draft) if errors.found[known:] else None
        if preempting is not None:
            del errors.found[known:]
            draft = draft.with_preemption(preempting)
        expected = len(errors.found)
        if draft.needs_forecast:
            pool_forecast.check_draft(services, context, draft, errors)
        pool_forecast.check_immediate(services, draft, errors)
        if any(isinstance(each, exceptions.NotEnough) for each in errors.found[expected:]):
            draft = _preempt_servers(creator, draft, errors, expected)
        waits += [_available_from(each, draft) for each in errors.found[known:]]
        if _asks_external(draft, errors):
            with errors.collected():
                creator.quota.check_external(draft.lease, draft.before)
    lease_request, lease = draft.request, draft.lease
    start, end = lease.start_date, lease.end_date
    if lease_request is not None and not draft.preempted:
        start, end = lease_request.start, lease_request.end
    return {
        'granted': not errors.found,
        'waits': bool(draft.wait_reason) or _would_wait(creator.host_evacuation, draft, errors),
        'refusals': [each.body for each in errors.found],
        'available_from': dates.serialize(_find_latest(waits, draft, errors)),
        'start_date': dates.serialize(start),
        'end_date': dates.serialize(end),
    }


def _asks_external(draft: Draft, errors: ErrorCollector) -> bool:
    """Return whether a create asks the external service: it is not asked without capacity."""
    queues = draft.lease.kind in (states.LeaseKind.RETRY, states.LeaseKind.BEST_EFFORT)
    lacks = any(isinstance(each, exceptions.NotEnough) for each in errors.found)
    return bool(draft.before is None or draft.items) and (queues or not lacks)


def _preempt_servers(
    creator: LeaseCreator, draft: Draft, errors: ErrorCollector, known: int
) -> Draft:
    """Return a draft with the leases of servers that it would preempt; it is granted then.

    :param known: the number of errors before the errors of the forecast
    """
    if draft.lease.kind == states.LeaseKind.RETRY:
        return draft
    found = creator.preemption.find_servers(draft)
    if found is None:
        return draft
    del errors.found[known:]
    return draft.with_preemption(found)


def _would_wait(evacuation: HostEvacuation, draft: Draft, errors: ErrorCollector) -> bool:
    """Return whether a rejected lease would be queued; report hosts that cannot be drained."""
    lacking = [each for each in errors.found if isinstance(each, exceptions.NotEnough)]
    if not lacking or len(lacking) < len(errors.found):
        return False
    if draft.lease.kind == states.LeaseKind.BEST_EFFORT:
        try:
            return bool(evacuation.choose_hosts(draft, lacking[0]))
        except exceptions.NotEnough as exc:
            errors.found[:] = [exc]
    return draft.lease.kind == states.LeaseKind.RETRY


def _available_from(error: exceptions.ClimateError, draft: Draft) -> datetime | None:
    later = error.available_from if isinstance(error, exceptions.NotEnough) else None
    return None if later is None else dates.parse(later, draft.now)


def _check_quota(quota: Quota, draft: Draft, errors: ErrorCollector) -> list[datetime | None]:
    """Check the limits; return when exceeded limits allow the lease."""
    if draft.before is not None and not draft.items:
        return []
    known = len(errors.found)
    quota.check_quota(draft.lease, draft.now, draft.before, errors)
    exceeded = any(isinstance(each, exceptions.LimitExceeded) for each in errors.found[known:])
    if not exceeded or draft.before is not None:
        return []
    return [quota.available_from(draft.lease, draft.now)]


def _find_latest(
    waits: list[datetime | None], draft: Draft, errors: ErrorCollector
) -> datetime | None:
    """Return when the last reason of a rejection ends, if all of them are known."""
    known = [each for each in waits if each is not None]
    if not known or len(known) < len(errors.found) or draft.request is None:
        return None
    return max(known)


#: How far ahead windows are searched by default, and at most.
_DEFAULT_PERIOD: Final = timedelta(days=30)
_MAX_PERIOD: Final = timedelta(days=366)
#: How many windows are found by default.
_DEFAULT_LIMIT: Final = 5


def find_windows(
    services: Services,
    context: RequestContext,
    values: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the earliest windows in which a lease would be granted.

    :param values: ``reservations`` and ``duration``; perhaps ``from`` (default now), ``to`` (when
        the lease ends at the latest; default 30 days later) and ``limit``
    :returns: ``start_date`` and ``end_date`` of windows, the earliest first, and whether the
        calendar guarantees them or they are only expected; of adjacent windows only the first
    :raises climate_core.exceptions.BadRequest: naming the field
    """
    now = services.clock.now()
    length = request.read_duration(values['duration'])
    late = timedelta(seconds=services.conf.manager.late_start_seconds)
    earliest, latest = _read_period(values, now, late, length)
    limit = values.get('limit', _DEFAULT_LIMIT)
    if any('server' in each for each in values['reservations']):
        servers = _read_servers(services.cloud, context, values['reservations'])
        forecast = pool_forecast.PoolForecast(services.database, services.cloud).forecast()
        expected = pool_forecast.find_server_windows(
            forecast, servers, length, earliest, latest, limit
        )
        return [_serialize_window(*each, guaranteed=False) for each in expected]
    reserver = Reserver(services.plugins, context, uuidutils.generate_uuid(), now, services.conf)
    items, _ = reserver.reserve_items(values['reservations'])
    for item in items:
        if item.reservation.unit_kind is None:
            raise exceptions.BadRequest(
                f'{item.field}.resource_type: {item.reservation.resource_type} has no calendar; '
                'its capacity is checked when it is reserved.',
                field=f'{item.field}.resource_type',
            )
    fields = {item.reservation.id: item.field for item in items}
    reservations = [item.reservation for item in items]
    demands = allocation.read_demands(services.plugins, reservations, fields)
    allocation.check_count(demands)
    windows = services.calendar.find_windows(demands, length, earliest, latest, limit)
    return [_serialize_window(each.start, each.end, guaranteed=True) for each in windows]


def _read_period(
    values: Mapping[str, Any], now: datetime, late: timedelta, length: timedelta
) -> tuple[datetime, datetime]:
    """Return the earliest start and the latest end of a lease of this length.

    :param late: how long ago the start may be
    :raises climate_core.exceptions.BadRequest: naming the field of the request
    """
    since = request.read_date(values.get('from') or 'now', now, 'from')
    if since < now - late:
        # A lease could not start then either.
        raise request.past_date_error('earliest start', 'from', now)
    # Clients show whole seconds; the time between them must be the duration.
    earliest = dates.round_up(max(now, since))
    last = request.end_after(earliest, _MAX_PERIOD, 'from')
    to = values.get('to')
    if length > _MAX_PERIOD:
        message = f'duration: must be {_MAX_PERIOD.days} days at most.'
        raise exceptions.InvalidDuration(message, field='duration')
    if not to:
        if length > _DEFAULT_PERIOD:
            message = f'duration: must be {_DEFAULT_PERIOD.days} days at most if to is not given.'
            raise exceptions.InvalidDuration(message, field='duration')
        return earliest, earliest + _DEFAULT_PERIOD
    latest, first = request.read_date(to, now, 'to'), earliest + length
    if not first <= latest <= last:
        raise exceptions.InvalidDate(
            f'to: must be from {dates.sentence(first)} to {dates.sentence(last)}: the duration '
            f'after from, and {_MAX_PERIOD.days} days after it at the latest.',
            field='to',
        )
    return earliest, latest


def _read_servers(
    cloud: Cloud,
    context: RequestContext,
    reservations: Sequence[Mapping[str, Any]],
) -> list[RunningServer]:
    for number, each in enumerate(reservations):
        if 'server' not in each:
            raise exceptions.BadRequest(
                f'reservations[{number}]: the calendar guarantees its windows, but the '
                'windows of servers are only forecast. Send one request for each.',
                field=f'reservations[{number}]',
            )
    servers = {f'reservations[{n}].server': each['server'] for n, each in enumerate(reservations)}
    return pool_forecast.read_server_demands(cloud, context, servers)


def _serialize_window(start: datetime, end: datetime, *, guaranteed: bool) -> dict[str, Any]:
    return {
        'start_date': dates.serialize(start),
        'end_date': dates.serialize(end),
        'guaranteed': guaranteed,
    }
