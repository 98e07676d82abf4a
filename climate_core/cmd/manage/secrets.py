# SPDX-License-Identifier: Apache-2.0
"""``climate-manage secrets check|rotate``: the keys of what is sealed in the database."""

from collections import Counter
from typing import Any, Final

from oslo_config import cfg

from climate_core.cmd.manage import output
from climate_core.conf import secrets
from climate_core.db import migration
from climate_core.db import secrets as db_secrets
from climate_core.db.engine import Database

#: Rows between two lines that show the progress.
_STEP: Final = 100


def add_commands(subparsers: Any) -> None:
    """Add the commands to a parser."""
    parser = subparsers.add_parser(
        'check', help='report how many stored secrets need which of [virtual:instance] secret_keys'
    )
    parser.epilog = (
        'exit status: 0 the first key opens all, 1 some need another key or are in plain text, '
        '2 the database cannot be read'
    )
    parser.set_defaults(run=_check, trouble=output.TROUBLE)
    parser = subparsers.add_parser(
        'rotate',
        help='seal with the first key what another key sealed, and what is in plain text; it can '
        'be stopped and repeated while the service runs',
    )
    parser.epilog = 'exit status: 0 the first key opens all, 1 some rows are left'
    parser.set_defaults(run=_rotate)


def _check(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    keys = secrets.read_keys(conf)
    found = Counter(db_secrets.check_keys(database, keys))
    database.dispose()
    for (name, each), count in sorted(found.items(), key=str):
        print(f'{name}: {count} {_needs(each)}')
    print(f'{sum(found.values())} secrets, {len(keys)} keys')
    return output.NOTHING if all(each.is_current for _, each in found) else output.FOUND


def _needs(each: db_secrets.Secret) -> str:
    if each.key is None:
        return 'in plain text'
    if each.key == 0:
        return 'that no key opens'
    return f'need key {each.key}' + ('' if each.is_current or each.key > 1 else ', not bound yet')


def _rotate(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    keys = secrets.read_keys(conf)
    if not keys:
        raise cfg.Error('[virtual:instance] secret_keys is not set: there is no key to seal with')
    database, done, left = Database(conf), 0, 0
    for is_done in db_secrets.rotate_keys(database, keys):
        done, left = done + is_done, left + (not is_done)
        if done and done % _STEP == 0 and is_done:
            print(f'{done} rows are sealed with the first key', flush=True)
    database.dispose()
    print(f'{done} rows are sealed with the first key, {left} are left')
    return output.FOUND if left else output.NOTHING
