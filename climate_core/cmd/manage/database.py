# SPDX-License-Identifier: Apache-2.0
"""``climate-manage db upgrade|expand|contract|version|purge`` and ``secrets check|rotate``."""

import argparse
import datetime
import pathlib
from collections import Counter
from typing import Any, Final

import sqlalchemy as sa
from oslo_config import cfg

from climate_common import dates
from climate_core.cmd import console
from climate_core.conf import secrets
from climate_core.db import migration, sql, store
from climate_core.db import secrets as db_secrets
from climate_core.db.engine import Database


def add_database_commands(subparsers: Any) -> None:
    """Add the commands of ``climate-manage db`` to a parser."""
    upgrade = subparsers.add_parser(
        'upgrade', help='expand and contract in one step, while no service runs'
    )
    upgrade.set_defaults(run=_upgrade)

    expand = subparsers.add_parser(
        'expand', help='add what this release needs, while the previous release still runs'
    )
    expand.set_defaults(run=_expand)

    contract = subparsers.add_parser(
        'contract',
        help='remove what only the previous release needed, when no service of it runs',
    )
    contract.set_defaults(run=_contract)

    version = subparsers.add_parser('version', help='print the revision of the database')
    version.set_defaults(run=_version)

    purge = subparsers.add_parser(
        'purge', help='remove leases that were deleted or ended long ago, with their data'
    )
    purge.add_argument(
        '--before',
        type=_parse_date,
        metavar='DATE',
        help=f'only leases deleted or ended before this date (UTC): "YYYY-MM-DD", {dates.FORMS} '
        '(default: [manager] purge_days ago)',
    )
    purge.add_argument('--dry-run', action='store_true', help='only report their number')
    purge.set_defaults(run=_purge)


def _upgrade(conf: cfg.ConfigOpts) -> int:
    create_directory(conf)
    migration.upgrade(conf)
    print(migration.head())
    return 0


def _expand(conf: cfg.ConfigOpts) -> int:
    create_directory(conf)
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
    database = Database(conf)
    if not migration.is_contracted(database):
        print('When no service of the previous release runs: "climate-manage db contract".')
    database.dispose()
    return 0


def _purge(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    now = database.read(sql.read_time)
    if conf.command.before is not None:
        time = dates.parse(conf.command.before, now)
    elif conf.manager.purge_days:
        time = now - datetime.timedelta(days=conf.manager.purge_days)
    else:
        raise cfg.Error('--before is required: [manager] purge_days is 0')
    if conf.command.dry_run:
        print(f'{database.read(store.count_purgeable, time)} leases would be removed.')
    else:
        print(f'{store.purge(database, time)} leases removed.')
    database.dispose()
    return 0


def _parse_date(text: str) -> str:
    """Check a date of the command line. The command parses it with the time of the database."""
    if len(text) == len('2026-12-01'):
        text += ' 00:00'
    try:
        dates.parse(text, datetime.datetime.now(datetime.UTC))
    except dates.DateError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc
    return text


def create_directory(conf: cfg.ConfigOpts) -> None:
    """Create the directory of an SQLite database, readable by its owner only."""
    url = sa.make_url(conf.database.connection)
    if url.get_backend_name() == 'sqlite' and url.database and url.database != ':memory:':
        pathlib.Path(url.database).parent.mkdir(0o700, parents=True, exist_ok=True)


#: Rows between two lines of progress.
_ROWS_PER_LINE: Final = 100


def add_secrets_commands(subparsers: Any) -> None:
    """Add the commands of ``climate-manage secrets`` to a parser."""
    parser = subparsers.add_parser(
        'check',
        help='report the number of stored secrets for each key of [virtual:instance] secret_keys',
    )
    parser.epilog = (
        'exit status: 0 the first key opens all, 1 some need another key or are in plain text, '
        '2 the database cannot be read'
    )
    parser.set_defaults(run=_check_secrets, error_status=console.NOT_CHECKED)
    parser = subparsers.add_parser(
        'rotate',
        help='seal with the first key the secrets that are sealed with another key or in plain '
        'text; it can be stopped and repeated while the service runs',
    )
    parser.epilog = 'exit status: 0 the first key opens all, 1 some rows are left'
    parser.set_defaults(run=_rotate_secrets)


def _check_secrets(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    keys = secrets.read_keys(conf)
    found = Counter(db_secrets.check_keys(database, keys))
    database.dispose()
    for (name, key), count in sorted(found.items(), key=str):
        print(f'{name}: {count} {_describe_key(key)}')
    print(f'{sum(found.values())} secrets, {len(keys)} keys')
    return console.exit_status(any(key != 1 for _, key in found))


def _describe_key(key: db_secrets.Key) -> str:
    if key is None:
        return 'in plain text'
    return 'that no key opens' if key == db_secrets.UNOPENED else f'need key {key}'


def _rotate_secrets(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    keys = secrets.read_keys(conf)
    if not keys:
        raise cfg.Error('[virtual:instance] secret_keys is not set: there is no key to seal with')
    database, done, left = Database(conf), 0, 0
    for is_done in db_secrets.rotate_keys(database, keys):
        done, left = done + is_done, left + (not is_done)
        if done and done % _ROWS_PER_LINE == 0 and is_done:
            print(f'{done} rows are sealed with the first key', flush=True)
    database.dispose()
    print(f'{done} rows are sealed with the first key, {left} are left')
    return console.exit_status(left)
