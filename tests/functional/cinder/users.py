# SPDX-License-Identifier: Apache-2.0
"""Those who speak to the API in these tests."""

ALICES = '0' * 31 + 'a'
BOBS = '0' * 31 + 'b'
ADMINS = '0' * 31 + 'd'


class User:
    """A user of the API.

    :param name: also makes the token ``token-of-<name>``
    :param roles: roles of the token
    :param service: the requests carry a service token too, as those of the lease service and
        of Nova do
    """

    def __init__(self, name, project_id, *roles, service=False):
        self.name, self.project_id, self.roles, self.service = name, project_id, roles, service

    @property
    def headers(self):
        """Return what keystonemiddleware would put into the request."""
        headers = {
            'X-User-Id': self.name,
            'X-Project-Id': self.project_id,
            'X-Roles': ','.join(self.roles),
            'X-Auth-Token': f'token-of-{self.name}',
        }
        if self.service:
            headers |= {'X-Service-Roles': 'service', 'X-Service-Token': 'token-of-service'}
        return headers


ADMIN = User('admin', ADMINS, 'admin', 'member', 'reader')
ALICE = User('alice', ALICES, 'member', 'reader')
BOB = User('bob', BOBS, 'member', 'reader')
#: The lease service: a token of a trust of alice, and its own.
CLIMATE = User('alice', ALICES, 'member', 'reader', service=True)
