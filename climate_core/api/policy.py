# SPDX-License-Identifier: Apache-2.0
"""Authenticate requests, and enforce the policies on them.

The middleware creates the context of a request from the token of its caller. Handlers enforce the
policies on the loaded lease itself, never on the project of the caller.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

import webob
import webob.dec
from oslo_config import cfg
from oslo_middleware import request_id
from oslo_policy import policy

from climate_core import conf as configuration
from climate_core import exceptions, policies
from climate_core.context import RequestContext
from climate_core.db.registered_units import Viewer
from climate_core.lease.model import Lease

#: Key of the WSGI environment: the context of the request.
CONTEXT: Final = 'climate.context'

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


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Create the enforcer: the defaults of the code, and the changes of policy.yaml."""
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> policy.Enforcer:
    """Create the enforcer for the tools of oslo.policy, which call this by its entry point.

    The tools have options of their own, so this reads only the configuration files from the
    command line.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument('--config-file', action='append')
    options, _ = parser.parse_known_args(sys.argv[1:])
    return make_enforcer(configuration.load(config_files=options.config_file))


def allows(
    enforcer: policy.Enforcer, context: RequestContext, rule: str, target: Mapping[str, Any]
) -> bool:
    """Return whether the policy allows a rule on the target; if so, record it for the manager."""
    if not enforcer.authorize(rule, dict(target), context.to_policy_values()):
        return False
    context.grant(rule, target.get('project_id'))
    return True


def authorize(
    enforcer: policy.Enforcer,
    context: RequestContext,
    rule: str,
    target: Mapping[str, Any],
    field: str | None = None,
) -> None:
    """Reject what the policy does not allow to the caller.

    :param field: the field of the request that makes Climate enforce the rule
    :raises climate_core.exceptions.Forbidden: the policy does not allow it
    """
    if not allows(enforcer, context, rule, target):
        right = f': leave {field} out' if field else ''
        raise exceptions.Forbidden(f'The policy does not allow {rule} to you{right}.', field)


def authorize_lease(
    enforcer: policy.Enforcer,
    context: RequestContext,
    rule: str,
    lease: Lease,
    field: str | None = None,
) -> None:
    """Reject what the policy does not allow to the caller on this lease.

    :param field: see :func:`authorize`
    :raises climate_core.exceptions.LeaseNotFound: the caller may not see the lease
    :raises climate_core.exceptions.Forbidden: the caller may see the lease, but not do this
    """
    target = {'project_id': lease.project_id, 'user_id': lease.user_id}
    if not allows(enforcer, context, policies.GET_LEASES, target):
        raise exceptions.LeaseNotFound(f'Lease {lease.id} was not found.')
    if rule != policies.GET_LEASES:
        authorize(enforcer, context, rule, target, field)


def viewer(context: RequestContext, sees_all: bool = False) -> Viewer:
    """Return the caller of a request as the viewer of registered units.

    :param sees_all: whether the policy lets the caller see the units of all projects
    """
    return Viewer(context.project_id, context.project_domain_id, sees_all)
