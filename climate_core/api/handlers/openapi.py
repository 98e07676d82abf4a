# SPDX-License-Identifier: Apache-2.0
"""What can be asked of this service, for programs. Nobody needs a token to read it."""

import webob

from climate_core.api import openapi
from climate_core.api.request import Backend, Request, answer


def show(backend: Backend, request: Request) -> webob.Response:
    """The OpenAPI document of this installation."""
    return answer(200, openapi.document(request.application_url, backend.plugins))
