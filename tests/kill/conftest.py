# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kill.managers import Place, place


@pytest.fixture
def stage(tmp_path: Any) -> Iterator[Place]:
    """A fake cloud, a database in a file and no manager yet."""
    with place(tmp_path, f'sqlite:///{tmp_path}/climate.sqlite') as made:
        yield made
