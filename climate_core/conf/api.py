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
    cfg.IntOpt(
        'max_limit',
        default=1000,
        min=1,
        max=10000,
        help='The most that one answer of a list holds. A request without limit gets as many; '
        'the answer has a link to the next page.',
    ),
]
