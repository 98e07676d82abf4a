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
        help='Directory for the files of the service on this machine. It contains the default '
        'database, one SQLite file for a single machine.',
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
        help='Number of managers that climate-manager runs, each in a separate process, which '
        'uses one core. They are called <host>-1, <host>-2 and so on, and each serves its '
        'metrics: the first at the port of [metrics] listen, the second at the next one.',
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
        'plugin that cannot be loaded prevents the start of the manager. The default plugins do '
        'no harm in a cloud without Cinder or Heat, or without registered hosts, floating IPs and '
        'segments. virtual:instance includes capacity for servers by sizes, whose options are in '
        'the section size:instance; virtual:floatingip includes the floating IPs that users have '
        'already: held:floatingip.',
    ),
    cfg.IntOpt(
        'minutes_before_end_lease',
        default=60,
        min=0,
        help='Minutes before its end at which a lease without before_end_date has the '
        'notification lease.event.before_end_lease. 0 turns it off.',
    ),
    cfg.ListOpt(
        'before_start_seconds',
        default=[],
        item_type=types.Integer(min=1, max=limits.LONGEST_START_NOTICE),
        help='Seconds before its start at which every lease has the notification '
        'lease.event.before_start_lease. Each number is one notification; a lease may request '
        'more of them.',
    ),
    cfg.IntOpt(
        'purge_days',
        default=400,
        min=0,
        help='Number of days after which a lease that was deleted or is TERMINATED is removed '
        'from the database, with its history and its usage. The managers do so once a day, a '
        'few leases in each transaction. The default is longer than what one request for usage '
        'may span. 0: never; "climate-manage db purge --before DATE" removes them.',
    ),
    cfg.IntOpt(
        'late_start_seconds',
        default=300,
        min=0,
        help='Maximum number of seconds that the start of a new lease may lie in the past, so '
        'that a request for the current minute, or a slow request, is not rejected.',
    ),
]


ENGINE_GROUP = 'engine'

ENGINE_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'workers',
        default=24,
        min=1,
        max=256,
        help='Number of threads of one manager that call services for events. The same number of '
        'further events is claimed concurrently, so that many are written in one transaction.',
    ),
    cfg.IntOpt(
        'service_share',
        default=75,
        min=1,
        max=100,
        help='Percentage of the workers not used for other services that may work on events that '
        'call one service: nova, cinder, heat, neutron, placement, keystone, or the external '
        'service of [limits]. A service that does not answer occupies each of these workers until '
        '[cloud] timeout, and leases that need other services start concurrently. The same share '
        'applies to events that wait for a thread. 100: one service may occupy all workers.',
    ),
    cfg.FloatOpt(
        'claim_ttl',
        default=30.0,
        min=1.0,
        help='Seconds after which another manager resumes the work of a manager that died, or the '
        'same manager after a restart. A running manager renews its claims three times as often. '
        'After the same time the unsent notifications of the manager that died are sent by any '
        'manager that starts, is notified of a change or sends notifications itself, and by an '
        'idle manager within idle_seconds.',
    ),
    cfg.FloatOpt(
        'idle_seconds',
        default=600.0,
        min=1.0,
        help='Maximum number of seconds between two polls of the engine. It polls when the next '
        'event is due and is notified of new events; this covers a notification that was lost '
        'together with the manager that sent it, and clocks that are set. Set the same value on '
        'all managers: they do not notify each other of events that are due later than twice this '
        'time.',
    ),
    cfg.FloatOpt(
        'retry_seconds',
        default=2.0,
        min=0.1,
        help='Seconds before the second attempt at an action that failed temporarily. They are '
        'doubled with each further attempt.',
    ),
    cfg.FloatOpt(
        'retry_max_seconds',
        default=120.0,
        min=1.0,
        help='Maximum number of seconds between two attempts.',
    ),
    cfg.FloatOpt(
        'grace_seconds',
        default=30.0,
        min=0.0,
        help='Seconds for which a manager that stops waits for the work in progress. Unfinished '
        'work is resumed when its claim expires.',
    ),
    cfg.FloatOpt(
        'prepare_seconds',
        default=60.0,
        min=0.0,
        max=600.0,
        help='Maximum number of seconds before the start of a lease at which each manager '
        'requests the token of its owner from Keystone, at a random moment, so that only the '
        'wake-up is sent at the start. A trust that Keystone rejects is reported then (the '
        'notification lease.event.start_lease.warning). 0 turns it off.',
    ),
]


QUEUE_GROUP = 'queue'

QUEUE_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        'retry_interval',
        default=300,
        min=1,
        help='Seconds between two attempts for a queued lease of the kind retry. It is also tried '
        'immediately when capacity is released; such an attempt is not counted.',
    ),
    cfg.IntOpt(
        'max_retries',
        default=2016,
        min=1,
        help='Maximum number of attempts for a lease of the kind retry; after them it is in '
        'ERROR. A request may set a lower number. By default the lease is queued for a week.',
    ),
    cfg.IntOpt(
        'best_effort_timeout',
        default=3600,
        min=1,
        max=limits.BEST_EFFORT_SECONDS,
        help='Seconds in which shared hosts must be drained for a lease of the kind best_effort; '
        'after them it is TIMEDOUT, and the hosts accept ordinary servers again. A request may '
        'set a lower number.',
    ),
    cfg.IntOpt(
        'preemption_notice',
        default=120,
        min=0,
        help='Seconds from the notification of an active preemptible lease that another lease '
        'preempts it until it is preempted. The start of the other lease is delayed by this time; '
        'a lease whose servers need the capacity also waits until the servers of the preempted '
        'lease are off their hosts.',
    ),
    cfg.StrOpt(
        'migration_strategy',
        default='fewest_servers',
        help='Which shared hosts are drained first: fewest_servers, least_memory, oldest_first '
        '(whose servers have existed for longest), or an entry point of '
        'climate.migration.strategies.',
    ),
    cfg.IntOpt(
        'migrations',
        default=4,
        min=1,
        help='Maximum number of servers that are moved concurrently for leases of the kind '
        'best_effort. If hosts are drained for several leases, each has an equal share, but may '
        'move one in any case.',
    ),
    cfg.IntOpt(
        'spare_servers',
        default=1,
        min=0,
        help='Hosts are drained only if the other hosts have capacity for their servers and for '
        'this number of further servers, each as large as the largest: Nova chooses the host of '
        'each.',
    ),
]


UPGRADE_LEVELS_GROUP = 'upgrade_levels'

UPGRADE_LEVELS_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'manager',
        regex=r'^\d+\.\d+$',
        help='Maximum version of the RPC interface of climate-manager that is used, for example '
        '1.0. Set it to that of the old release while managers of the old release are still '
        'running: calls that need a newer version are rejected with 503 until then. Unset it when '
        'every manager runs the new release.',
    ),
]
