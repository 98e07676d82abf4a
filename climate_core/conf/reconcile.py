# SPDX-License-Identifier: Apache-2.0
"""Options of the comparison between leases and the cloud: section ``[reconcile]``."""

from oslo_config import cfg

GROUP = 'reconcile'

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        'interval',
        default=600.0,
        min=1.0,
        help='Seconds between two comparisons of the leases with the resources that exist. Each '
        'manager does its own, at a time of its own.',
    ),
]
