# SPDX-License-Identifier: Apache-2.0
"""Options of the usage notifications: section ``[usage]``."""

from oslo_config import cfg

GROUP = 'usage'

HOUR, DAY, OFF = 'hour', 'day', 'off'

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'notify_every',
        default=HOUR,
        choices=[
            (HOUR, 'A notification lease.usage for each lease and hour.'),
            (DAY, 'One for each lease and day (UTC).'),
            (OFF, 'None.'),
        ],
        help='How often the usage of the leases is told, for a system that rates it. Periods that '
        'passed while no manager ran are told afterwards, in order.',
    ),
]
