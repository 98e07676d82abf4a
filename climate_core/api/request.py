# SPDX-License-Identifier: Apache-2.0
"""Wrap the request and the response of a handler."""

from collections.abc import Mapping
from typing import Any, cast

import webob
from oslo_config import cfg
from oslo_serialization import jsonutils

from climate_common import limits
from climate_core import exceptions
from climate_core.api import errors, policy, validation
from climate_core.api.feed_cache import FeedCache
from climate_core.cloud.connections import Cloud
from climate_core.cloud.limits import Limits
from climate_core.concurrency import ReservingLimit
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.plugins import base
from climate_core.rpc.client import ManagerClient

#: Where the middleware leaves the context of the request.
CONTEXT = 'climate.context'
#: Where the application leaves the parameters of the query, checked.
PARAMETERS = 'climate.parameters'


class Backend:
    """The application that handlers work with. Applications share nothing.

    Limits of projects, policies, and the feeds that were rendered last follow from ``conf``.

    :param manager: takes the writes
    :param plugins: what can be reserved, by type of resource
    :param reserving: limits the requests that reserve resources concurrently
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        manager: ManagerClient,
        plugins: Mapping[str, type[base.ResourcePlugin]],
        reserving: ReservingLimit,
    ) -> None:
        self.conf, self.database, self.manager = conf, database, manager
        self.plugins, self.reserving = plugins, reserving
        self.enforcer = policy.make(conf)
        self.limits = Limits(conf, Cloud(conf))
        self.feeds = FeedCache(conf.api.feed_seconds)


class Request(webob.Request):
    """A request that has been routed."""

    @property
    def context(self) -> RequestContext:
        return cast(RequestContext, self.environ[CONTEXT])

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the query parameters that were sent, as the types of the route's ``query``."""
        return cast(dict[str, Any], self.environ[PARAMETERS])

    def read(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body, checked.

        :raises climate_core.api.errors.UnsupportedMediaType: it says that it is not JSON
        :raises climate_core.exceptions.BadRequest: it is not JSON, or not what the schema wants
        """
        if self.content_type not in ('', 'application/json'):
            raise errors.UnsupportedMediaType(
                f'The body must be application/json, not {self.content_type:.80}.'
            )
        try:
            values = limits.decode(self.body.decode())
        except ValueError as exc:
            raise exceptions.BadRequest(f'The body of the request must be JSON: {exc}.') from exc
        return cast(dict[str, Any], validation.check(values, schema))

    def read_nothing(self) -> None:
        """Check that there is no body, or none that asks for anything: an empty object.

        :raises climate_core.exceptions.BadRequest: there is one
        """
        body = self.body.strip()
        if body not in (b'', b'{}', b'null'):
            raise exceptions.BadRequest(
                f'{self.path_info} takes no body: leave it out, or send {{}}.'
            )


def answer(status: int, body: Mapping[str, Any] | None = None) -> webob.Response:
    """Make a response; without a body it has no content type either."""
    if body is None:
        response = webob.Response(status=status)
        del response.content_type
        return response
    return webob.Response(
        status=status, content_type='application/json', body=jsonutils.dump_as_bytes(body)
    )
