# SPDX-License-Identifier: Apache-2.0
"""Answers of ``climate-manage`` for people and for programs, and what its exit status says."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import prettytable

#: The exit status of the commands that look for something.
NOTHING, FOUND, TROUBLE = 0, 1, 2
STATUS = 'exit status: 0 nothing is wrong, 1 something was found, 2 it could not be looked for'


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--format``, and say what the exit status is."""
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table', help='(%(default)s)'
    )
    parser.epilog = STATUS
    parser.set_defaults(trouble=TROUBLE)


def show(
    rows: Sequence[Any],
    columns: Sequence[str],
    form: str,
    unseen: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print dataclasses.

    :param columns: the fields that a table has; JSON has all
    :param form: ``table`` or ``json``
    :param unseen: what was not looked for, and why; it goes to standard error
    """
    for title, reason in unseen.items():
        print(f'climate-manage: {title}: not looked for: {reason}', file=sys.stderr)
    values = [dataclasses.asdict(row) for row in rows]
    if form == 'json':
        print(json.dumps(values, indent=2))
        return
    table = prettytable.PrettyTable([name.replace('_', ' ') for name in columns])
    table.align = 'l'
    for each in values:
        table.add_row([_cell(each[name]) for name in columns])
    print(table if values or unseen else 'Nothing is wrong.')


def _cell(value: Any) -> str:
    if value is None:
        return '-'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return f'{value:.0f} s' if isinstance(value, float) else str(value)
