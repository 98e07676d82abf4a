# SPDX-License-Identifier: Apache-2.0
"""Answer requests for what projects reserved and used."""

from collections.abc import Mapping
from typing import Any

import webob
from sqlalchemy import orm

from climate_common import dates
from climate_core import exceptions
from climate_core.api import policy
from climate_core.api.request import Backend, Request, answer
from climate_core.db import usage as db
from climate_core.db import utcnow
from climate_core.lease import times, usage
from climate_core.policies import usage as rules


def get(backend: Backend, request: Request) -> webob.Response:
    """Show what a project, or each project, reserved and used in a period, in resource-hours.

    A lease is counted until it is purged, also after it is deleted.
    """
    project_id = _project(backend, request)
    shown = backend.database.read(_usage, request.parameters, project_id)
    return answer(200, {'usage': shown})


def _project(backend: Backend, request: Request) -> str | None:
    """Return the project that is asked about; None: all of them.

    :raises climate_core.exceptions.Forbidden: the caller may not
    """
    context = request.context
    wanted: str | None = request.parameters.get('project_id')
    if policy.allows(backend.enforcer, context, rules.GET_ALL, {}):
        return wanted
    project_id = wanted or context.project_id
    target = {'project_id': project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rules.GET, target)
    if not project_id:
        policy.authorize(backend.enforcer, context, rules.GET_ALL, {})
    return project_id


def _usage(
    session: orm.Session, asked: Mapping[str, Any], project_id: str | None
) -> list[dict[str, Any]]:
    """Add up the usage of projects, in two statements."""
    now = utcnow.read(session)
    start = times.date(asked['start'], now, 'start') if 'start' in asked else usage.month(now)
    end = times.date(asked['end'], now, 'end') if 'end' in asked else now
    if end <= start:
        raise exceptions.InvalidDate('end: must be later than start.', field='end')
    period = usage.Span(start, max(start, min(end, now)))
    totals = usage.by_project(db.uses(session, period, project_id), period)
    if project_id is not None:
        totals.setdefault(project_id, usage.Total())
    return [_serialize(each, totals[each], period) for each in sorted(totals)]


def _serialize(project_id: str, total: usage.Total, period: usage.Span) -> dict[str, Any]:
    return {
        'project_id': project_id,
        'start': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'leases': len(total.leases),
        'reserved': usage.rounded(total.reserved),
        'used': usage.rounded(total.used),
    }
