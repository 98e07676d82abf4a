# SPDX-License-Identifier: Apache-2.0
"""The part of the Image API that Climate uses."""

from typing import Any

from tests.support.fakes.state import Record, Refusal, owns

_MARK = 'climate_reservation_id'


def _versions(request: Any) -> Any:
    link = [{'rel': 'self', 'href': f'{request.base}/image/v2/'}]
    return 300, {}, {'versions': [{'id': 'v2.16', 'status': 'CURRENT', 'links': link}]}


def _list(request: Any) -> Record:
    caller = request.caller()
    wanted, name = request.query.get(_MARK), request.query.get('name')
    return {
        'images': [
            {key: image.get(key) for key in ('id', 'name', 'status', 'size')}
            | {'owner': image['project_id']}
            for image in request.server.state.images.values()
            if wanted in (None, image['metadata'].get(_MARK))
            and name in (None, image['name'])
            and owns(caller, image)
        ]
    }


def _get(request: Any, image_id: str) -> Record:
    caller = request.caller()
    found: Record | None = request.server.state.images.get(image_id)
    if found is None or not owns(caller, found):
        raise Refusal(404, f'No image found with ID {image_id}')
    keys = ('id', 'name', 'status', 'size', 'min_ram', 'min_disk')
    shown = {key: found.get(key) for key in keys}
    return {**shown, 'owner': found['project_id'], 'visibility': found.get('visibility', 'shared')}


def _delete(request: Any, image_id: str) -> Any:
    request.caller()
    if image_id not in request.server.state.images:
        raise Refusal(404, f'No image found with ID {image_id}')
    entry = {'what': 'image delete', 'id': image_id}
    request.server.state.drop('images', image_id, entry)
    return 204, {}, None


ROUTES = (
    ('GET', '/image', _versions),
    ('GET', '/image/v2/images', _list),
    ('GET', '/image/v2/images/([^/]+)', _get),
    ('DELETE', '/image/v2/images/([^/]+)', _delete),
)
