# SPDX-License-Identifier: Apache-2.0
"""Usage and limits of projects: the schemas and the calls."""

from collections.abc import Mapping
from typing import Any, Final

import webob
from sqlalchemy import orm

from climate_common import dates, resource_types
from climate_core import exceptions, policies
from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import common
from climate_core.db import sql
from climate_core.db import usage as db
from climate_core.db.project_limits import NAMES, UNLIMITED, count_used
from climate_core.db.usage import Span
from climate_core.delivery import usage
from climate_core.lease import request as lease_request

#: The default period of planned usage before and after the start of this week.
_BACK, _AHEAD = 4 * usage.WEEK, 8 * usage.WEEK
_LONGEST: Final = 53 * usage.WEEK
#: Maximum number of weeks, counted by project.
MAX_PLANNED_WEEKS: Final = 20_000


def _hours(about: str) -> dict[str, Any]:
    each: dict[str, Any] = {'type': 'number', 'minimum': 0}
    schema = common.closed(
        dict.fromkeys(resource_types.UNIT_HOURS, each), tuple(resource_types.UNIT_HOURS)
    )
    return {**schema, 'description': about}


SHOWN: dict[str, Any] = common.closed(
    {
        'project_id': {'type': 'string'},
        'start': common.ANSWERED_DATE,
        'end': {
            **common.ANSWERED_DATE,
            'description': 'Not later than now, but with ``planned``. '
            + common.ANSWERED_DATE['description'],
        },
        'leases': {
            'type': 'integer',
            'minimum': 0,
            'description': 'Number of leases that had, or have, something reserved in the '
            'period, or lost it to preemption.',
        },
        'reserved': _hours('From the creation of each reservation until it is released.'),
        'used': _hours('From the start of each resource until it is released.'),
        'preempted': _hours(
            'What preemptible leases lost to preemption, from then on until they had it again, or '
            'their end. It is not in ``reserved`` and ``used``.'
        ),
        'planned': _hours(
            'What is claimed or allocated from now on, until the end of each reservation; only '
            'with ``planned``.'
        ),
    },
    ('project_id', 'start', 'end', 'leases', 'reserved', 'used', 'preempted'),
)
MANY: dict[str, Any] = common.envelope('usage', {'type': 'array', 'items': SHOWN})
QUERY: dict[str, dict[str, Any]] = {
    'start': {
        **common.DATE,
        'description': 'Start of the period. Without it: the start of the month, or with '
        '``planned`` 4 weeks before the present week. ' + common.DATE['description'],
    },
    'end': {
        **common.DATE,
        'description': 'End of the period. Without it: now, or with ``planned`` 8 weeks after the '
        'start of the present week. ' + common.DATE['description'],
    },
    'planned': {
        'type': 'boolean',
        'description': 'true: by week, from Monday in UTC, and project, with the future usage '
        'of allocated leases; 371 days at most.',
    },
    'project_id': {
        **common.TEXT,
        'description': 'Only this project. Without it: all projects for callers to whom the '
        'policy ``climate:usage:get_all`` allows it, '
        "the caller's own project for all other users.",
    },
}
_LIMIT: dict[str, Any] = common.closed(
    {
        'limit': {'type': 'integer', 'minimum': -1, 'description': '-1: there is no limit.'},
        'used': {'type': 'integer', 'minimum': 0, 'description': 'Usage by the live leases.'},
    },
    ('limit', 'used'),
)
_LIMITS: dict[str, Any] = common.closed(dict.fromkeys(NAMES, _LIMIT), NAMES)
LIMITS: dict[str, Any] = common.envelope('limits', _LIMITS)
LIMITS_QUERY: dict[str, dict[str, Any]] = {
    'project_id': {
        **common.TEXT,
        'description': "The limits of this project. Without it: of the caller's.",
    },
}


def get(backend: Backend, request: Request) -> webob.Response:
    """Show what a project, or each project, reserved and used in a period, in resource-hours.

    With ``planned`` it is shown week by week, with what is claimed or allocated from now on.
    A lease is counted until it is purged, also after it is deleted.
    """
    project_id = _project(backend, request)
    read = _planned if request.parameters.get('planned') else _usage
    shown = backend.database.read(read, request.parameters, project_id)
    return answer(200, {'usage': shown})


