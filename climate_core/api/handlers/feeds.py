# SPDX-License-Identifier: Apache-2.0
"""Requests for the feeds of a project for calendars, and for the contents of a feed."""

import datetime
import urllib.parse
from collections.abc import Sequence
from typing import Any, Final

import webob
from sqlalchemy import orm

from climate_core import exceptions, policies
from climate_core.api import calendar_feed, policy
from climate_core.api.request import Backend, Request, answer, set_digest_etag
from climate_core.api.schemas import calendar as schema
from climate_core.context import RequestContext
from climate_core.db import feeds, leases, listing
from climate_core.lease import model, views

#: The path of the contents of a feed.
PATH: Final = '/v1/leases.ics'
#: Leases that ended before this period or start after it are not in the feed.
_BACK, _AHEAD = datetime.timedelta(days=31), datetime.timedelta(days=366)
#: Maximum number of leases in the feed: those that end last.
MAX_LEASES: Final = 1000


def list_(backend: Backend, request: Request) -> webob.Response:
    """List the feeds that the user has in the project of the token, without their tokens."""
    user_id, project_id = _owner(backend, request, policies.GET_FEEDS)
    stored = backend.database.read(feeds.of_user, user_id, project_id)
    return answer(200, {'feeds': [_shown(feed) for feed in stored]})


def create(backend: Backend, request: Request) -> webob.Response:
    """Create a feed of the leases of the project, which a calendar reads by its own token.

    The token is shown only once. It gives access to the feed alone, until its user deletes the
    feed or may not see these leases any more.
    """
    _owner(backend, request, policies.CREATE_FEED)
    token = backend.manager_client.create_feed(
        request.context, request.read_body(schema.CREATE_FEED)
    )
    made = feeds.parse_token(token)
    stored = made and backend.database.read(feeds.find, made.feed_id)
    if not stored:
        raise exceptions.Conflict('The feed was deleted while it was created. Create another one.')
    query = urllib.parse.urlencode({'token': token})
    url = f'{request.application_url}{PATH}?{query}'
    return answer(201, {'feed': {**_shown(stored), 'token': token, 'url': url}})


def delete(backend: Backend, request: Request, feed_id: str) -> webob.Response:
    """Delete a feed. Its URL shows no leases from then on."""
    context = request.context
    stored = backend.database.read(feeds.find, feed_id)
    target = {} if stored is None else {'user_id': stored.user_id, 'project_id': stored.project_id}
    if stored is None or not policy.allows(
        backend.enforcer, context, policies.DELETE_FEED, target
    ):
        raise exceptions.FeedNotFound(f'Feed {feed_id} was not found.')
    backend.manager_client.delete_feed(context, feed_id)
    return answer(204)


def read(backend: Backend, request: Request) -> webob.Response:
    """Show the leases of a project as iCalendar (RFC 5545), by the token of a feed alone.

    It has the leases that ended in the last 31 days, the active leases, and those that start in
    the next 366 days, with their times, kinds and status, and the types of what they reserve.
    It may be as old as ``[api] feed_seconds``.
    """
    token = _token(request)
    stored = token and backend.database.read(feeds.find, token.feed_id)
    if token is None or not token.opens(stored) or not stored:
        raise exceptions.FeedNotFound(
            'token: no feed has this token: the feed was deleted, or the URL is incomplete.',
            field='token',
        )
    body = backend.feeds.get(stored.id, lambda: _render(backend, stored))
    response = webob.Response(status=200, content_type='text/calendar', charset='utf-8', body=body)
    response.headers['Cache-Control'] = 'private, no-cache'
    return set_digest_etag(response)


def _token(request: Request) -> feeds.Token | None:
    """Return the token of a request; calendars may add other parameters."""
    try:
        return feeds.parse_token(request.GET.get('token', ''))
    except UnicodeDecodeError:
        return None


def _owner(backend: Backend, request: Request, rule: str) -> tuple[str, str]:
    """Return the user and the project of a request.

    :raises climate_core.exceptions.Forbidden: the policy does not allow it, or the token has no
        project
    """
    context = request.context
    target = {'project_id': context.project_id, 'user_id': context.user_id}
    policy.authorize(backend.enforcer, context, rule, target)
    if not context.project_id:
        raise exceptions.Forbidden('The token has no project: send a token that is scoped to one.')
    return str(context.user_id), str(context.project_id)


def _authorize(backend: Backend, feed: feeds.Feed) -> None:
    """Enforce the policy of a feed with the present roles of its user.

    :raises climate_core.exceptions.Forbidden: the user may not see these leases any more
    """
    context = RequestContext(
        user_id=feed.user_id, project_id=feed.project_id, roles=[], overwrite=False
    )
    context.roles = list(backend.manager_client.feed_roles(context, feed.id))
    context.is_admin = False
    target = {'project_id': feed.project_id, 'user_id': feed.user_id}
    if not context.roles or not policy.allows(
        backend.enforcer, context, policies.GET_LEASES, target
    ):
        raise exceptions.Forbidden(
            'The user of this feed may not see the leases of its project any more.'
        )


def _render(backend: Backend, feed: feeds.Feed) -> bytes:
    _authorize(backend, feed)
    return calendar_feed.render_calendar(
        feed.name, backend.database.read(_leases, feed.project_id)
    )


def _leases(
    session: orm.Session, project_id: str
) -> list[tuple[model.Lease, Sequence[leases.ReservationCount]]]:
    query = listing.LeaseQuery(
        project_id=project_id,
        since=-_BACK,
        until=_AHEAD,
        sort=(('end_date', True),),
        limit=MAX_LEASES,
        parts=(),
    )
    stored, _ = listing.read_page(session, query)
    counts = leases.count_reservations(session, [lease.id for lease in stored])
    return [(lease, counts.get(lease.id, ())) for lease in stored]


def _shown(feed: feeds.Feed) -> dict[str, Any]:
    return {
        'id': feed.id,
        'name': feed.name,
        'project_id': feed.project_id,
        'user_id': feed.user_id,
        'created_at': views.format_stamp(feed.created_at),
    }
