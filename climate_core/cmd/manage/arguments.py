# SPDX-License-Identifier: Apache-2.0
"""Values of options of ``climate-manage``."""

import argparse
import math

from climate_core import exceptions
from climate_core.db import leases
from climate_core.db.engine import Database


def seconds(text: str) -> float:
    """Read a number of seconds, 0 or more.

    :raises argparse.ArgumentTypeError: it is none
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f'must be a number of seconds, 0 or more, not {text!r}')
    return value


def count(text: str) -> int:
    """Read a number from 1 on.

    :raises argparse.ArgumentTypeError: it is none
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f'must be a number from 1 on, not {text!r}')
    return int(text)


def add_lease(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the only lease to look at."""
    parser.add_argument('--lease', metavar='ID', help='only this lease')


def check_lease(database: Database, lease_id: str | None) -> None:
    """Raise LeaseNotFound if there is no such lease, not even a deleted one; None is any."""
    if lease_id is not None and database.read(leases.find, lease_id, parts=()) is None:
        raise exceptions.LeaseNotFound(f'No lease has the id {lease_id}.')
