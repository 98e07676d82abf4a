# SPDX-License-Identifier: Apache-2.0
"""The configuration and the database of one test."""

import pathlib

import pytest

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.db.engine import Database


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    written = tmp_path / 'climate.conf'
    written.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/new/climate.sqlite\n')
    return written


@pytest.fixture
def database(file: pathlib.Path) -> Database:
    assert manage.main(['--config-file', str(file), 'db', 'upgrade']) == 0
    return Database(configuration.load([], [str(file)]))
