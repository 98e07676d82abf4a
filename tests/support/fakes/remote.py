# SPDX-License-Identifier: Apache-2.0
"""The fake cloud as other processes see it."""

import json
import urllib.request
import uuid
from typing import Any

#: Seconds for an answer.
PATIENCE = 90.0


class Remote:
    """Put things into the cloud, and read what it was asked for.

    :ivar url: where it is
    """

    url: str

    def call(self, path: str, body: Any = None) -> tuple[Any, Any]:
        """Send a GET, or a POST with a body; return the headers and the JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f'{self.url}{path}', data, PATIENCE) as answer:
            return answer.headers, json.load(answer)

    def order(self, what: str, body: Any) -> Any:
        """Put something into the cloud; see the routes under ``/fake``."""
        return self.call(f'/fake/{what}', body)[1]

    def token(self, user: str) -> str:
        """Log a user in, as a client would."""
        login = {'name': user, 'password': 'secret', 'domain': {'id': 'default'}}
        identity = {'methods': ['password'], 'password': {'user': login}}
        headers, _ = self.call('/identity/v3/auth/tokens', {'auth': {'identity': identity}})
        return str(headers['X-Subject-Token'])

    def trust(self, user: str = 'alice', project: str = 'demo', service: str = 'climate') -> str:
        """Make a trust of a user to a service; return its id."""
        trust = {
            'id': uuid.uuid4().hex,
            'trustor_user_id': f'{user}-id',
            'trustee_user_id': f'{service}-id',
            'project_id': f'{project}-id',
            'impersonation': True,
            'roles': ['member', 'reader'],
        }
        return str(self.order('trusts', [trust])[0]['id'])
