# SPDX-License-Identifier: Apache-2.0
"""List the versions of the API. No token is needed to ask."""

from typing import Any

import webob

from climate_core.api import microversion
from climate_core.api.request import Backend, Request, answer


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
        'min_version': microversion.ONLY,
        'max_version': microversion.ONLY,
        'links': [{'rel': 'self', 'href': f'{request.application_url}/v1'}],
    }
