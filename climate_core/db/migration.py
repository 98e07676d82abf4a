# SPDX-License-Identifier: Apache-2.0
"""Bring a database to the form that this release needs, with the package ``migrations``."""

import contextlib
import pathlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import command, runtime, script
from alembic import config as alembic_config
from oslo_config import cfg

import migrations
from climate_core.db.engine import Database


class WrongVersion(Exception):
    """The database does not have the form that this release needs."""


def upgrade(conf: cfg.ConfigOpts, revision: str = 'head') -> None:
    """Upgrade the database of ``[database]``; nothing happens if it is up to date."""
    with _connected(conf) as connection:
        upgrade_connection(connection, revision)


def upgrade_connection(connection: sa.Connection, revision: str = 'head') -> None:
    """Upgrade the database of a connection."""
    config = _config()
    config.attributes['connection'] = connection
    command.upgrade(config, revision)
    connection.commit()


def version(conf: cfg.ConfigOpts) -> str | None:
    """Return the revision of the database, None for an empty one."""
    with _connected(conf) as connection:
        return runtime.migration.MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """Return the revision that this release needs."""
    found = script.ScriptDirectory.from_config(_config()).get_current_head()
    assert found is not None
    return found


def check(conf: cfg.ConfigOpts) -> None:
    """Make sure that the database fits.

    :raises WrongVersion: it does not, and what to do
    """
    present, wanted = version(conf), head()
    if present != wanted:
        raise WrongVersion(
            f'the database is at revision {present or "none"}, not {wanted}: '
            'run "climate-manage db upgrade".'
        )


def _config() -> alembic_config.Config:
    config = alembic_config.Config()
    place = migrations.__file__
    assert place is not None
    # A percent sign in a path would be taken for an interpolation.
    location = str(pathlib.Path(place).parent).replace('%', '%%')
    config.set_main_option('script_location', location)
    return config


@contextlib.contextmanager
def _connected(conf: cfg.ConfigOpts) -> Iterator[sa.Connection]:
    database = Database(conf)
    try:
        with database.engine.connect() as connection:
            yield connection
    finally:
        database.dispose()
