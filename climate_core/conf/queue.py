# SPDX-License-Identifier: Apache-2.0
"""Options of leases that wait until there is enough for them: section ``[queue]``."""

from oslo_config import cfg

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
]
