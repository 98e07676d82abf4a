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
        'enrol_seconds',
        default=2.0,
        min=0.0,
        max=30.0,
        help='Seconds between the moment from which a new host takes no ordinary servers and the '
        'look at whether one has come nevertheless: nova-scheduler may have chosen the host just '
        'before, and the server claims it a moment later.',
    ),
    cfg.FloatOpt(
        'refresh_interval',
        default=600.0,
        min=1.0,
        help='Seconds between two looks at what Nova and Placement say of all hosts of the pools, '
        'four requests in all. Each manager does its own, at a time of its own.',
    ),
    cfg.FloatOpt(
        'watch_interval',
        default=60.0,
        min=1.0,
        help='Seconds between two looks at whether nova-compute runs on the hosts of the pools, '
        'one request in all. Each manager does its own, at a time of its own.',
    ),
    cfg.FloatOpt(
        'down_seconds',
        default=300.0,
        min=0.0,
        help='A host whose nova-compute has reported nothing for so long has failed: it is '
        'promised to nobody, and replaced in its leases if there is another one. One that is '
        'forced down in Nova has failed at once.',
    ),
    cfg.FloatOpt(
        'max_down_share',
        default=0.5,
        min=0.0,
        max=1.0,
        help='When more than this share of the nova-computes of the pools, and two at least, look '
        'down at once, Nova itself is taken to be ill: no host has failed then, and none is '
        'replaced. Those that failed before, are disabled or are forced down do not count. 1: '
        'replace whatever is down.',
    ),
    cfg.BoolOpt(
        'evacuate',
        default=False,
        help='Have Nova evacuate the servers of a host that failed during a lease and was '
        'replaced in it, to the other hosts of the lease. Only where a host that Nova takes for '
        'down is certain to run no servers any more, and nothing else evacuates, as Masakari '
        'does.',
    ),
]
