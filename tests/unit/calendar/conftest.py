# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Iterator

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
