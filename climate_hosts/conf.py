# SPDX-License-Identifier: Apache-2.0
"""Options of the hosts of the pools, and of their power: sections ``[hosts]`` and ``[power]``."""

from typing import NamedTuple

from oslo_config import cfg


class Section(NamedTuple):
    """A section of climate.conf, with the names of a module of :mod:`climate_core.conf`."""

    GROUP: str
    OPTS: list[cfg.Opt]


_HOSTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'lanes_per_host',
        default=4,
        min=1,
        max=64,
        help='Number of leases that can have servers on a host at the same time. The '
        'enrolment of a host creates this number of lanes: resource providers under the '
        'provider of the host. Each lane costs nova-compute one request to Placement '
        'whenever it builds a server there. A host of Ironic has one.',
    ),
    cfg.FloatOpt(
        'enrol_seconds',
        default=2.0,
        min=0.0,
        max=30.0,
        help='Seconds from the isolation of a new host to the check whether an ordinary '
        'server entered nevertheless: nova-scheduler may have chosen the host just before, '
        'and the server claims it a moment later.',
    ),
    cfg.FloatOpt(
        'refresh_interval',
        default=600.0,
        min=1.0,
        help='Interval in seconds at which each manager reads all hosts of the pools from '
        'Nova and Placement, with four requests in all.',
    ),
    cfg.FloatOpt(
        'watch_interval',
        default=60.0,
        min=1.0,
        help='Interval in seconds at which each manager polls whether nova-compute is up on '
        'the hosts of the pools, with one request in all.',
    ),
    cfg.FloatOpt(
        'down_seconds',
        default=300.0,
        min=0.0,
        help='Seconds without a report of nova-compute after which a host has failed: it '
        'takes no allocations, and is replaced in its leases if another host is free. A host '
        'that is forced down in Nova has failed immediately.',
    ),
    cfg.FloatOpt(
        'max_down_share',
        default=0.5,
        min=0.0,
        max=1.0,
        help='When more than this share of the nova-computes of the pools, and at least two, '
        'are down at the same time, Nova itself is assumed to have failed: no host has '
        'failed then, and none is replaced. Hosts that failed before, are disabled or are '
        'forced down do not count. 1: replace every host that is down.',
    ),
    cfg.BoolOpt(
        'evacuate',
        default=False,
        help='Have Nova evacuate the servers of a host that failed during a lease and was '
        'replaced in it, to the other hosts of the lease. Enable it only where a host that '
        'Nova reports as down is certain to run no servers any more, and nothing else '
        'evacuates, as Masakari does.',
    ),
]

_POWER: list[cfg.Opt] = [
    cfg.StrOpt(
        'driver',
        help='Driver that switches hosts of the pools off while no lease needs them, and on '
        'again: redfish, ipmi, notify, which only notifies an external tool, or another '
        'entry point of climate.power.drivers. Unset: no host is switched. All managers need '
        'the same options of this section.',
    ),
    cfg.FloatOpt(
        'interval',
        default=30.0,
        min=0.1,
        help='Interval in seconds at which each manager decides which hosts to power off and '
        'on: a request to Nova, and one to Placement and to Cinder if a host may be powered '
        'off. While a host is being switched the interval is at most five seconds.',
    ),
    cfg.IntOpt(
        'sleep_after',
        default=3600,
        min=0,
        help='A host without servers is powered off if no allocation of it starts within '
        'this number of seconds.',
    ),
    cfg.IntOpt(
        'wake_seconds',
        default=300,
        min=0,
        help='Seconds from switching a host on until its nova-compute is up, for hosts that '
        'were never powered off. For other hosts it is measured whenever they are powered on.',
    ),
    cfg.IntOpt(
        'wake_slack',
        default=120,
        min=0,
        help='Seconds by which a host is switched on earlier than it needs to start. A host '
        'that is not up when it is needed has failed: other hosts are allocated in its place.',
    ),
    cfg.IntOpt(
        'min_awake',
        default=1,
        min=0,
        help='Number of hosts of each pool that stay on though no allocation of them starts '
        'within sleep_after, for leases that start immediately.',
    ),
    cfg.IntOpt(
        'min_cycle',
        default=7200,
        min=0,
        help='Minimum seconds from one power off of a host to the next.',
    ),
    cfg.IntOpt(
        'off_seconds',
        default=300,
        min=0,
        help='Seconds that a host has to shut down. Then its power is cut: it has no servers.',
    ),
    cfg.FloatOpt(
        'watts',
        min=0.0,
        help='Power in watts of a host that is on and idle, for the saved energy in the '
        'usage of hosts. Unset: the usage has no energy.',
    ),
    cfg.StrOpt(
        'machines_file',
        help='File with the addresses and passwords of the management controllers of the '
        'hosts, for the drivers redfish and ipmi. Only its owner and its group may read it. '
        'It is read again when it has changed.',
    ),
    cfg.URIOpt(
        'notify_url',
        schemes=['http', 'https'],
        secret=True,
        help='URL to which the driver notify sends a POST with {"hypervisor_hostname": ..., '
        '"power": "on" or "off"}, once a minute until the host is switched. Unset: '
        'notifications only.',
    ),
]

#: In lower case, as the modules beside which climate_core.conf lists them.
hosts = Section('hosts', _HOSTS)
power = Section('power', _POWER)
