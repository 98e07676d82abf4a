# SPDX-License-Identifier: Apache-2.0
"""POST /servers: check the hints of a reservation before anything is built.

Stock nova answers 500 to a hint that is an object or null; it gets strings from here. Calls that
create or delete servers reach cinder through :mod:`nova_ext.api.volumes`.
"""

from typing import Any

import nova.conf
from nova.api.openstack import wsgi
from nova.api.openstack.compute import deferred_delete, servers
from webob import exc

from climate_common import lanes
from climateclient import models
from climateclient.extension import hints
from climateclient.extension.errors import LeaseUnavailable
from climateclient.extension.leases import check_hints
from nova_ext import conf, leases, providers
from nova_ext.api import volumes

#: Where hints are in the body; nova looks at the first that is there.
PLACES = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')
_CHECKED = hints.NAMES | {lanes.HINT}


class ServersController(servers.ServersController):
    """Nova's controller, with the hints checked before it sees the request."""

    def __init__(self) -> None:
        super().__init__()
        _see_reserved_volumes(self.compute_api)

    @wsgi.response(202)
    @wsgi.expected_errors((400, 403, 409, 503))
    def create(self, req: Any, body: Any) -> Any:
        """Create a server; 400 names what is wrong with a hint, 503 means no lease service."""
        place = _place(body)
        wanted, lease = None, None
        if place and not _CHECKED.isdisjoint(body[place]):
            checked, wanted, lease = _checked(req.environ['nova.context'], body[place])
            body = {**body, place: checked}
        kept = wanted is None or bool(nova.conf.CONF[conf.GROUP].stash_keys)
        if not kept:
            _reject_secrets(body.get('server'))
        with volumes.of(wanted, lease):
            answer = super().create(req, body=body)
        if not kept:
            # The password that nova made is not kept until the start, so nobody shall rely on it.
            answer.obj.get('server', {}).pop('adminPass', None)
        return answer


class DeferredDeleteController(deferred_delete.DeferredDeleteController):
    """Nova's controller of ``forceDelete``, which leaves reserved volumes alone."""

    def __init__(self) -> None:
        super().__init__()
        _see_reserved_volumes(self.compute_api)


def _reject_secrets(server: Any) -> None:
    """Reject what nova-compute could not store until the start of a reserved server."""
    for name in ('adminPass', 'personality'):
        if isinstance(server, dict) and server.get(name):
            raise exc.HTTPBadRequest(
                explanation=f'server.{name}: it cannot be stored until the reservation starts, '
                'because [climate] stash_keys of nova-api is not set; leave it out'
            )


def _see_reserved_volumes(compute_api: Any) -> None:
    compute_api.volume_api = volumes.VolumeAPI(compute_api.volume_api)


def _place(body: Any) -> str | None:
    """Return the key of the hints in the body; nova's own schema refuses what is no object."""
    if not isinstance(body, dict):
        return None
    place = next((name for name in PLACES if name in body), None)
    return place if place and isinstance(body[place], dict) else None


def _check_hosts(context: Any, reservation_id: str) -> None:
    """Reject a reservation for which no host accepts servers of any project.

    Placement enforces access to its hosts when it claims the server, and also if it does not
    answer now.
    """
    members = [lanes.reservation_aggregate(reservation_id)]
    if providers.exist(context, members) is False:
        raise hints.BadHint(
            lanes.HINT,
            f'no host accepts servers for the reservation {reservation_id}: its id is unknown, it '
            'has not started, it has ended, or its failed host is being replaced',
        )


def _checked(
    context: Any, given: dict[str, Any]
) -> tuple[dict[str, Any], hints.ReservationHints | None, models.Lease | None]:
    """Check hints by :func:`climateclient.extension.leases.check_hints`, and that of hosts."""
    try:
        hosts = hints.reservation_of_hosts(given)
        checked, wanted, lease = check_hints(
            given, conf.rules(nova.conf.CONF), lambda: leases.service(context)
        )
        if hosts:
            _check_hosts(context, hosts)
        return checked | ({lanes.HINT: hosts} if hosts else {}), wanted, lease
    except hints.BadHint as error:
        raise exc.HTTPBadRequest(explanation=f'Invalid scheduler hint {error}') from error
    except LeaseUnavailable as error:
        raise exc.HTTPServiceUnavailable(explanation=str(error)) from error
