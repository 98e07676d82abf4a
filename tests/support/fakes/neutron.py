# SPDX-License-Identifier: Apache-2.0
"""The part of the Networking API that Climate uses: one network, and one port."""

from typing import Any

from tests.support.fakes.state import Record, Refusal

NETWORK = '3cb9bc59-5699-4588-a4b1-b87f96708bc6'
PORT = 'ce531f90-199f-48c0-816c-13e38010b442'


def _versions(request: Any) -> Record:
    link = [{'rel': 'self', 'href': f'{request.base}/network/v2.0/'}]
    return {'versions': [{'id': 'v2.0', 'status': 'CURRENT', 'links': link}]}


def _get(request: Any, kind: str, wanted: str) -> Record:
    request.caller()
    if wanted != {'network': NETWORK, 'port': PORT}[kind]:
        raise Refusal(404, f'{kind.capitalize()} {wanted} could not be found.')
    return {kind: {'id': wanted}}


ROUTES = (
    ('GET', '/network', _versions),
    ('GET', '/network/v2.0/(network|port)s/([^/]+)', _get),
)
