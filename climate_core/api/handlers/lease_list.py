# SPDX-License-Identifier: Apache-2.0
"""List leases: turn the parameters of the request into one query."""

from collections.abc import Mapping, Sequence
from typing import Any

import webob

from climate_common import dates, limits
from climate_core import exceptions, policies
from climate_core.api import fields, paging, policy
from climate_core.api.request import Backend, Request, answer
from climate_core.db import leases as db
from climate_core.db import listing
from climate_core.lease import request as lease_request
from climate_core.lease import views


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the leases of the caller's project, or of all projects if the policy allows it."""
    asked = request.parameters
    query = listing.LeaseQuery(
        project_id=_project(backend, request),
        deleted=asked.get('deleted', False),
        statuses=asked.get('status', ()),
        name=asked.get('name'),
        resource_type=asked.get('resource_type'),
        resource_id=asked.get('resource_id'),
        **_window(asked),
        sort=_sort(asked),
        marker=asked['marker'].lower() if 'marker' in asked else None,
        limit=paging.limit(backend, request),
        parts=fields.parts(asked.get('fields')),
    )
    found, more = backend.database.read(listing.read_summaries, query)
    places = backend.database.read(db.queue_positions, found)
    viewer_id = request.context.user_id
    whole = (views.lease_view(each, places.get(each.id), viewer_id) for each in found)
    wanted = asked.get('fields')
    leases = [fields.chosen(each, wanted) for each in whole] if wanted else list(whole)
    links = paging.links(request, found[-1].id) if more else None
    return answer(200, paging.body('leases', leases, links))


def _project(backend: Backend, request: Request) -> str | None:
    """Return the project whose leases are listed; None: all projects.

    :raises climate_core.exceptions.Forbidden: the caller may not see those that are asked for
    """
    context = request.context
    wanted: str | None = request.parameters.get('project_id')
    if policy.allows(backend.enforcer, context, policies.GET_ALL_LEASES, {}):
        return wanted
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, policies.GET_LEASES, target)
    if wanted not in (None, context.project_id) or not context.project_id:
        policy.authorize(backend.enforcer, context, policies.GET_ALL_LEASES, {})
    return context.project_id


def _window(asked: Mapping[str, Any]) -> dict[str, listing.Moment | None]:
    since, until = _moment(asked, 'from'), _moment(asked, 'until')
    if type(since) is type(until) and since is not None and since >= until:  # type: ignore[operator]
        raise exceptions.InvalidDate('until: must be later than from.', field='until')
    return {'since': since, 'until': until}


def _moment(asked: Mapping[str, Any], name: str) -> listing.Moment | None:
    if name not in asked:
        return None
    time = lease_request.read_date(asked[name], limits.FIRST_DATE, name)
    return time - limits.FIRST_DATE if dates.is_relative(asked[name]) else time


def _sort(asked: Mapping[str, Any]) -> Sequence[listing.Sort]:
    keys, directions = asked.get('sort_key', []), asked.get('sort_dir', [])
    if 'sort' in asked and (keys or directions):
        raise exceptions.BadRequest('sort: must come without sort_key and sort_dir.', 'sort')
    if len(directions) > len(keys):
        raise exceptions.BadRequest(
            'sort_dir: must not come more often than sort_key.', 'sort_dir'
        )
    pairs = [each.partition(':')[::2] for each in asked.get('sort', ())]
    pairs += zip(keys, [*directions, *[''] * len(keys)], strict=False)
    sort = [(key, direction == 'desc') for key, direction in pairs]
    if len({key for key, _ in sort}) < len(sort):
        name = 'sort' if 'sort' in asked else 'sort_key'
        raise exceptions.BadRequest(f'{name}: must name each key only once.', name)
    return sort or listing.LeaseQuery().sort
