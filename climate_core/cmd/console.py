# SPDX-License-Identifier: Apache-2.0
"""Report errors of programs as sentences, and define their exit statuses.

An error at the start reports why a program cannot use its configuration.
"""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import sqlalchemy as sa
from oslo_config import cfg

from climate_core import conf as configuration
from climate_core import packages
from climate_core.db import migration
from climate_core.db.engine import DATABASE_ERRORS
from climate_core.delivery import metrics
from climate_core.plugins import loading

#: The exit status for an invalid command line or configuration file, as of argparse.
USAGE_STATUS = 2
#: The errors with which a manager does not start.
CANNOT_START: tuple[type[Exception], ...] = (
    migration.WrongVersion,
    loading.PluginError,
    packages.InvalidConfiguration,
    metrics.BadAddress,
    cfg.Error,
    OSError,
    *DATABASE_ERRORS,
)


@contextlib.contextmanager
def exit_if_invalid(program: str) -> Iterator[None]:
    """End the process with a sentence if the command line or a file is invalid.

    :param program: the name of the program
    """
    try:
        yield
    except cfg.Error as exc:
        print(f'{program}: {exc}', file=sys.stderr)
        raise SystemExit(USAGE_STATUS) from exc


def describe_error(conf: cfg.ConfigOpts, exc: Exception) -> str:
    """Return the message of an error, with the database if the error is about it.

    The message also mentions if no climate.conf was read.
    """
    sentences = [str(exc)]
    if isinstance(exc, DATABASE_ERRORS):
        # The lines below the first one are SQL, and an address with general advice.
        sentences = [f'{str(exc).partition(chr(10))[0].rstrip(".")}.', *_describe_database(conf)]
    return ' '.join(filter(None, (*sentences, describe_missing_file(conf))))


def describe_missing_file(conf: cfg.ConfigOpts) -> str | None:
    """Return a sentence if no configuration file was read."""
    if list_files(conf):
        return None
    *first, last = configuration.PLACES
    return (
        f'No climate.conf was found in {", ".join(first)} or {last}: name one with --config-file.'
    )


def list_files(conf: cfg.ConfigOpts) -> list[str]:
    """List the configuration files that were read, including those of directories."""
    directories = map(pathlib.Path, conf.config_dir)
    in_directories = [
        path for directory in directories for path in sorted(directory.glob('*.conf'))
    ]
    return [*conf.config_file, *map(str, in_directories)]


def _describe_database(conf: cfg.ConfigOpts) -> list[str]:
    try:
        url = sa.make_url(conf.database.connection)
    except sa.exc.ArgumentError:
        return ['It is set by [database] connection.']
    return [f'The database is {url.render_as_string(hide_password=True)}.']


#: The exit status of the commands that check something.
NOTHING_FOUND, SOMETHING_FOUND, NOT_CHECKED = 0, 1, 2
STATUS_HELP = 'exit status: 0 nothing is wrong, 1 something was found, 2 it could not be checked'


def exit_status(has_findings: object, unseen: object = None) -> int:
    """Return the exit status of a command.

    :param has_findings: true if something was found
    :param unseen: true if something could not be checked
    """
    if unseen:
        return NOT_CHECKED
    return SOMETHING_FOUND if has_findings else NOTHING_FOUND
