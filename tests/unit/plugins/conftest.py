# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.fakes.fixtures import fake, stacks, volumes, world
from tests.unit.plugins.templated import Templated

__all__ = ('fake', 'stacks', 'volumes', 'world')


@pytest.fixture
def templated(stacks):
    made = Templated(stacks)
    yield made
    made.database.dispose()
