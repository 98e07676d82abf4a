# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures over the fake cloud; import them into a ``conftest.py``."""

import pathlib
from collections.abc import Iterator

import pytest

from climate_core.db.engine import Database
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.support.fakes import cloud_server, leases
from tests.support.hosts import EnrolledHosts


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    """Return an empty database in a file."""
    made = leases.sqlite(tmp_path / 'climate.sqlite')
    yield made
    made.dispose()


@pytest.fixture
def fake(tmp_path: pathlib.Path) -> Iterator[cloud_server.Server]:
    """Serve a fake cloud in a thread."""
    with cloud_server.running(tmp_path / 'journal') as server:
        yield server


@pytest.fixture
def world(fake: cloud_server.Server) -> FakeServers:
    """Return users, servers and a connected plugin in the fake cloud."""
    return FakeServers(fake)


@pytest.fixture
def hosts(fake: cloud_server.Server, database: Database) -> EnrolledHosts:
    """Return the hosts cn1 and cn2 in the fake cloud, in its Placement and in a pool."""
    return EnrolledHosts(fake, database)


@pytest.fixture
def volumes(fake: cloud_server.Server) -> FakeVolumes:
    """Return users, volumes and a connected plugin in the fake cloud."""
    return FakeVolumes(fake)


@pytest.fixture
def stacks(fake: cloud_server.Server) -> FakeStacks:
    """Return users, stacks and a connected plugin in the fake cloud."""
    return FakeStacks(fake)
