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
    cfg.MultiStrOpt(
        'middleware',
        default=[],
        help='WSGI filters between authentication and the API, the outermost first; the option '
        'may be repeated. Each is "module:factory", perhaps followed by options "name=value": '
        'a factory of Paste Deploy (paste.filter_factory), which is called with a dict, in which '
        'oslo_config_config is this configuration, and with the options. A filter finds the '
        'project in the header X-Project-Id. It is not called for requests without a token: '
        'versions, the API description, the health check and feeds.',
    ),
    cfg.IntOpt(
        'max_limit',
        default=1000,
        min=1,
        max=10000,
        help='The most that one answer of a list holds. A request without limit gets as many; '
        'the answer has a link to the next page.',
    ),
    cfg.IntOpt(
        'feed_seconds',
        default=60,
        min=0,
        max=3600,
        help='For how many seconds a process of the API sends a calendar feed again as it was, '
        'without asking Keystone for the roles of its user. So a change of a lease, and a lost '
        'role, may show that much later in a feed. A deleted feed returns 404 immediately. '
        '0: every request renders the feed.',
    ),
    cfg.IntOpt(
        'max_reserving_requests',
        min=1,
        help='How many requests of users may reserve resources at once in one process of the API. '
        'They make the lease service ask Nova, Cinder or Heat, which wait for it at times: set '
        'this lower than the threads of a process. Those for one type of resource leave a quarter '
        'of them to other types, those of one project half to other projects. One too many is '
        'answered with 503 and Retry-After. Default: the threads of a uWSGI process but one; no '
        'limit in another WSGI server.',
    ),
]
