# SPDX-License-Identifier: Apache-2.0
"""One line in the log for each request, under its own id and that of whom it was made for."""

import time
import urllib.parse
from typing import Any

import webob
import webob.dec
from oslo_log import log
from oslo_middleware import request_id

from climate_core.context import RequestContext
from climate_core.lease import feeds

LOG = log.getLogger(__name__)


class RequestLog:
    """Middleware that logs. It wants the ids that ``oslo_middleware.request_id`` leaves.

    Until the user is known the context of the thread has nothing but the ids, so that nothing is
    logged under the name of the request before.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        began = time.monotonic()
        RequestContext(
            request_id=request.environ.get(request_id.ENV_REQUEST_ID),
            global_request_id=request.environ.get(request_id.GLOBAL_REQ_ID),
            overwrite=True,
        )
        response = request.get_response(self._application)
        LOG.info(
            '%s %s: %d, %d bytes, %.3f s',
            request.method,
            _path(request.environ),
            response.status_int,
            response.content_length or 0,
            time.monotonic() - began,
        )
        return response


def _path(environ: dict[str, Any]) -> str:
    """Return the path as it was sent, also if it is not UTF-8, as WebOb requires.

    It has no query, and no token of a feed that a client has put into the path.
    """
    path: str = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
    return feeds.redact(urllib.parse.quote(path.encode('latin-1')))
