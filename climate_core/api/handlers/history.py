# SPDX-License-Identifier: Apache-2.0
"""Answer requests for the history of a lease."""

import dataclasses
from typing import Any

import webob

from climate_common import dates
from climate_core import exceptions, policies
from climate_core.api import paging, policy
from climate_core.api.request import Backend, Request, answer
from climate_core.api.schemas import leases as schema
from climate_core.db import history as history_db
from climate_core.db import leases as db
from climate_core.lease import webhook
from climate_core.lease.history import HistoryEntry


def list_(backend: Backend, request: Request, lease_id: str) -> webob.Response:
    """List the changes of a lease; also of a deleted one, until it is purged.

    :raises climate_core.exceptions.LeaseNotFound: there is none, or its user may not see it
    """
    lease = backend.database.read(db.find, lease_id, parts=())
    if lease is None:
        raise exceptions.LeaseNotFound(f'Lease {lease_id} was not found.')
    policy.authorize_lease(backend.enforcer, request.context, policies.GET_LEASE_HISTORY, lease)
    limit = paging.limit(backend, request)
    after = request.parameters.get('marker')
    newest_first = request.parameters.get('sort') == schema.NEWEST_FIRST
    found, more = backend.database.read(history_db.page, lease_id, after, limit, newest_first)
    entries = [_serialize(number, each) for number, each in found]
    links = paging.links(request, str(found[-1][0])) if more else None
    return answer(200, paging.body('history', entries, links))


def _serialize(number: int, entry: HistoryEntry) -> dict[str, Any]:
    shown = {'id': number, **dataclasses.asdict(entry), 'time': dates.serialize(entry.time)}
    del shown['lease_id']
    if 'webhook' in entry.changes:
        # Entries of earlier releases have whole URLs.
        urls = [url and webhook.url_origin(url) for url in entry.changes['webhook']]
        shown['changes'] = {**entry.changes, 'webhook': urls}
    return shown
