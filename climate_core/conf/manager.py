# SPDX-License-Identifier: Apache-2.0
"""Options of climate-manager."""

import socket

from oslo_config import cfg, types

from climate_common import limits

GROUP = 'manager'

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        'host',
        default=socket.gethostname(),
        sample_default='<the name of this host>',
        help='Name of this manager on the message bus and in notifications.',
    ),
    cfg.IntOpt(
        'workers',
        default=1,
        min=1,
        help='How many managers climate-manager runs, each in a process of its own, which has one '
        'core. They are called <host>-1, <host>-2 and so on, and each serves its metrics: the '
        'first at the port of [metrics] listen, the second at the next one.',
    ),
    cfg.ListOpt(
        'plugins',
        default=[
            'virtual:instance',
            'virtual:volume',
            'virtual:stack',
            'physical:host',
            'flavor:instance',
            'virtual:floatingip',
            'network',
        ],
        help='Names of the plugins to load, from the entry points climate.resource.plugins. A '
        'plugin that cannot be loaded keeps the manager from starting. virtual:volume and '
        'virtual:stack do no harm where there is no Cinder and no Heat, and physical:host '
        'and flavor:instance none where no host is enrolled, nor virtual:floatingip where no '
        'floating IP is registered, and network none where no segment is. '
        'virtual:instance has room for '
        'servers by sizes with it, whose options are in the section size:instance; '
        'virtual:floatingip has those that users have already with it: held:floatingip.',
    ),
    cfg.IntOpt(
        'minutes_before_end_lease',
        default=60,
        min=0,
        help='How long before its end a lease that says nothing about it is told to end soon '
        '(the notification lease.event.before_end_lease). 0 turns it off.',
    ),
    cfg.ListOpt(
        'before_start_seconds',
        default=[],
        item_type=types.Integer(min=1, max=limits.LONGEST_START_NOTICE),
        help='How many seconds before its start every lease is told to start soon (the '
        'notification lease.event.before_start_lease), for whatever prepares the ground. Each '
        'number is one notification; a lease may ask for more of them.',
    ),
    cfg.IntOpt(
        'purge_days',
        default=400,
        min=0,
        help='Number of days after which a lease that was deleted or is TERMINATED is removed '
        'from the database, with its history and its usage. The managers do so once a day, a '
        'few leases in each transaction. The default is longer than what one request for usage '
        'may span. 0: never; "climate-manage db purge" removes them.',
    ),
    cfg.IntOpt(
        'late_start_seconds',
        default=300,
        min=0,
        help='How far in the past the start of a new lease may lie, so that a request for this '
        'very minute, or one that took its time, is not refused.',
    ),
]
