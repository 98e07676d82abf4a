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

_POWER: list[cfg.Opt] = [
    cfg.StrOpt(
        'driver',
        help='What switches hosts of the pools off while no lease needs them, and on again: '
        'redfish, ipmi, notify, which only tells a tool of yours, or another entry point of '
        'climate.power.drivers. Without it no host is ever switched. All managers need the same '
        'options of this section.',
    ),
    cfg.FloatOpt(
        'interval',
        default=30.0,
        min=0.1,
        help='Seconds between two looks at which hosts may sleep and which must wake: a request '
        'to Nova, one to Placement if a host may sleep, and one to Cinder then. A host on its way '
        'is looked at every five seconds at least.',
    ),
    cfg.IntOpt(
        'sleep_after',
        default=3600,
        min=0,
        help='A host without servers sleeps if nothing is promised of it within so many seconds.',
    ),
    cfg.IntOpt(
        'wake_seconds',
        default=300,
        min=0,
        help='How many seconds a host takes from the moment it is switched on until its '
        'nova-compute is up. That is measured for each host whenever it wakes; this is for those '
        'that never slept.',
    ),
    cfg.IntOpt(
        'wake_slack',
        default=120,
        min=0,
        help='A host is switched on so many seconds earlier than it takes. One that is not up '
        'when it is needed has failed: others are promised in its place.',
    ),
    cfg.IntOpt(
        'min_awake',
        default=1,
        min=0,
        help='How many hosts of each pool stay awake though nothing is promised of them within '
        'sleep_after, for leases that start at once.',
    ),
    cfg.IntOpt(
        'min_cycle',
        default=7200,
        min=0,
        help='A host is put to sleep once in so many seconds at most.',
    ),
    cfg.IntOpt(
        'off_seconds',
        default=300,
        min=0,
        help='How many seconds a host has to shut down. Then its power is cut: it has no servers.',
    ),
    cfg.FloatOpt(
        'watts',
        min=0.0,
        help='How many watts a host needs that is awake and has nothing to do, for the energy '
        'that the usage of hosts says was saved. None: it says no energy.',
    ),
    cfg.StrOpt(
        'machines_file',
        help='Of the drivers redfish and ipmi: the file that says how the management controllers '
        'of the hosts are reached, with their passwords. Only its owner and its group may read '
        'it. It is read again when it has changed.',
    ),
    cfg.URIOpt(
        'notify_url',
        schemes=['http', 'https'],
        secret=True,
        help='Of the driver notify: where which host is to be switched is sent by POST, as '
        '{"hypervisor_hostname": ..., "power": "on" or "off"}, once a minute until it is done. '
        'None: it is told by notifications only.',
    ),
]

hosts = Section('hosts', _HOSTS)
power = Section('power', _POWER)
