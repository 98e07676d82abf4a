# SPDX-License-Identifier: Apache-2.0
"""Options of climate-api."""

from oslo_config import cfg

GROUP = 'api'

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'auth_strategy',
        default='keystone',
        choices=[
            ('keystone', 'Tokens are checked by Keystone, see [keystone_authtoken].'),
            (
                'noauth',
                'Everybody is believed: user, project and roles are taken from the headers '
                'X-User-Id, X-Project-Id and X-Roles. For one machine without a cloud only.',
            ),
        ],
        help='How the API finds out who asks.',
    ),
]
