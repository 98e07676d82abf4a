# SPDX-License-Identifier: Apache-2.0
"""Requests for the versions and the description of the API. They need no token."""

from collections.abc import Callable
from typing import Any

import webob

from climate_core.api import openapi
from climate_core.api.request import MICROVERSION, Backend, Request, answer
from climate_core.api.routing import Table


def versions(_backend: Backend, request: Request) -> webob.Response:
    """List all versions, with the status 300 that clients of this service expect."""
    return answer(300, {'versions': [_version(request)]})


def version(_backend: Backend, request: Request) -> webob.Response:
    """Show the only version."""
    return answer(200, {'version': _version(request)})


def _version(request: Request) -> dict[str, Any]:
    return {
        'id': 'v1.0',
        'status': 'CURRENT',
        'min_version': MICROVERSION,
        'max_version': MICROVERSION,
        'links': [{'rel': 'self', 'href': f'{request.application_url}/v1'}],
    }


def openapi_handler(routes: Table) -> Callable[[Backend, Request], webob.Response]:
    """Return the handler of the OpenAPI document of a route table."""

    def show(backend: Backend, request: Request) -> webob.Response:
        """Return the OpenAPI document of this installation."""
        document = openapi.document(routes, request.application_url, backend.plugins)
        return answer(200, document)

    return show
