# SPDX-License-Identifier: Apache-2.0

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db.engine import Database
from tests.functional.api import world
from tests.support.fakes import cloud_server, hypervisors, placement


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


@pytest.fixture
def hosts_cloud(tmp_path: pathlib.Path) -> Iterator[cloud_server.Server]:
    """Return a fake cloud with the hypervisors cn1, cn2 and cn3; the last one has a server."""
    with cloud_server.running(tmp_path / 'journal') as server:
        for name in ('cn1', 'cn2', 'cn3'):
            added = hypervisors.add(server.state, name)
        placement.add_server(server.state, added['id'], str(uuid.uuid4()))
        yield server
