# SPDX-License-Identifier: Apache-2.0
"""Users whose tokens name them, and a Keystone that creates trusts.

In the place of keystone. A token of alice is ``token-of-alice``, one of a trust
``token-of-trust-1``; the services at the edge turn them into what keystonemiddleware would say.
"""

import uuid

from heat.common import context
from heat.engine.clients.os.keystone import fake_keystoneclient
from keystoneauth1 import plugin

ALICES = '0' * 31 + 'a'
BOBS = '0' * 31 + 'b'
#: The token of the service user in ``[service_user]`` of heat.conf.
SERVICE_TOKEN = 'token-of-heat'


class User:
    """A user with a role in a project."""

    def __init__(self, name, project_id, *roles):
        self.name, self.project_id, self.roles = name, project_id, roles

    @property
    def token(self):
        return f'token-of-{self.name}'

    def context(self):
        """Return the context of a request of the user, as heat-engine gets it over the bus."""
        return context.RequestContext.from_dict(
            {
                'tenant_id': self.project_id,
                'tenant': f'project of {self.name}',
                'username': self.name,
                'user_id': self.name,
                'roles': list(self.roles),
                'is_admin': False,
                'auth_url': 'http://keystone.test:5000/v3',
                'auth_token': self.token,
                'request_id': f'req-{uuid.uuid4()}',
            }
        )


ALICE = User('alice', ALICES, 'member', 'reader')
BOB = User('bob', BOBS, 'member', 'reader')


class Access:
    """The roles and domains of a token."""

    user_domain_id = project_domain_id = 'default'

    def __init__(self, user):
        self.role_names = list(user.roles)


class Auth(plugin.BaseAuthPlugin):
    """A token, and the catalogue.

    :param endpoints: type of service -> URL
    """

    def __init__(self, token, user, endpoints):
        super().__init__()
        self._token, self._user, self._endpoints = token, user, endpoints

    def get_token(self, session, **kwargs):
        return self._token

    def get_endpoint(self, session, service_type=None, **kwargs):
        return self._endpoints.get(service_type)

    def get_access(self, session, **kwargs):
        return Access(self._user)

    get_auth_ref = get_access

    def get_user_id(self, session, **kwargs):
        return self._user.name

    def get_project_id(self, session, **kwargs):
        return self._user.project_id


class Keystone(fake_keystoneclient.FakeKeystoneClient):
    """Heat's own double, with trusts that differ from each other.

    :ivar users: token -> user
    :ivar trusts: id -> user, those that are there
    """

    def __init__(self, endpoints):
        super().__init__()
        self.endpoints = endpoints
        self.users = {each.token: each for each in (ALICE, BOB)}
        self.trusts = {}
        self._made = 0

    def auth(self, asking):
        """Return the plugin for the context of a user, or of a trust."""
        token = f'token-of-{asking.trust_id}' if asking.trust_id else asking.auth_token
        return Auth(token, self.users[token], self.endpoints)

    def create_trust_context(self):
        self._made += 1
        trust = f'trust-{self._made}'
        user = self.users[self.context.auth_token] if self.context else ALICE
        self.trusts[trust] = self.users[f'token-of-{trust}'] = user
        return context.RequestContext(
            username='heat',
            is_admin=False,
            trust_id=trust,
            trustor_user_id=user.name,
            project_id=user.project_id,
            user_id=user.name,
        )

    regenerate_trust_context = create_trust_context

    def delete_trust(self, trust_id):
        self.trusts.pop(trust_id, None)

    def headers(self, token, service_token):
        """Return the headers that keystonemiddleware adds; None for an invalid token."""
        user = self.users.get(token)
        if user is None:
            return None
        said = {
            'X-User-Id': user.name,
            'X-Project-Id': user.project_id,
            'X-Roles': ','.join(user.roles),
        }
        if service_token == SERVICE_TOKEN:
            said['X-Service-Roles'] = 'service'
        return said
