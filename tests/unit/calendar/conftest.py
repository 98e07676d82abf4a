# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.support.databases import *  # noqa: F403
from tests.unit.calendar.hall import Hall


@pytest.fixture
def hall(tmp_path: pathlib.Path) -> Iterator[Hall]:
    """Units on SQLite."""
    made = Hall(f'sqlite:///{tmp_path}/calendar.sqlite')
    yield made
    made.database.dispose()


@pytest.fixture
def any_hall(database_url: str) -> Iterator[Hall]:
    """Units on each database in turn."""
    made = Hall(database_url)
    yield made
    made.database.dispose()


@pytest.fixture(params=['mariadb', 'postgresql'])
def server_hall(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[Hall]:
    """Units on each database on which two transactions write at once."""
    made = Hall(new_database(request.param))
    yield made
    made.database.dispose()
