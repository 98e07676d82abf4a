# SPDX-License-Identifier: Apache-2.0
"""The part of the Shared File Systems API that the plugin uses, on the fake cloud."""

import uuid
from typing import Any

from tests.support.fakes.cloud_server import Server
from tests.support.fakes.state import Record, Refusal, State, owns

_BASE = '/share/v2'


def start(server: Server) -> None:
    """Serve Manila beside the other services of a fake cloud, and add it to the catalog."""
    server.routes = (*ROUTES, *server.routes)  # type: ignore[misc]
    server.state.more_services['shared-file-system'] = _BASE
    server.state.shares = {}  # type: ignore[attr-defined]


def add(state: State, **fields: Any) -> Record:
    """Add a share that no address has access to."""
    share = {
        'id': str(uuid.uuid4()),
        'project_id': 'demo-id',
        'size': 1,
        'status': 'available',
        'access_rules_status': 'active',
        'rules': [],
        **fields,
    }
    state.put('shares', share, {'what': 'share add', 'id': share['id']})
    return share


def _versions(request: Any) -> Any:
    version = {
        'id': 'v2.0',
        'status': 'CURRENT',
        'version': '2.65',
        'min_version': '2.0',
        'links': [{'rel': 'self', 'href': f'{request.base}{_BASE}/'}],
    }
    return 200, {}, {'versions': [version]}


def _find(request: Any, share_id: str) -> Record:
    caller = request.caller()
    share: Record | None = request.server.state.shares.get(share_id)
    if share is None or not owns(caller, share):
        raise Refusal(404, f'Share {share_id} could not be found.')
    return share


def _get(request: Any, share_id: str) -> Record:
    share, state = _find(request, share_id), request.server.state
    shown = {key: value for key, value in share.items() if key != 'rules'}
    # It changes when it is polled.
    if share['status'] == 'deleting':
        state.drop('shares', share_id, {'what': 'share gone', 'id': share_id})
    elif share['access_rules_status'] == 'syncing':
        share['access_rules_status'] = 'active'
        state.put('shares', share, {'what': 'share exported', 'id': share_id})
    return {'share': shown}


def _list(request: Any) -> Record:
    caller = request.caller()
    shares = sorted(request.server.state.shares.values(), key=lambda share: share['id'])
    marker = request.query.get('marker', '')
    return {
        'shares': [
            {'id': share['id']} for share in shares if owns(caller, share) and share['id'] > marker
        ]
    }


def _services(request: Any) -> Record:
    if 'admin' not in request.caller()['roles']:
        raise Refusal(403, 'Policy does not allow share:service:index.')
    return {'services': []}


def _rules(request: Any) -> Record:
    return {'access_list': _find(request, request.query['share_id'])['rules']}


def _act(request: Any, share_id: str) -> Any:
    share, state = _find(request, share_id), request.server.state
    share['rules'] = [request.body['allow_access']]
    share['access_rules_status'] = 'syncing'
    state.put('shares', share, {'what': 'allow_access', 'id': share_id})
    return 200, {}, {'access': share['rules'][0]}


def _delete(request: Any, share_id: str) -> Any:
    share, state = _find(request, share_id), request.server.state
    share['status'] = 'deleting'
    state.put('shares', share, {'what': 'delete', 'id': share_id})
    return 202, {}, None


ROUTES = (
    ('GET', _BASE, _versions),
    ('GET', f'{_BASE}/shares', _list),
    ('GET', f'{_BASE}/shares/([^/]+)', _get),
    ('GET', f'{_BASE}/services', _services),
    ('GET', f'{_BASE}/share-access-rules', _rules),
    ('POST', f'{_BASE}/shares/([^/]+)/action', _act),
    ('DELETE', f'{_BASE}/shares/([^/]+)', _delete),
)
