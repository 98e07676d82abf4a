# SPDX-License-Identifier: Apache-2.0
"""Options of the directories of the service."""

from oslo_config import cfg

GROUP = None

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'state_path',
        default='/var/lib/climate',
        help='Directory for what the service keeps on this machine. The default database, one '
        'SQLite file for a single machine, lies here.',
    ),
]