def _project(backend: Backend, request: Request) -> str | None:
    """Return the requested project; None: all projects.

    :raises climate_core.exceptions.Forbidden: the caller may not see its usage
    """
    context = request.context
    requested: str | None = request.parameters.get('project_id')
    if policy.allows(backend.enforcer, context, policies.GET_ALL_USAGE, {}):
        return requested
    project_id = requested or context.project_id
    target = {'project_id': project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_USAGE, target)
    if not project_id:
        policy.authorize(backend.enforcer, context, policies.GET_ALL_USAGE, {})
    return project_id


def _usage(
    session: orm.Session, parameters: Mapping[str, Any], project_id: str | None
) -> list[dict[str, Any]]:
    """Add up the usage of projects, in two statements."""
    period = requested_period(session, parameters)
    totals = usage.sum_by_project(db.read_uses(session, period, project_id), period)
    if project_id is not None:
        totals.setdefault(project_id, usage.Total())
    return [_serialize(project, totals[project], period) for project in sorted(totals)]


def requested_period(session: orm.Session, parameters: Mapping[str, Any]) -> Span:
    """Return the requested period, which ends now at the latest.

    :raises climate_core.exceptions.InvalidDate: it ends before its start
    """
    now = sql.read_time(session)
    start = (
        lease_request.read_date(parameters['start'], now, 'start')
        if 'start' in parameters
        else usage.month_start(now)
    )
    end = lease_request.read_date(parameters['end'], now, 'end') if 'end' in parameters else now
    if end <= start:
        raise exceptions.InvalidDate('end: must be later than start.', field='end')
    return Span(start, max(start, min(end, now)))


def _planned(
    session: orm.Session, parameters: Mapping[str, Any], project_id: str | None
) -> list[dict[str, Any]]:
    """Add up past and planned usage, by week and project, in two statements."""
    now = sql.read_time(session)
    monday = usage.week_start(now)
    start = (
        lease_request.read_date(parameters['start'], now, 'start')
        if 'start' in parameters
        else monday - _BACK
    )
    end = (
        lease_request.read_date(parameters['end'], now, 'end')
        if 'end' in parameters
        else max(start, monday) + _AHEAD
    )
    if end <= start:
        raise exceptions.InvalidDate('end: must be later than start.', field='end')
    if end - start > _LONGEST:
        raise exceptions.InvalidDate(
            f'end: must be {_LONGEST.days} days after start at the latest, with planned.',
            field='end',
        )
    period = Span(start, end)
    totals = usage.sum_by_week(
        db.read_uses(session, period, project_id, planned=True), period, now
    )
    if len(totals) > MAX_PLANNED_WEEKS:
        raise exceptions.BadRequest(
            f'end: must be earlier: there are more than {MAX_PLANNED_WEEKS} weeks of projects '
            'in this time.',
            field='end',
        )
    order = sorted(totals, key=lambda key: (key[0].begin, key[1]))
    return [
        {
            **_serialize(project, totals[week, project], week),
            'planned': usage.round_hours(totals[week, project].planned),
        }
        for week, project in order
    ]


def _serialize(project_id: str, total: usage.Total, period: Span) -> dict[str, Any]:
    return {
        'project_id': project_id,
        'start': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'leases': len(total.leases),
        'reserved': usage.round_hours(total.reserved),
        'used': usage.round_hours(total.used),
        'preempted': usage.round_hours(total.preempted),
    }


def get_limits(backend: Backend, request: Request) -> webob.Response:
    """Show the limits of a project, by default the caller's, and the usage by its live leases.

    :raises climate_core.exceptions.BadRequest: neither the request nor the token names a project
    """
    context = request.context
    project_id = request.parameters.get('project_id', context.project_id)
    target = {'project_id': project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_LIMITS, target)
    if not project_id:
        raise exceptions.BadRequest(
            'project_id: must be given, since the token has no project.', 'project_id'
        )
    most = backend.limits.read_limits(project_id) or {}
    used = backend.database.read(count_used, project_id)
    shown = {name: {'limit': most.get(name, UNLIMITED), 'used': used[name]} for name in NAMES}
    return answer(200, {'limits': shown})
