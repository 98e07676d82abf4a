# SPDX-License-Identifier: Apache-2.0
"""Options that several commands of ``climate-manage`` have, their output and exit status."""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import prettytable

from climate_core import exceptions
from climate_core.db import leases
from climate_core.db.engine import Database


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more.

    :raises argparse.ArgumentTypeError: it is not such a number
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f'must be a number of seconds, 0 or more, not {text!r}')
    return value


def parse_count(text: str) -> int:
    """Parse a whole number, 1 or more.

    :raises argparse.ArgumentTypeError: it is not such a number
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f'must be a number from 1 on, not {text!r}')
    return int(text)


def add_lease_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that restricts a command to one lease."""
    parser.add_argument('--lease', metavar='ID', help='only this lease')


def check_lease_exists(database: Database, lease_id: str | None) -> None:
    """Raise LeaseNotFound if no lease, not even a deleted one, has this id. None is accepted."""
    if lease_id is not None and database.read(leases.find, lease_id, parts=()) is None:
        raise exceptions.LeaseNotFound(f'No lease has the id {lease_id}.')


#: The exit status of the commands that look for something.
NOTHING_FOUND, SOMETHING_FOUND, NOT_CHECKED = 0, 1, 2
STATUS = 'exit status: 0 nothing is wrong, 1 something was found, 2 it could not be looked for'


def exit_status(found: object, unseen: object = None) -> int:
    """Return the exit status of a command.

    :param found: true if something was found
    :param unseen: true if something could not be checked
    """
    if unseen:
        return NOT_CHECKED
    return SOMETHING_FOUND if found else NOTHING_FOUND


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--format``, and the exit status to the help."""
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table', help='(%(default)s)'
    )
    parser.epilog = STATUS
    parser.set_defaults(trouble=NOT_CHECKED)


def print_rows(
    rows: Sequence[Any],
    columns: Sequence[str],
    form: str,
    unseen: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print dataclasses as a table or as JSON.

    :param columns: the fields that a table has; JSON has all
    :param form: ``table`` or ``json``
    :param unseen: title -> why it was not checked; printed to standard error
    """
    for title, reason in unseen.items():
        print(f'climate-manage: {title}: not looked for: {reason}', file=sys.stderr)
    values = [dataclasses.asdict(row) for row in rows]
    if form == 'json':
        print(json.dumps(values, indent=2))
        return
    table = prettytable.PrettyTable([name.replace('_', ' ') for name in columns])
    table.align = 'l'
    for row_values in values:
        table.add_row([_cell(row_values[name]) for name in columns])
    print(table if values or unseen else 'Nothing is wrong.')


def _cell(value: Any) -> str:
    if value is None:
        return '-'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return f'{value:.0f} s' if isinstance(value, float) else str(value)
