# SPDX-License-Identifier: Apache-2.0
"""Check the header ``OpenStack-API-Version``; there is one microversion, also the default."""

import re

import webob

from climate_core import exceptions
from climate_core.api import errors

HEADER = 'OpenStack-API-Version'
SERVICE_TYPE = 'reservation'
ONLY = '1.0'


def check(request: webob.Request) -> None:
    """Refuse a request that wants another version.

    :raises climate_core.exceptions.BadRequest: the header names no version
    :raises climate_core.api.errors.NotAcceptable: it names one that is not there
    """
    for entry in request.headers.get(HEADER, '').split(','):
        service, _, wanted = entry.strip().partition(' ')
        if service != SERVICE_TYPE or wanted in (ONLY, 'latest'):
            continue
        if not re.fullmatch(r'\d+\.\d+', wanted):
            raise exceptions.BadRequest(f'{HEADER}: must be "{SERVICE_TYPE} {ONLY}".')
        raise errors.NotAcceptable(
            f'{HEADER}: must be {ONLY}, the only version, not {wanted:.80}.'
        )


def mark(response: webob.Response) -> None:
    """Set the header that names the version of the answer."""
    response.headers[HEADER] = f'{SERVICE_TYPE} {ONLY}'
    response.vary = (*(response.vary or ()), HEADER)
