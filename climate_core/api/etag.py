# SPDX-License-Identifier: Apache-2.0
"""Read and write the generation of a lease in the headers ``ETag`` and ``If-Match``.

What has no generation has a digest of its body, for ``If-None-Match``. For that the generation is
of no use: a lease shows more than it counts. Without a new generation an event of it is claimed
and becomes IN_PROGRESS, it gets another place in the queue, a host that it is promised has another
name, and another release of the API shows it in another way. Nor is there anything to gain:
authorising the caller takes the one statement that reads all of the lease, and the rest of
answering with it takes a fiftieth of a request. Who waits for a change of a lease is told by
notifications and webhooks.
"""

import hashlib
import re
from typing import Any

import webob

from climate_core import exceptions

IF_MATCH: dict[str, Any] = {
    'type': 'string',
    'pattern': r'^(\*|(W/)?"[0-9]{1,9}"|[0-9]{1,9})(?!\n)$',
    'description': 'The ETag of the lease as it was seen: refuse with 409 if it has another one '
    'by now. One that a proxy made weak (W/"3"), as it compressed the answer, is accepted, too.',
}
#: The headers of a request that changes a lease.
HEADERS: dict[str, Any] = {'If-Match': IF_MATCH}
#: The header of a request that reads what it may know already.
IF_NONE_MATCH: dict[str, Any] = {
    'If-None-Match': {
        'type': 'string',
        'description': 'The ETag of an earlier answer: answer 304 without a body if it would be '
        'the same.',
    }
}
#: Proxies that compress an answer make its tag weak; the generation in it is the same.
_TAG = re.compile(r'(?:W/)?"(\d{1,9})"|(\d{1,9})', re.ASCII)


def mark(response: webob.Response, generation: int) -> webob.Response:
    """Set the header ``ETag`` to the generation of the lease."""
    response.headers['ETag'] = f'"{generation}"'
    return response


def digest(response: webob.Response) -> webob.Response:
    """Set the header ``ETag`` to a digest of the body; 304 is answered if the request names it."""
    response.etag = hashlib.sha256(response.body).hexdigest()[:32]
    response.conditional_response = True
    return response


def expected(request: webob.Request, generation: int | None = None) -> int | None:
    """Return the generation that a lease must have to be changed; None: any.

    :param generation: the one that the body names
    :raises climate_core.exceptions.BadRequest: the header is no ETag of a lease
    :raises climate_core.exceptions.GenerationConflict: the header and the body name two
    """
    text = request.headers.get('If-Match', '*').strip()
    if text == '*':
        return generation
    match = _TAG.fullmatch(text)
    if match is None:
        raise exceptions.BadRequest(
            'If-Match: must be the ETag of a lease, as "3", or *.', field='If-Match'
        )
    wanted = int(match[1] or match[2])
    if generation not in (None, wanted):
        raise exceptions.GenerationConflict(
            'If-Match: must name the same generation as the body, or be left out.',
            field='If-Match',
        )
    return wanted
