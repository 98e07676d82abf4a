# SPDX-License-Identifier: Apache-2.0

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db.engine import Database
from tests.functional.api import world


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    return world.configure(tmp_path)


@pytest.fixture
def database(conf: cfg.ConfigOpts) -> Database:
    return Database(conf)


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database) -> Iterator[Any]:
    with world.running(conf, database) as made:
        yield made
