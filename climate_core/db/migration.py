# SPDX-License-Identifier: Apache-2.0
"""Upgrade a database to the schema that this release needs, with the package ``migrations``.

A migration has one of two phases. ``expand`` only adds, so that the previous release continues to
work on the same database; ``contract`` removes what only that release needed. This release accepts
a database from its newest expand migration on, also after later releases have expanded it: the
revision of an expand migration is ``<number>_after_<last contract>``, or ``_after_0001`` before
the first contract, and a release that knows that contract accepts it without the migration itself.

Alembic is imported only to change a database. Services read the revision without it: it would take
10 MiB for as long as the service runs.
"""

import contextlib
import enum
import functools
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from oslo_config import cfg

import migrations
from climate_core.db import tables
from climate_core.db.engine import Database

if TYPE_CHECKING:
    from alembic import config as alembic_config

#: Where Alembic stores the revision of a database.
_VERSION: Final = sa.table('alembic_version', sa.column('version_num'))
#: The header of a migration, as Alembic reads it.
_FIELD: Final = re.compile(r"^(revision|down_revision|phase) = (?:'(\w+)'|None)$", re.MULTILINE)
_LATER = re.compile(r'\d+_after_(?P<contract>\d+)')


class Phase(enum.StrEnum):
    """A half of an upgrade: add while the previous release runs, then remove."""

    EXPAND = 'expand'
    CONTRACT = 'contract'


class WrongVersion(Exception):
    """The database does not have the schema that this release needs."""


def upgrade(conf: cfg.ConfigOpts, revision: str = 'head') -> None:
    """Upgrade the database of ``[database]`` to a revision, if it is older."""
    with _connected(conf) as connection:
        upgrade_connection(connection, revision)


def upgrade_connection(connection: sa.Connection, revision: str = 'head') -> None:
    """Upgrade the database of a connection; WrongVersion if a later release has done so."""
    present = _version(connection)
    if present is not None and present not in _order():
        raise WrongVersion(
            f'the database is at revision {present}, which is of a later release: use that '
            'release.'
        )
    from alembic import command

    # The read has begun a transaction, and Alembic begins its own.
    connection.rollback()
    config = _config()
    config.attributes['connection'] = connection
    command.upgrade(config, revision)
    connection.commit()


def expand(conf: cfg.ConfigOpts) -> str:
    """Add what this release needs; the previous release continues. Return the new revision."""
    upgrade(conf, expanded())
    return str(version(conf))


def contract(conf: cfg.ConfigOpts) -> str:
    """Remove what only the previous release needed. Return the new revision."""
    check(conf)
    upgrade(conf)
    return str(version(conf))


def version(conf: cfg.ConfigOpts) -> str | None:
    """Return the revision of the database, None for an empty one."""
    with _connected(conf) as connection:
        return _version(connection)


def head() -> str:
    """Return the newest revision of this release."""
    return list(_order())[-1]


def expanded() -> str:
    """Return the oldest revision that this release works with: its newest expand migration."""
    return [name for name, phase in _order().items() if phase is Phase.EXPAND][-1]


def check(conf: cfg.ConfigOpts) -> None:
    """Raise WrongVersion, with what to do, if the database does not fit."""
    _check_revision(version(conf))


def check_database(database: Database) -> None:
    """Do the same with a database that is open."""
    with database.engine.connect() as connection:
        _check_revision(_version(connection))


def _check_revision(present: str | None) -> None:
    names = list(_order())
    if present in names:
        if names.index(present) >= names.index(expanded()):
            return
    elif present is not None:
        later = _LATER.fullmatch(present)
        if later and later['contract'] in names:
            return
        raise WrongVersion(
            f'the database is at revision {present}: it is of a later release than this one, '
            f'whose newest revision is {head()}.'
        )
    raise WrongVersion(
        f'the database is at revision {present or "none"}, not {expanded()}: '
        'run "climate-manage db upgrade".'
    )


def is_contracted(database: Database) -> bool:
    """Return whether the database has nothing that only the previous release needed."""
    with database.engine.connect() as connection:
        present = _version(connection)
    return present not in _order() or present == head()


def _order() -> Mapping[str, Phase]:
    """Return every revision of this release with its phase, oldest first."""
    return _read_order(_folder())


@functools.cache
def _read_order(folder: pathlib.Path) -> Mapping[str, Phase]:
    files = (folder / 'versions').glob('*.py')
    headers = [dict(_FIELD.findall(file.read_text(encoding='utf-8'))) for file in files]
    after = {header['down_revision']: header for header in headers if header}
    order: dict[str, Phase] = {}
    # The first revision comes after none.
    header = after.get('')
    while header is not None:
        order[header['revision']] = Phase(header['phase'])
        header = after.get(header['revision'])
    return order


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    return connection.scalar(sa.select(_VERSION.c.version_num))


def _folder() -> pathlib.Path:
    assert migrations.__file__ is not None  # nosec B101 # for mypy: it holds already
    return pathlib.Path(migrations.__file__).parent


def _config() -> 'alembic_config.Config':
    from alembic import config as alembic_config

    config = alembic_config.Config()
    # A percent sign in a path would be taken for an interpolation.
    config.set_main_option('script_location', str(_folder()).replace('%', '%%'))
    config.attributes['target_metadata'] = tables.load_metadata()
    return config


@contextlib.contextmanager
def _connected(conf: cfg.ConfigOpts) -> Iterator[sa.Connection]:
    database = Database(conf)
    try:
        with database.engine.connect() as connection:
            yield connection
    finally:
        database.dispose()
