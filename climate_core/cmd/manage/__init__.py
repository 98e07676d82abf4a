# SPDX-License-Identifier: Apache-2.0
"""The console script ``climate-manage``: maintain the database, the leases and the cloud."""

import sys
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from climate_core import conf as configuration
from climate_core import exceptions, packages
from climate_core.api import app
from climate_core.cloud import errors
from climate_core.cmd import console
from climate_core.cmd.manage import database, repair, serve
from climate_core.db import migration
from climate_core.db.engine import DATABASE_ERRORS, Stale
from climate_core.plugins import loading

#: Errors that end a command with a sentence instead of a traceback.
_EXPECTED: tuple[type[Exception], ...] = (
    migration.WrongVersion,
    loading.PluginError,
    app.MiddlewareError,
    packages.InvalidConfiguration,
    exceptions.LeaseNotFound,
    cfg.Error,
    *errors.EXPECTED,
    Stale,
    OSError,
    *DATABASE_ERRORS,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    :param argv: the command line without the program's name
    :returns: the exit status: 0, or 1 with a sentence on standard error; commands that check
        something have that of :mod:`climate_core.cmd.console`
    :raises SystemExit: with 2: the command line or a file that it names cannot be used
    """
    words = sys.argv[1:] if argv is None else argv
    with console.exit_if_invalid('climate-manage'):
        conf = configuration.load(words, cli=[command()])
    # Standard output is for the answers. The steps of Alembic are not logged.
    conf.set_default('use_stderr', True)
    conf.set_default('default_log_levels', [*log.get_default_log_levels(), 'alembic=WARN'])
    log.setup(conf, configuration.PROJECT)
    try:
        return int(conf.command.run(conf))
    except _EXPECTED as exc:
        print(f'climate-manage: {console.describe_error(conf, exc)}', file=sys.stderr)
        # Commands that check something exit with 1 if they found a problem.
        return getattr(conf.command, 'error_status', 1)


def command() -> cfg.Opt:
    """Return the option that holds the command; its ``run`` takes the configuration."""
    return cfg.SubCommandOpt('command', title='commands', handler=_add_commands)


def _add_commands(subparsers: Any) -> None:
    db = subparsers.add_parser('db', help='create, check and purge the database')
    database.add_database_commands(
        db.add_subparsers(title='commands', dest='db_command', required=True)
    )
    lease = subparsers.add_parser('lease', help='list leases without progress')
    repair.add_lease_commands(
        lease.add_subparsers(title='commands', dest='lease_command', required=True)
    )
    keys = subparsers.add_parser('secrets', help='check and rotate the keys of stored secrets')
    database.add_secrets_commands(
        keys.add_subparsers(title='commands', dest='secrets_command', required=True)
    )
    repair.add_repair_commands(subparsers)
    imports = subparsers.add_parser('import', help='compare with another reservation service')
    services = imports.add_subparsers(title='services', dest='import_command', required=True)
    for package in packages.list_packages():
        package.add_import_commands(services)
    serve.add_command(subparsers)
