# SPDX-License-Identifier: Apache-2.0
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.kill.managers import Place, place
from tests.support.databases import mariadb, new_database, postgresql

__all__ = ('mariadb', 'new_database', 'postgresql')


@pytest.fixture
def stage(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    new_database: Callable[[str], str],
) -> Iterator[Place]:
    """Have a fake cloud, a database (a file unless the test names a server) and no manager yet."""
    with place(tmp_path, new_database(getattr(request, 'param', 'sqlite'))) as made:
        yield made
