# SPDX-License-Identifier: Apache-2.0
"""Which tokens are the user's own: the bodies are those of Keystone 30."""

from typing import Any

import pytest
import webob

from climate_core.api.policy import CONTEXT, Keystone, is_own_token

PROJECT = {'id': 'p', 'name': 'demo', 'domain': {'id': 'default', 'name': 'Default'}}


def info(*methods: str, **more: Any) -> dict[str, Any]:
    """Return what Keystone says of a token in a project."""
    token = {'methods': list(methods), 'project': PROJECT, 'user': {'id': 'u'}, **more}
    return {'token': {name: value for name, value in token.items() if value is not None}}


@pytest.mark.parametrize(
    'methods',
    [['password'], ['token', 'password'], ['mapped'], ['password', 'totp'], ['external']],
)
def test_token_that_a_user_got_in_person_is_their_own(methods: list[str]) -> None:
    assert is_own_token(info(*methods))


@pytest.mark.parametrize(
    'given',
    [
        None,
        {},
        {'token': None},
        info(),
        info('application_credential', application_credential={'id': 'a', 'restricted': True}),
        info('application_credential', application_credential={'id': 'a', 'restricted': False}),
        info('password', application_credential={'id': 'a', 'restricted': True}),
        info('token', 'application_credential'),
        info('password', **{'OS-TRUST:trust': {'id': 't', 'impersonation': True}}),
        info('token', 'password', **{'OS-TRUST:trust': {'id': 't', 'impersonation': False}}),
        info('oauth1', **{'OS-OAUTH1': {'access_token_id': 'a', 'consumer_id': 'c'}}),
        info('password', **{'OS-OAUTH1': {'access_token_id': 'a', 'consumer_id': 'c'}}),
        info('oauth2_credential', oauth2_credential={'x5t#S256': 'x'}),
        info('ec2credential'),
        info('of the site'),
        info('password', 'of the site'),
        info('password', project=None),
        info('password', project=None, system={'all': True}),
        info('password', project=None, domain={'id': 'default'}),
    ],
)
def test_token_that_was_delegated_or_is_of_no_project_is_not(given: Any) -> None:
    assert not is_own_token(given)


IDS = {'member': '1', 'reader': '2'}
ROLES = {'roles': [{'id': '1', 'name': 'member'}, {'id': '2', 'name': 'reader'}]}


@pytest.mark.parametrize(
    ('given', 'role_ids', 'is_delegated'),
    [
        (info('password', **ROLES), IDS, False),
        (info('application_credential', application_credential={'id': 'a'}, **ROLES), IDS, True),
        (info('password', **ROLES, **{'OS-TRUST:trust': {'id': 't'}}), IDS, True),
        (info('application_credential', application_credential={'id': 'a'}), {}, True),
        (None, None, False),
    ],
)
def test_context_has_the_roles_of_a_token(given: Any, role_ids: Any, is_delegated: bool) -> None:
    request = webob.Request.blank('/', headers={'X-User-Id': 'u'})
    request.environ['keystone.token_info'] = given
    request.get_response(Keystone(webob.Response()))
    context = request.environ[CONTEXT]
    assert (context.role_ids, context.is_delegated) == (role_ids, is_delegated)
