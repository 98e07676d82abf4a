# SPDX-License-Identifier: Apache-2.0
"""Show ranges of addresses and segments in a row of a table, and read them from a command."""

import argparse
import ipaddress
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from osc_lib import exceptions

from climateclient.osc import several

#: Maximum number of units that one request registers, and that one range names.
_MOST: Final = 256

Row = tuple[Any, ...]


def add_each(parser: argparse.ArgumentParser) -> None:
    """Add the option that keeps rows apart."""
    parser.add_argument(
        '--each',
        action='store_true',
        help='Show each in its own row; by default a table joins consecutive ones',
    )


def join(
    parsed_args: argparse.Namespace, rows: Iterable[Row], counted: Sequence[int]
) -> list[Row]:
    """Return the rows; in a table those that follow one another and are alike are one row.

    All other formats have a row for each: they are for programs.

    :param counted: the places of the columns that count up: ids, and numbers or IPv4 addresses
    """
    if parsed_args.formatter != 'table' or parsed_args.each:
        return [*rows]
    groups: list[list[Row]] = []
    for row in rows:
        if groups and _follows(groups[-1][-1], row, counted):
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_as_one(each, counted) for each in groups]


def expand(name: str) -> list[str]:
    """Return all that a range names, and of a name that is none the name itself.

    Ranges are ``physnet1:100-199``, ``203.0.113.20-203.0.113.29`` and, of ids, ``12-21``.

    :raises osc_lib.exceptions.CommandError: its ends are the wrong way round, or it is too long
    """
    before, colon, ends = name.rpartition(':')
    first, _, last = ends.partition('-')
    try:
        low, high = _number(first), _number(last)
    except ValueError:
        return [name]
    if not 0 <= high - low < _MOST:
        raise exceptions.CommandError(
            f'{name}: a range must be two ids, two numbers or two addresses, the smaller one '
            f'first, and have {_MOST} at most, for example physnet1:200-299.'
        )
    make = ipaddress.IPv4Address if '.' in first else int
    return [f'{before}{colon}{make(each)}' for each in range(low, high + 1)]


def delete(client: Any, given: Iterable[str], noun: str, log: logging.Logger) -> None:
    """Delete all that names and ranges name, also after one was refused.

    Nothing is deleted if one of them is not there.

    :param client: finds and deletes them
    :param noun: of many of them, for people
    :raises osc_lib.exceptions.CommandError: some were refused; the log says which, and why
    """
    names = dict.fromkeys(name for each in given for name in expand(each))
    ids = {name: client.find(name).id for name in names}
    failed = several.each(names, lambda name: client.delete(ids[name]), log)[1]
    if failed:
        raise exceptions.CommandError(f'{failed} of {len(names)} {noun} could not be deleted.')


def _follows(before: Row, row: Row, counted: Sequence[int]) -> bool:
    return all(
        _number(str(value)) == _number(str(last)) + 1 if place in counted else value == last
        for place, (last, value) in enumerate(zip(before, row, strict=True))
    )


def _as_one(rows: Sequence[Row], counted: Sequence[int]) -> Row:
    if len(rows) == 1:
        return rows[0]
    return tuple(
        f'{value}-{rows[-1][place]}' if place in counted else value
        for place, value in enumerate(rows[0])
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else int(ipaddress.IPv4Address(text))
