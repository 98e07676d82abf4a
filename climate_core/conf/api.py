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
                'All requests are trusted: user, project and roles are taken from the headers '
                'X-User-Id, X-Project-Id and X-Roles. For one machine without a cloud only.',
            ),
        ],
        help='How the API authenticates requests.',
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
        help='Maximum number of items of a page of a list. An answer to a request without limit '
        'and marker has up to 100 pages and about 4 MiB. An answer that ends earlier has a link '
        'to the next page.',
    ),
    cfg.IntOpt(
        'feed_seconds',
        default=60,
        min=0,
        max=3600,
        help='Number of seconds for which a process of the API caches a calendar feed and does '
        'not request the roles of its user from Keystone. A change of a lease, and a lost role, '
        'may show in a feed with this delay. A deleted feed returns 404 immediately. 0: every '
        'request renders the feed.',
    ),
    cfg.IntOpt(
        'max_reserving_requests',
        min=1,
        help='Maximum number of concurrent requests of users that reserve resources in one '
        'process of the API. For such a request the lease service calls Nova, Cinder or Heat, '
        'which may wait for the lease service: set this lower than the number of threads of a '
        'process. Requests for one type of resource leave a quarter of this number to other '
        'types, requests of one project half to other projects. Further requests are answered '
        'with 503 and Retry-After. Default: the threads of a uWSGI process but one; no limit in '
        'another WSGI server.',
    ),
]
