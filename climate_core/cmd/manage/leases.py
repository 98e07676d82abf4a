# SPDX-License-Identifier: Apache-2.0
"""``climate-manage lease stuck``: leases that make no progress, and why."""

import argparse
from typing import Any

from oslo_config import cfg

from climate_core.cmd.manage import arguments, output
from climate_core.db import migration, monitoring
from climate_core.db.engine import Database

_COLUMNS = ('kind', 'lease_id', 'status', 'event_type', 'age', 'reason')
_DEFAULT = monitoring.StuckThresholds()


def add_commands(subparsers: Any) -> None:
    """Add the commands to a parser."""
    parser = subparsers.add_parser(
        'stuck',
        help='list what does not go on',
        description='List claims that expired and that nobody took up, events that are due or '
        'fail again and again, leases past their end that are not over, leases in STARTING or '
        'ERROR for long, and what is left of leases that are over.',
    )
    add_thresholds(parser)
    arguments.add_lease(parser)
    output.add_format(parser)
    parser.set_defaults(run=_stuck)


def add_thresholds(parser: argparse.ArgumentParser) -> None:
    """Add the options that say when something counts as stuck."""
    parser.add_argument(
        '--attempts',
        type=arguments.count,
        default=_DEFAULT.attempts,
        help='failed attempts from which an event is listed (%(default)s)',
    )
    parser.add_argument(
        '--older',
        type=arguments.seconds,
        default=_DEFAULT.seconds,
        metavar='SECONDS',
        help='how long something may fail, or be what it should not stay (%(default)g)',
    )
    parser.add_argument(
        '--grace',
        type=arguments.seconds,
        default=_DEFAULT.grace,
        metavar='SECONDS',
        help='how long something due may wait for a manager (%(default)g)',
    )


def thresholds(options: Any) -> monitoring.StuckThresholds:
    """Read the options of :func:`add_thresholds`."""
    return monitoring.StuckThresholds(options.attempts, options.older, options.grace)


def _stuck(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    options = conf.command
    arguments.check_lease(database, options.lease)
    found = database.read(monitoring.find_stuck, thresholds(options), options.lease)
    output.show(found, _COLUMNS, options.format)
    database.dispose()
    return output.FOUND if found else output.NOTHING
