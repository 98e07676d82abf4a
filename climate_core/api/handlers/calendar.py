# SPDX-License-Identifier: Apache-2.0
"""Requests for the calendar: what is allocated and free when, and when a lease would fit."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import webob
from sqlalchemy import orm

from climate_common import dates, limits, resource_types
from climate_core import exceptions, packages, policies
from climate_core.api import policy, reservations, validation
from climate_core.api.request import (
    Backend,
    Request,
    answer,
    next_links,
    page_body,
    page_limit,
    parse_unit_id,
    set_digest_etag,
)
from climate_core.api.schemas import calendar as schema
from climate_core.calendar import series
from climate_core.db import sql, timeline
from climate_core.lease import request as lease_request
from climate_core.plugins import filters

#: The default period, and the longest.
_USUAL: Final = datetime.timedelta(days=7)
_LONGEST: Final = datetime.timedelta(days=92)
#: The fields of hosts by which users may group capacity, beside extra properties.
_COMMON: Final = frozenset({'availability_zone', 'vcpus', 'memory_mb', 'local_gb'})
#: Maximum number of groups of units and of allocations from which capacity is computed.
MAX_GROUPS: Final = 50_000


def get(backend: Backend, request: Request) -> webob.Response:
    """Show the allocations of the project, and capacity over time.

    Of the allocations of other projects it shows only the amounts. Operators may see all leases,
    and hosts with their allocations. The request reserves nothing.
    """
    context, parameters = request.context, request.parameters
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_CALENDAR, target)
    if parameters.get('all_projects'):
        policy.authorize(backend.enforcer, context, policies.GET_ALL_LEASES, {})
    if parameters.get('hosts'):
        policy.authorize(backend.enforcer, context, policies.GET_ALLOCATIONS, {})
        for name in ('all_projects', 'group_by', 'lease_id', 'free_until'):
            if name in parameters:
                raise exceptions.BadRequest(
                    f'{name}: must be left out with hosts, which are shown instead of leases.',
                    field=name,
                )
    if 'properties' in parameters and not parameters.get('capacity', True):
        raise exceptions.BadRequest(
            'properties: must be left out with capacity false, since they only group capacity.',
            field='properties',
        )

    def read(session: orm.Session) -> dict[str, Any]:
        since, until = _span(session, parameters)
        shown: dict[str, Any] = {'from': dates.serialize(since), 'to': dates.serialize(until)}
        rows = _hosts if parameters.get('hosts') else _bars
        shown |= rows(session, backend, request, since, until)
        if parameters.get('capacity', True):
            shown['capacity'] = _capacity(session, backend, request, since, until)
        return shown

    return set_digest_etag(answer(200, backend.database.read(read)))


def _span(
    session: orm.Session, parameters: Mapping[str, Any]
) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the requested period; read the time of the database only for relative dates."""
    is_relative = [dates.is_relative(parameters.get(name, 'now')) for name in ('from', 'to')]
    now = limits.FIRST_DATE
    if is_relative[0] or ('to' in parameters and is_relative[1]):
        now = sql.read_time(session).replace(second=0, microsecond=0)
    since = lease_request.read_date(parameters.get('from', 'now'), now, 'from')
    if 'to' in parameters:
        until = lease_request.read_date(parameters['to'], now, 'to')
    else:
        until = lease_request.end_after(since, _USUAL, 'from')
    if until <= since:
        raise exceptions.InvalidDate('to: must be later than from, or than now.', field='to')
    if until - since > _LONGEST:
        raise exceptions.InvalidDate(
            f'to: must be {_LONGEST.days} days after from at the latest.', field='to'
        )
    return since, until


def _bars(
    session: orm.Session,
    backend: Backend,
    request: Request,
    since: datetime.datetime,
    until: datetime.datetime,
) -> dict[str, Any]:
    parameters, context = request.parameters, request.context
    marker, lease_id = parameters.get('marker'), parameters.get('lease_id')
    if marker is not None and '-' not in marker:
        raise exceptions.BadRequest('marker: must be the id of a reservation.', field='marker')
    if not context.project_id and not parameters.get('all_projects'):
        raise exceptions.BadRequest(
            'all_projects: must be true, since the token is of no project.', field='all_projects'
        )
    query = timeline.TimelineQuery(
        since=since,
        until=until,
        project_id=None if parameters.get('all_projects') else context.project_id,
        group_by=parameters.get('group_by', 'resource'),
        marker=marker and marker.lower(),
        limit=page_limit(backend, request),
        lease_id=lease_id and lease_id.lower(),
    )
    rows, more = timeline.read_timeline(session, query)
    links = next_links(request, rows[-1].reservation_id) if more else None
    shown = [_bar(row) for row in rows]
    if parameters.get('free_until'):
        free = timeline.read_free_until(session, rows)
        for bar in shown:
            time = free.get(bar['reservation_id'])
            bar['free_until'] = None if time is None else dates.serialize(time)
    return page_body('bars', shown, links)


