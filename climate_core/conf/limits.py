# SPDX-License-Identifier: Apache-2.0
"""Options of the limits of leases and projects: section ``[limits]``."""

from oslo_config import cfg

GROUP = 'limits'

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'max_lease_seconds',
        default=0,
        min=0,
        help='The longest that a lease may be, from its start to its end. 0: no limit.',
    ),
    cfg.IntOpt(
        'max_ahead_seconds',
        default=0,
        min=0,
        help='How far in the future the start of a lease may lie. 0: no limit.',
    ),
    cfg.ListOpt(
        'exempt_projects',
        default=[],
        help='Ids of the projects to which max_lease_seconds and max_ahead_seconds do not apply.',
    ),
    cfg.BoolOpt(
        'enabled',
        default=False,
        help='Keep every project within its limits of Keystone, see section [oslo_limit]: leases, '
        'reserved_servers, reserved_vcpus, reserved_memory_mb, reserved_volumes, '
        'reserved_gigabytes, reserved_stacks, reserved_hosts, reserved_floatingips and '
        'reserved_networks. What has no registered limit cannot be reserved at all, so register '
        'them first.',
    ),
    cfg.URIOpt(
        'external_endpoint',
        schemes=['http', 'https'],
        help='URL of a service that is asked whether a lease may be made or changed, and told '
        'when it ended: POST <this>/check-create, <this>/check-update and <this>/on-end. Unset: '
        'nobody is asked.',
    ),
    cfg.URIOpt(
        'external_check_create',
        schemes=['http', 'https'],
        help='Another URL in place of <external_endpoint>/check-create.',
    ),
    cfg.URIOpt(
        'external_check_update',
        schemes=['http', 'https'],
        help='Another URL in place of <external_endpoint>/check-update.',
    ),
    cfg.URIOpt(
        'external_on_end',
        schemes=['http', 'https'],
        help='Another URL in place of <external_endpoint>/on-end.',
    ),
    cfg.StrOpt(
        'external_token',
        secret=True,
        help='Value of the header X-Auth-Token in requests to the external service. Unset: no '
        'such header, unless external_keystone_token is true.',
    ),
    cfg.BoolOpt(
        'external_keystone_token',
        default=False,
        help='Send a Keystone token of the service user of section [cloud] in X-Auth-Token, as '
        'Blazar does. It has the rights of an administrator, for everybody who can read requests '
        'to the external service. external_token is sent instead if it is set.',
    ),
    cfg.FloatOpt(
        'external_timeout',
        default=20.0,
        min=0.1,
        help='Seconds to wait for the external service. Keep it well below rpc_response_timeout.',
    ),
]
