# SPDX-License-Identifier: Apache-2.0
"""The part of the Identity API v3 that Climate uses: versions, tokens, trusts."""

import datetime
import uuid
from typing import Any

from tests.support.fakes.state import Record, Refusal, State

HOURS = 8


def _version(request: Any) -> Record:
    link = [{'rel': 'self', 'href': f'{request.base}/identity/v3/'}]
    return {'id': 'v3.14', 'status': 'stable', 'links': link, 'media-types': []}


def _issue(request: Any) -> Any:
    """Issue a token for a password, scoped to a project or a trust."""
    state, auth = request.server.state, request.body['auth']
    if 'password' not in auth['identity']['methods']:
        raise Refusal(401, 'Only passwords are understood here.')
    user = _login(state, auth['identity']['password']['user'])
    trust = auth.get('scope', {}).get('OS-TRUST:trust')
    if trust:
        value = _through_trust(state, user, trust['id'])
    else:
        value = state.token(user, user['project_id'], user['roles'], None)
    return 201, {'X-Subject-Token': value}, _shown(state, value, request.base)


def _login(state: State, wanted: Record) -> Record:
    for user in state.users.values():
        if wanted.get('id') == user['id'] or wanted.get('name') == user['name']:
            if user['enabled'] and wanted.get('password') == user['password']:
                return user
            break
    raise Refusal(401, 'The request you have made requires authentication.')


def _through_trust(state: State, trustee: Record, trust_id: str) -> str:
    trust = state.trusts.get(trust_id)
    if not trust:
        raise Refusal(401, 'The request you have made requires authentication.')
    if trust['trustee_user_id'] != trustee['id']:
        raise Refusal(403, 'User is not a trustee.')
    trustor = state.users[trust['trustor_user_id']]
    if not trustor['enabled']:
        raise Refusal(403, 'Trustor is disabled.')
    return state.token(trustor, trust['project_id'], trust['roles'], trust_id)


def _show(request: Any) -> Record:
    request.caller()
    return _shown(request.server.state, request.headers.get('X-Subject-Token', ''), request.base)


def _shown(state: State, value: str, base: str) -> Record:
    token = state.tokens.get(value)
    if not token:
        raise Refusal(404, 'Could not find token.')
    now = datetime.datetime.now(datetime.UTC)
    domain = {'id': 'default', 'name': 'Default'}
    user = state.users[token['user_id']]
    project = token['project_id']
    body = {
        'methods': ['password'],
        'user': {'id': user['id'], 'name': user['name'], 'domain': domain},
        'project': {'id': project, 'name': project.removesuffix('-id'), 'domain': domain},
        'roles': [{'id': f'{name}-id', 'name': name} for name in token['roles']],
        'issued_at': now.strftime('%Y-%m-%dT%H:%M:%S.%fZ'),
        'expires_at': (now + datetime.timedelta(hours=HOURS)).strftime('%Y-%m-%dT%H:%M:%S.%fZ'),
        'catalog': _catalogue(base, project, state),
    }
    if token['trust_id']:
        body['OS-TRUST:trust'] = {'id': token['trust_id'], 'impersonation': True}
    return {'token': body}


def _catalogue(base: str, project: str, state: State) -> list[Record]:
    paths = {
        'identity': '/identity',
        'compute': '/compute/v2.1',
        'placement': '/placement',
        'image': '/image',
        'network': '/network',
        # As many clouds still have it; cinder 3.67 takes it without the project, too.
        'volumev3': f'/volume/v3/{project}',
        'orchestration': f'/heat/v1/{project}',
        **state.more_services,
    }
    if state.no_cinder:
        del paths['volumev3']
    if state.no_heat:
        del paths['orchestration']
    return [
        {
            'id': kind,
            'type': kind,
            'name': kind,
            'endpoints': [
                {
                    'id': kind,
                    'interface': 'public',
                    'region': 'RegionOne',
                    'region_id': 'RegionOne',
                    'url': base + path,
                }
            ],
        }
        for kind, path in paths.items()
    ]


def _create_trust(request: Any) -> Any:
    state, caller, wanted = request.server.state, request.caller(), request.body['trust']
    if caller['user_id'] != wanted['trustor_user_id'] or caller['trust_id']:
        raise Refusal(403, 'Only the trustor can make a trust.')
    roles = [role.get('name') or role['id'].removesuffix('-id') for role in wanted['roles']]
    if not set(roles) <= set(caller['roles']):
        raise Refusal(403, 'The trustor does not have these roles.')
    if wanted['trustee_user_id'] not in state.users:
        raise Refusal(404, f'Could not find user: {wanted["trustee_user_id"]}.')
    trust = {**wanted, 'roles': roles, 'id': uuid.uuid4().hex}
    add_trust(state, **trust)
    return 201, {}, {'trust': {**trust, 'roles': wanted['roles']}}


def add_trust(state: State, **trust: Any) -> Record:
    """Put a trust into the cloud."""
    state.put('trusts', trust, {'what': 'trust create', 'id': trust['id']})
    return trust


def _delete_trust(request: Any, trust_id: str) -> Any:
    state, caller = request.server.state, request.caller()
    trust = state.trusts.get(trust_id)
    if not trust:
        raise Refusal(404, f'Could not find trust: {trust_id}.')
    if 'admin' not in caller['roles'] and caller['user_id'] != trust['trustor_user_id']:
        raise Refusal(403, 'You are not authorized to delete this trust.')
    state.drop('trusts', trust_id, {'what': 'trust delete', 'id': trust_id})
    return 204, {}, None


def _list_trusts(request: Any) -> Record:
    request.caller()
    trustee, trusts = request.query['trustee_user_id'], request.server.state.trusts.values()
    return {'trusts': [{'id': t['id']} for t in trusts if t['trustee_user_id'] == trustee]}


_V3 = '/identity/v3'
ROUTES = (
    ('GET', '/identity', lambda r: (300, {}, {'versions': {'values': [_version(r)]}})),
    ('GET', _V3, lambda r: {'version': _version(r)}),
    ('POST', f'{_V3}/auth/tokens', _issue),
    ('GET', f'{_V3}/auth/tokens', _show),
    ('POST', f'{_V3}/OS-TRUST/trusts', _create_trust),
    ('GET', f'{_V3}/OS-TRUST/trusts', _list_trusts),
    ('DELETE', f'{_V3}/OS-TRUST/trusts/([^/]+)', _delete_trust),
)
