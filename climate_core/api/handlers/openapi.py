# SPDX-License-Identifier: Apache-2.0
"""Serve the OpenAPI document. No token is needed to read it."""

from collections.abc import Callable

import webob

from climate_core.api import openapi
from climate_core.api.request import Backend, Request, answer
from climate_core.api.route import Table


def describe(routes: Table) -> Callable[[Backend, Request], webob.Response]:
    """Make the handler that answers with what is in a table of routes."""

    def show(backend: Backend, request: Request) -> webob.Response:
        """Return the OpenAPI document of this installation."""
        document = openapi.document(routes, request.application_url, backend.plugins)
        return answer(200, document)

    return show
