# SPDX-License-Identifier: Apache-2.0
"""POST /servers: the hints of a reservation are understood or refused here, before anything is
built. Stock nova answers 500 to a hint that is an object or null; it gets strings from us.
"""

import datetime
from typing import Any

import nova.conf
from nova.api.openstack import wsgi
from nova.api.openstack.compute import servers
from webob import exc

from climateclient.extension import hints
from climateclient.extension.errors import LeaseUnavailable
from nova_ext import conf, leases

#: Where hints are in the body; nova looks at the first that is there.
PLACES = ('os:scheduler_hints', 'OS-SCH-HNT:scheduler_hints')


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
    others = {name: value for name, value in given.items() if name not in hints.NAMES}
    try:
        wanted = hints.parse(given, now, conf.rules(nova.conf.CONF))
        if wanted is None:
            return others
        if wanted.join or wanted.id_given:
            leases.service(context).check(wanted)
    except hints.BadHint as error:
        raise exc.HTTPBadRequest(explanation=f'Invalid scheduler hint {error}') from error
    except LeaseUnavailable as error:
        raise exc.HTTPServiceUnavailable(explanation=str(error)) from error
    return others | wanted.as_hints()
