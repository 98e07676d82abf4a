# SPDX-License-Identifier: Apache-2.0
"""Options of leases that wait until there is enough for them: section ``[queue]``."""

from oslo_config import cfg

from climate_common import limits

GROUP = 'queue'

OPTS: list[cfg.Opt] = [
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
        help='Seconds from when a preemptible lease that runs is told that another lease needs '
        'what it has until it gives that up. So long the other lease begins later than now; one '
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
        help='Hosts are emptied only if their servers fit on other hosts and there is room for so '
        'many more, each as large as the largest: Nova chooses where each one goes.',
    ),
]
