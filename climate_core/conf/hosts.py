# SPDX-License-Identifier: Apache-2.0
"""Options of the hosts of the pools: section ``[hosts]``."""

from oslo_config import cfg

GROUP = 'hosts'

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'lanes_per_host',
        default=4,
        min=1,
        max=64,
        help='How many leases can have servers on a host at the same time. Each makes a lane, a '
        'resource provider under that of the host, when the host is enrolled, and each lane costs '
        'nova-compute one request to Placement whenever it builds a server there. A host of '
        'Ironic has one.',
    ),
    cfg.FloatOpt(
        'refresh_interval',
        default=600.0,
        min=1.0,
        help='Seconds between two looks at what Nova and Placement say of all hosts of the pools, '
        'four requests in all. Each manager does its own, at a time of its own.',
    ),
]
