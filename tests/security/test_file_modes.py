# SPDX-License-Identifier: Apache-2.0
"""Files of Climate are for their owner alone, whatever the umask is."""

import contextlib
import os
import pathlib
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.db.engine import Database


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    written = tmp_path / 'climate.conf'
    written.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/new/climate.sqlite\n')
    return written


def test_upgrade_creates_the_file_of_sqlite_for_its_owner(file: pathlib.Path) -> None:
    assert manage.main(['--config-file', str(file), 'db', 'upgrade']) == 0
    directory = file.parent / 'new'
    assert mode(directory) == 0o700
    assert mode(directory / 'climate.sqlite') == 0o600


def test_any_connection_creates_the_files_of_sqlite_for_their_owner(
    file: pathlib.Path,
) -> None:
    (file.parent / 'new').mkdir()
    database = Database(configuration.load([], [str(file)]))
    with database.writer() as session:
        session.execute(sa.text('CREATE TABLE test (id INTEGER)'))
        modes = {each.name: mode(each) for each in (file.parent / 'new').iterdir()}
    database.dispose()
    assert modes.keys() >= {'climate.sqlite', 'climate.sqlite-wal'}
    assert set(modes.values()) == {0o600}


def test_file_that_an_operator_opened_keeps_its_mode(file: pathlib.Path) -> None:
    path = file.parent / 'new' / 'climate.sqlite'
    path.parent.mkdir()
    path.touch(0o640)
    Database(configuration.load([], [str(file)])).engine.dispose()
    assert mode(path) == 0o640


def test_another_connection_of_the_process_keeps_its_locks(file: pathlib.Path) -> None:
    """Closing any descriptor of a file drops all locks of the process on it (fcntl(2))."""
    path = file.parent / 'new' / 'climate.sqlite'
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute('CREATE TABLE test (id INTEGER)')
        held.execute('BEGIN IMMEDIATE')
        Database(configuration.load([], [str(file)])).engine.dispose()
        other = 'import sqlite3, sys; sqlite3.connect(sys.argv[1], 0).execute("BEGIN IMMEDIATE")'
        done = subprocess.run(
            [sys.executable, '-c', other, path], capture_output=True, text=True, check=False
        )
    assert 'database is locked' in done.stderr
