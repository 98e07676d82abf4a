# SPDX-License-Identifier: Apache-2.0
"""Middleware that creates the context of a request from the token of its caller."""

from collections.abc import Mapping
from typing import Any

import webob
import webob.dec
from oslo_middleware import request_id

from climate_core import exceptions
from climate_core.api.request import CONTEXT
from climate_core.context import RequestContext

#: The caller of requests without headers, for one machine without a cloud.
_DEFAULT_CALLER = {
    'X-User-Id': 'user',
    'X-Project-Id': 'project',
    'X-Roles': 'member,reader',
}

#: The methods by which users get a token in person, from keystone/api/_shared/delegation.py. A
#: token that was issued for another token has the methods of both.
_IN_PERSON = frozenset(
    {
        'external',
        'kerberos',
        'mapped',
        'openid',
        'password',
        'saml2',
        'token',
        'totp',
        'x509',
    }
)
#: The keys of delegated tokens: keystone/common/render_token.py.
_TRUST = 'OS-TRUST:trust'
_DELEGATED = frozenset({_TRUST, 'OS-OAUTH1', 'application_credential', 'oauth2_credential'})


class Keystone:
    """Trust the headers that keystonemiddleware has set."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        context = _context(request)
        if not context.user_id:
            raise exceptions.Unauthorized(
                'The token names no user. Send one that was issued to a user.'
            )
        request.environ[CONTEXT] = context
        return request.get_response(self._application)


class NoAuth:
    """Accept every caller without a token, for one machine without a cloud."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        for name, value in _DEFAULT_CALLER.items():
            request.headers.setdefault(name, value)
        request.environ[CONTEXT] = _context(request)
        return request.get_response(self._application)


def _context(request: webob.Request) -> RequestContext:
    info = request.environ.get('keystone.token_info')
    token = _token(info)
    context = RequestContext.from_environ(
        request.environ,
        request_id=request.environ.get(request_id.ENV_REQUEST_ID),
        own_token=is_own_token(info),
        trust_id=(token.get(_TRUST) or {}).get('id'),
        role_ids=None
        if info is None
        else {role['name']: role['id'] for role in token.get('roles') or ()},
        granted={},
    )
    context.is_admin = 'admin' in context.roles
    return context


def _token(info: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return (info or {}).get('token') or {}


def is_own_token(info: Mapping[str, Any] | None) -> bool:
    """Return whether a user got a token in person, for a project.

    Any other token counts as delegated.

    :param info: the token as Keystone shows it (``GET /v3/auth/tokens``); None if it is unknown
    """
    token = _token(info)
    methods = set(token.get('methods') or ())
    in_person = methods and methods <= _IN_PERSON and not _DELEGATED & token.keys()
    return bool(in_person and token.get('project'))
