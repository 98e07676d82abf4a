# SPDX-License-Identifier: Apache-2.0
"""Policies of feeds of leases for calendars."""

from climate_core.policies.base import ADMIN, rule

GET = 'climate:feeds:get'
CREATE = 'climate:feeds:create'
DELETE = 'climate:feeds:delete'

_OWNER = '(role:reader and user_id:%(user_id)s and project_id:%(project_id)s)'

RULES = [
    rule(GET, _OWNER, 'List the own feeds in the project of the token.', 'GET /v1/feeds'),
    rule(
        CREATE,
        _OWNER,
        'Create a feed, which is read without a token of Keystone. It shows the leases of the '
        'project of the token, while its user may see them by ``climate:leases:get``.',
        'POST /v1/feeds',
    ),
    rule(
        DELETE,
        f'{_OWNER} or {ADMIN}',
        'Delete a feed, so that it is read no more.',
        'DELETE /v1/feeds/{feed_id}',
    ),
]
