# SPDX-License-Identifier: Apache-2.0
"""Options of hosts that sleep until a lease needs them: section ``[power]``."""

from oslo_config import cfg

GROUP = 'power'

OPTS: list[cfg.Opt] = [
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
