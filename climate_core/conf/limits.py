# SPDX-License-Identifier: Apache-2.0
"""Options of the limits of leases and projects: section ``[limits]``."""

from typing import Final

from oslo_config import cfg

from climate_common import limits

GROUP = 'limits'

#: The default and the meaning of the limit of each name.
PROJECT_LIMITS: Final = {
    'leases': (500, 'number of leases that are not TERMINATED'),
    'reserved_servers': (1000, 'number of reserved servers'),
    'reserved_vcpus': (8000, 'number of vCPUs of reserved servers'),
    'reserved_memory_mb': (32_768_000, 'memory of reserved servers in MiB'),
    'reserved_volumes': (1000, 'number of reserved volumes'),
    'reserved_gigabytes': (100_000, 'size of reserved volumes in GiB'),
    'reserved_stacks': (200, 'number of reserved stacks'),
    'reserved_hosts': (200, 'number of reserved hosts'),
    'reserved_floatingips': (200, 'number of reserved floating IPs'),
    'reserved_networks': (200, 'number of reserved networks'),
}

#: The limits of the times of a lease -> what each is the maximum of.
TIME_LIMITS: Final = {
    'max_lease_seconds': 'seconds from the start of a lease to its end',
    'max_ahead_seconds': 'seconds from the request to the start of a lease',
}

OPTS: list[cfg.Opt] = [
    *(
        cfg.IntOpt(
            name,
            default=-1,
            min=-1,
            help=f'Maximum number of {what}. -1: unlimited. Not used while [limits] driver is '
            'keystone and Keystone has a registered limit of this name.',
        )
        for name, what in TIME_LIMITS.items()
    ),
    cfg.ListOpt(
        'exempt_projects',
        default=[],
        help='Ids of the projects to which max_lease_seconds and max_ahead_seconds do not apply.',
    ),
    cfg.StrOpt(
        'driver',
        default='keystone',
        choices=[
            (
                'keystone',
                'The limits that are registered in Keystone for the endpoint of Climate, see '
                'section [oslo_limit]; the options below for the names that are not registered.',
            ),
            ('configured', 'The options below, the same for every project.'),
            ('none', 'No limits.'),
        ],
        help='Source of the limits of projects.',
    ),
    *(
        cfg.IntOpt(
            name,
            default=most,
            min=-1,
            help=f'Maximum {what} of a project. -1: unlimited. Not used while Keystone has a '
            'registered limit of this name.',
        )
        for name, (most, what) in PROJECT_LIMITS.items()
    ),
    cfg.IntOpt(
        'reservations_per_lease',
        default=limits.RESERVATIONS,
        min=1,
        help='Maximum number of reservations of a lease, without those that have left it.',
    ),
    cfg.IntOpt(
        'events_per_lease',
        default=limits.EVENTS,
        min=0,
        help='Maximum number of events that users add to a lease, past ones included.',
    ),
    cfg.IntOpt(
        'lookups_per_request',
        default=2000,
        min=1,
        help='Maximum number of requests to Nova, Cinder, Glance, Neutron and Heat by which one '
        'request of a user is checked before anything is reserved. Equal ones, as for the flavor '
        'of many servers, are sent once.',
    ),
    cfg.IntOpt(
        'changes_per_lease',
        default=2000,
        min=1,
        help='Maximum number of changes by users in the history of a lease. A lease with as many '
        'accepts no updates and no more reservations; it can still be started, ended and deleted, '
        'and reservations can be removed. Its history stays complete until the lease is purged.',
    ),
    cfg.IntOpt(
        'feeds_per_user',
        default=20,
        min=0,
        help='Maximum number of calendar feeds of a user in a project. 0 rejects new feeds.',
    ),
    cfg.URIOpt(
        'external_endpoint',
        schemes=['http', 'https'],
        help='URL of a service that decides whether a lease may be created or changed, and is '
        'notified when it ended: POST <this>/check-create, <this>/check-update and '
        '<this>/on-end. Unset: no service decides.',
    ),
    cfg.URIOpt(
        'external_check_create',
        schemes=['http', 'https'],
        help='URL used instead of <external_endpoint>/check-create.',
    ),
    cfg.URIOpt(
        'external_check_update',
        schemes=['http', 'https'],
        help='URL used instead of <external_endpoint>/check-update.',
    ),
    cfg.URIOpt(
        'external_on_end',
        schemes=['http', 'https'],
        help='URL used instead of <external_endpoint>/on-end.',
    ),
    cfg.URIOpt(
        'external_create',
        schemes=['http', 'https'],
        help='URL to which each new lease is sent when it is saved, as coral-credits needs it to '
        'charge a lease. A failure is logged, and the lease stays. Unset: not sent.',
    ),
    cfg.URIOpt(
        'external_update',
        schemes=['http', 'https'],
        help='URL to which a lease is sent when a change that the external service checks is '
        'saved, as external_create.',
    ),
    cfg.StrOpt(
        'external_token',
        secret=True,
        help='Value of the header X-Auth-Token in requests to the external service. Unset: no '
        'such header, unless external_keystone_token is true.',
    ),
    cfg.StrOpt(
        'external_bearer_token',
        secret=True,
        help='Token in the header "Authorization: Bearer <token>" of requests to the external '
        'service, which coral-credits needs. external_token is sent instead if it is set.',
    ),
    cfg.ListOpt(
        'external_resource_types',
        default=[],
        help='Types of reservations that the external service handles, for example '
        'virtual:instance,flavor:instance. It is neither asked about nor notified of a lease '
        'without any of them. Empty: all types.',
    ),
    cfg.BoolOpt(
        'external_keystone_token',
        default=False,
        help='Send a Keystone token of the service user of section [cloud] in X-Auth-Token, as '
        'Blazar does. Every reader of requests to the external service then has the rights of '
        'that user. external_token or external_bearer_token is sent instead if it is set.',
    ),
    cfg.FloatOpt(
        'external_timeout',
        default=20.0,
        min=0.1,
        help='Seconds to wait for the external service. Keep it well below rpc_response_timeout.',
    ),
]
