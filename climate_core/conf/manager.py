# SPDX-License-Identifier: Apache-2.0
"""Options of climate-manager: sections ``[DEFAULT]``, ``[manager]``, ``[engine]``, ``[queue]`` and
``[upgrade_levels]``.
"""

import socket

from oslo_config import cfg, types

from climate_common import limits

PATHS_GROUP = None

PATHS_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'state_path',
        default='/var/lib/climate',
        help='Directory for what the service keeps on this machine. The default database, one '
        'SQLite file for a single machine, lies here.',
    ),
]


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
        help='How long before its end a lease without before_end_date has the notification '
        'lease.event.before_end_lease. 0 turns it off.',
    ),
    cfg.ListOpt(
        'before_start_seconds',
        default=[],
        item_type=types.Integer(min=1, max=limits.LONGEST_START_NOTICE),
        help='Seconds before its start at which every lease has the notification '
        'lease.event.before_start_lease. Each '
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


ENGINE_GROUP = 'engine'

ENGINE_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'workers',
        default=24,
        min=1,
        max=256,
        help='How many threads one manager has to call services for events. As many events again '
        'are claimed meanwhile, so that many are written in one transaction.',
    ),
    cfg.IntOpt(
        'service_share',
        default=75,
        min=1,
        max=100,
        help='How many percent of the workers that others leave may work on events that call one '
        'service: nova, cinder, heat, neutron, placement, keystone, or the external one of '
        '[limits]. One that does not answer keeps each of them until [cloud] timeout, and leases '
        'that need others start meanwhile. Events that wait for a thread have the same share of '
        'their number. 100: a service may have all of them.',
    ),
    cfg.FloatOpt(
        'claim_ttl',
        default=30.0,
        min=1.0,
        help='Seconds after which the work of a manager that died is taken up by another, or by '
        'itself after a restart. A manager that lives renews its claims three times as often. '
        'Notifications that it left are sent as soon by a manager that is started, is notified '
        'of a change or sends some itself, and by one that does nothing else within idle_seconds.',
    ),
    cfg.FloatOpt(
        'idle_seconds',
        default=600.0,
        min=1.0,
        help='The longest sleep of the engine. It wakes up for the next event by itself and is '
        'notified of new ones; this is for the case that the message got lost together with '
        'the manager that sent it, and for clocks that are set. Have the same value on all '
        'managers: of what is due later than twice this they do not tell each other.',
    ),
    cfg.FloatOpt(
        'retry_seconds',
        default=2.0,
        min=0.1,
        help='Wait before the second attempt at something that failed for a while. It is doubled '
        'with each further attempt.',
    ),
    cfg.FloatOpt(
        'retry_max_seconds',
        default=120.0,
        min=1.0,
        help='The longest wait between two attempts.',
    ),
    cfg.FloatOpt(
        'grace_seconds',
        default=30.0,
        min=0.0,
        help='How long a manager that stops waits for the work in progress. What is not finished '
        'then is taken up when its claim expires.',
    ),
    cfg.FloatOpt(
        'prepare_seconds',
        default=60.0,
        min=0.0,
        max=600.0,
        help='How long before the start of a lease each manager begins to ask Keystone for the '
        'token of its owner, at a moment that chance chooses, so that only the wake-up is sent at '
        'the start. A trust that Keystone rejects is reported then (the notification '
        'lease.event.start_lease.warning). 0 turns it off.',
    ),
]


QUEUE_GROUP = 'queue'

QUEUE_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'retry_interval',
        default=300,
        min=1,
        help='Seconds from one try to the next for a lease of the kind retry that waits. It is '
        'tried at once, too, when something is freed; such a try is not counted.',
    ),
    cfg.IntOpt(
        'max_retries',
        default=2016,
        min=1,
        help='How often a lease of the kind retry is tried again at most; then it is in ERROR. '
        'A request may ask for fewer. By default it waits for a week.',
    ),
    cfg.IntOpt(
        'best_effort_timeout',
        default=3600,
        min=1,
        max=limits.BEST_EFFORT_SECONDS,
        help='Seconds in which shared hosts must be empty for a lease of the kind best_effort; '
        'then it is TIMEDOUT, and they serve ordinary servers again. A request may ask for less.',
    ),
    cfg.IntOpt(
        'preemption_notice',
        default=120,
        min=0,
        help='Seconds from when an active preemptible lease is notified that another lease '
        'needs what it has until it is preempted. The other lease starts that much later; one '
        'whose servers need the room also waits until those of the first are off their hosts.',
    ),
    cfg.StrOpt(
        'migration_strategy',
        default='fewest_servers',
        help='Which shared hosts are emptied first: fewest_servers, least_memory, oldest_first '
        '(whose servers have been there for longest), or an entry point of '
        'climate.migration.strategies.',
    ),
    cfg.IntOpt(
        'migrations',
        default=4,
        min=1,
        help='How many servers are moved at once for leases of the kind best_effort. If hosts are '
        'emptied for several leases, each has an equal share, but may move one in any case.',
    ),
    cfg.IntOpt(
        'spare_servers',
        default=1,
        min=0,
        help='Hosts are emptied only if their servers fit on other hosts and there is room for '
        'this number of further servers, each as large as the largest: Nova chooses the host '
        'of each.',
    ),
]


UPGRADE_LEVELS_GROUP = 'upgrade_levels'

UPGRADE_LEVELS_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'manager',
        regex=r'^\d+\.\d+$',
        help='The highest version of the RPC interface of climate-manager that may be sent, as '
        '1.0. Set it to that of the old release while managers of the old release are still '
        'running: what needs a newer one is refused with 503 until then. Leave it out when all '
        'of them are new.',
    ),
]
