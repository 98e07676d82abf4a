# SPDX-License-Identifier: Apache-2.0
"""A manager to test with; a folder's conftest imports it whole."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from climate_core.engine import points
from tests.servers import *  # noqa: F403
from tests.unit.engine.world import Time, World


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def world(tmp_path: pathlib.Path, time: Time) -> Iterator[World]:
    """A manager on SQLite, at noon."""
    made = World(f'sqlite:///{tmp_path}/world.sqlite', time)
    yield made
    made.database.dispose()


@pytest.fixture
def any_world(database_url: str) -> Iterator[World]:
    """A manager on each database in turn, by the clock of the database."""
    made = World(database_url)
    yield made
    made.database.dispose()


@pytest.fixture
def install_hook() -> Iterator[Callable[[points.Hook], None]]:
    yield points.install
    points.install(None)