def _hosts(
    session: orm.Session,
    backend: Backend,
    request: Request,
    since: datetime.datetime,
    until: datetime.datetime,
) -> dict[str, Any]:
    marker = request.parameters.get('marker', '0')
    number = parse_unit_id(marker)
    if number is None:
        raise exceptions.BadRequest('marker: must be the id of a host.', field='marker')
    limit = page_limit(backend, request)
    pages = [
        package.read_timeline(session, since, until, number, limit)
        for package in packages.list_packages()
    ]
    hosts = [host for page, _ in pages for host in page]
    links = next_links(request, hosts[-1]['id']) if any(more for _, more in pages) else None
    return page_body('hosts', hosts, links)


def _capacity(
    session: orm.Session,
    backend: Backend,
    request: Request,
    since: datetime.datetime,
    until: datetime.datetime,
) -> list[dict[str, Any]]:
    """Return the capacity over time that is open to the project; operators see all of it."""
    context = request.context
    names = [*dict.fromkeys(request.parameters.get('properties', ()))]
    sees_all = policy.allows(backend.enforcer, context, policies.GET_ALLOCATIONS, {})
    query = timeline.CapacityQuery(
        since=since,
        until=until,
        project_id=context.project_id,
        limit=MAX_GROUPS,
        properties=names,
        private=policy.allows(backend.enforcer, context, policies.GET_PRIVATE_PROPERTIES, {}),
    )
    rows = timeline.read_capacity(session, query)
    if rows is None:
        raise exceptions.BadRequest(
            'to: must be earlier, or capacity false: there are too many allocations in this time.',
            field='to',
        )
    viewer = policy.viewer(context, sees_all)
    units = [unit for unit in rows[0] if viewer.sees(unit.access)]
    _check_properties(names, units, sees_all)
    promises = [promise for promise in rows[1] if viewer.sees(promise.units.access)]
    span = dates.to_microseconds(since), dates.to_microseconds(until)
    return [_show_series(each, names) for each in series.build_series(units, promises, *span)]


def _check_properties(
    names: Sequence[str], units: Sequence[timeline.EqualUnits], sees_all: bool
) -> None:
    """Reject properties that no host has, or that identify a host.

    The error does not reveal whether a property that the caller may not see exists.
    """
    for number, name in enumerate(names):
        is_secret = not sees_all and name in filters.NODE_FACTS and name not in _COMMON
        if is_secret or all(unit.properties[number] is None for unit in units):
            raise exceptions.BadRequest(
                f'properties: no host has a property {name} that you may see. GET '
                f'/v1/os-hosts/properties lists them, beside {", ".join(sorted(_COMMON))}.',
                field='properties',
            )


def _bar(bar: timeline.TimelineRow) -> dict[str, Any]:
    return {
        'lease_id': bar.lease_id,
        'lease_name': bar.name,
        'project_id': bar.project_id,
        'status': bar.status,
        'kind': bar.kind,
        'reservation_id': bar.reservation_id,
        'resource_type': resource_types.api_name(bar.resource_type),
        'resource_id': bar.resource_id,
        'resource_names': [*bar.names],
        'start_date': dates.serialize(bar.start_date),
        'end_date': dates.serialize(bar.end),
    }


def _show_series(found: series.Series, names: Sequence[str]) -> dict[str, Any]:
    pairs = zip(names, found.properties, strict=True)
    by = {name: None if text is None else json.loads(text) for name, text in pairs}
    return {
        'kind': found.kind,
        'pool': found.pool,
        **({'properties': by} if names else {}),
        'unit': found.unit,
        'steps': [
            {**each._asdict(), 'time': dates.serialize(dates.from_microseconds(each.time))}
            for each in found.steps
        ],
    }


def get_availability(backend: Backend, request: Request) -> webob.Response:
    """Show the earliest times in which reservations would be granted together.

    For servers that do not exist yet it shows when sufficient capacity is expected.

    The request reserves nothing: what is free now may be allocated to the next request.

    :raises climate_core.exceptions.BadRequest: naming the parameter
    """
    context, values = request.context, dict(request.parameters)
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_AVAILABILITY, target)
    for name in ('reservations', 'duration'):
        if name not in values:
            raise exceptions.BadRequest(f'{name}: is missing.', field=name)
    try:
        listed = limits.decode(values['reservations'])
    except ValueError:
        raise exceptions.BadRequest(
            'reservations: must be a JSON list, as [{"resource_type": "physical:host"}].',
            field='reservations',
        )
    validation.check(listed, schema.QUERIED_RESERVATIONS, 'reservations')
    values['reservations'] = [
        _check_queried(backend, reservation, f'reservations[{number}]')
        for number, reservation in enumerate(reservations.convert_reservations(listed))
    ]
    with backend.reserving.turn(context, values):
        return answer(200, {'windows': backend.manager_client.find_windows(context, values)})


def _check_queried(backend: Backend, queried: Mapping[str, Any], within: str) -> dict[str, Any]:
    if 'server' in queried and queried['resource_type'] == resource_types.SERVER:
        return dict(validation.check(queried, schema.NEW_SERVERS, within))
    return reservations.check_reservation(backend, queried, within)
