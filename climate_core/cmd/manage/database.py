# SPDX-License-Identifier: Apache-2.0
"""``climate-manage db upgrade|expand|contract|version|purge``."""

import argparse
import datetime
import pathlib
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from climate_common import dates
from climate_core.db import migration, sql, store
from climate_core.db.engine import Database

#: Days that a lease is kept after it was deleted or is over, by default.
KEPT_DAYS = 90


def add_commands(subparsers: Any) -> None:
    """Add the commands to a parser."""
    upgrade = subparsers.add_parser('upgrade', help='expand and contract in one: nothing may run')
    upgrade.set_defaults(run=_upgrade)

    expand = subparsers.add_parser(
        'expand', help='add what this release needs, while the release before it still runs'
    )
    expand.set_defaults(run=_expand)

    contract = subparsers.add_parser(
        'contract',
        help='take away what only the release before this one needed, when nothing of it runs',
    )
    contract.set_defaults(run=_contract)

    version = subparsers.add_parser('version', help='print the revision of the database')
    version.set_defaults(run=_version)

    purge = subparsers.add_parser(
        'purge', help='remove leases that were deleted or ended long ago, with all that is theirs'
    )
    purge.add_argument(
        '--before',
        type=_date,
        metavar='DATE',
        help=f'only leases deleted or ended before this date (UTC): "YYYY-MM-DD", {dates.FORMS} '
        f'(default: {KEPT_DAYS} days ago)',
    )
    purge.add_argument('--dry-run', action='store_true', help='only say how many there are')
    purge.set_defaults(run=_purge)


def _upgrade(conf: cfg.ConfigOpts) -> int:
    make_directory(conf)
    migration.upgrade(conf)
    print(migration.head())
    return 0


def _expand(conf: cfg.ConfigOpts) -> int:
    make_directory(conf)
    print(migration.expand(conf))
    return 0


def _contract(conf: cfg.ConfigOpts) -> int:
    print(migration.contract(conf))
    return 0


def _version(conf: cfg.ConfigOpts) -> int:
    print(migration.version(conf) or 'none')
    try:
        migration.check(conf)
    except migration.WrongVersion as exc:
        print(f'This release cannot use it: {exc}')
        return 0
    if not migration.contracted(conf):
        print('When nothing of the old release runs any more: "climate-manage db contract".')
    return 0


def _purge(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    now = database.read(sql.read_time)
    time = now - datetime.timedelta(days=KEPT_DAYS)
    if conf.command.before is not None:
        time = dates.parse(conf.command.before, now)
    if conf.command.dry_run:
        print(f'{database.read(store.count_purgeable, time)} leases would be removed.')
    else:
        print(f'{store.purge(database, time)} leases removed.')
    database.dispose()
    return 0


def _date(text: str) -> str:
    """Check a date of the command line, which is read again with the database's now."""
    if len(text) == len('2026-12-01'):
        text += ' 00:00'
    try:
        dates.parse(text, datetime.datetime.now(datetime.UTC))
    except dates.DateError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc
    return text


def make_directory(conf: cfg.ConfigOpts) -> None:
    """Make the directory that the file of an SQLite database lies in, for its owner alone."""
    url = sa.make_url(conf.database.connection)
    if url.get_backend_name() == 'sqlite' and url.database and url.database != ':memory:':
        pathlib.Path(url.database).parent.mkdir(0o700, parents=True, exist_ok=True)
