# SPDX-License-Identifier: Apache-2.0
"""Copies of one database of SQLite, instead of as many that are each made table by table."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Callable

import sqlalchemy as sa
from oslo_config import cfg

from climate_core.db import migration

_templates: dict[str, bytes] = {}


def fill(name: str, url: sa.URL, make: Callable[[], None]) -> bool:
    """Fill an empty database, as the first one of this name was filled.

    :param name: of all databases that are filled alike
    :param url: of the database; if it is no file of SQLite, or has something in it, ``make`` has
        to do it
    :param make: creates the tables; it leaves no transaction open
    :returns: whether it is a copy, and ``make`` was not called
    """
    file = pathlib.Path(url.database or '')
    if url.get_backend_name() != 'sqlite' or not url.database or _has_pages(file):
        make()
    elif name in _templates:
        file.write_bytes(_templates[name])
        return True
    else:
        make()
        _templates[name] = _read(file)
    return False


def migrate(conf: cfg.ConfigOpts) -> None:
    """Bring an empty database to the form of this release, as :func:`fill` does."""
    fill('migrated', sa.make_url(conf.database.connection), lambda: migration.upgrade(conf))


def _has_pages(file: pathlib.Path) -> bool:
    """Tell whether there is something beside the header, which choosing WAL writes."""
    if not file.exists() or not file.stat().st_size:
        return False
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return bool(connection.execute('SELECT count(*) FROM sqlite_master').fetchone()[0])


def _read(file: pathlib.Path) -> bytes:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.serialize()
