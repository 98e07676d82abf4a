# SPDX-License-Identifier: Apache-2.0
"""POST /servers: the hints of a reservation are understood or refused here, before anything is
built. Stock nova answers 500 to a hint that is an object or null; it gets strings from us.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import nova.conf
from nova.api.openstack import wsgi
from nova.api.openstack.compute import servers
from webob import exc

from climateclient import models
from nova_ext import conf, hints, leases
from nova_ext.errors import LeaseRefused, LeaseUnavailable

#: Where hints are in the body; nova looks at the first that is there.
PLACES = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')
#: Statuses of a lease that a server can join.
JOINABLE = ('PENDING', 'STARTING', 'ACTIVE', 'ERROR')


class ServersController(servers.ServersController):
    """Nova's controller, with the hints checked before it sees the request."""

    @wsgi.response(202)
    @wsgi.expected_errors((400, 403, 409, 503))
    def create(self, req: Any, body: Any) -> Any:
        """Create a server; 400 names what is wrong with a hint, 503 means no lease service."""
        place = _place(body)
        if place and hints.mentioned(body[place]):
            checked = _checked(req.environ['nova.context'], body[place])
            body = {**body, place: checked}
        return super().create(req, body=body)


def _place(body: Any) -> str | None:
    """Find the hints; what is no object is left to nova's own schema."""
    if not isinstance(body, dict):
        return None
    place = next((name for name in PLACES if name in body), None)
    return place if place and isinstance(body[place], dict) else None


def _checked(context: Any, given: dict[str, Any]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    try:
        wanted = hints.parse(given, now, conf.defaults(nova.conf.CONF))
    except hints.BadHint as error:
        raise exc.HTTPBadRequest(explanation=f'Invalid scheduler hint {error}') from error
    others = {name: value for name, value in given.items() if name not in hints.NAMES}
    if wanted is None:
        return others
    if wanted.join:
        _check_lease(context, wanted.lease_id)
    elif wanted.id_given:
        _check_id(context, wanted)
    return others | wanted.as_hints()


def _check_lease(context: Any, lease_id: str) -> None:
    try:
        lease = _lease(context, lease_id)
    except LeaseRefused as error:
        raise _bad(hints.LEASE, str(error)) from error
    if lease.status not in JOINABLE:
        raise _bad(hints.LEASE, f'the lease is {lease.status} and cannot be joined')


def _check_id(context: Any, wanted: hints.Wanted) -> None:
    """Refuse an id that belongs to another lease; the same request may be repeated."""
    try:
        lease = _lease(context, wanted.lease_id)
    except LeaseRefused:
        # It is not there, or not the user's: making it will show.
        return
    if lease.status not in JOINABLE or not _same(lease, wanted.lease):
        raise _bad(
            f'{hints.PARAMS}.id',
            f'there is a lease with this id; to join it, give {hints.LEASE} instead',
        )


def _lease(context: Any, lease_id: str) -> models.Lease:
    try:
        return leases.LeaseService(context).get(lease_id)
    except LeaseUnavailable as error:
        raise exc.HTTPServiceUnavailable(explanation=str(error)) from error


def _same(lease: models.Lease, wanted: Mapping[str, Any]) -> bool:
    """Compare what the lease service compares (climate_core/lease/request.py, same)."""
    given = [models.time_of(wanted[key]) for key in ('start_date', 'end_date')]
    return lease.name == wanted['name'] and [lease.start_date, lease.end_date] == given


def _bad(field: str, reason: str) -> exc.HTTPBadRequest:
    return exc.HTTPBadRequest(explanation=f'Invalid scheduler hint {field}: {reason}')
