# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.fakes.fixtures import database, fake, hosts  # noqa: F401
from tests.support.rooms import Hotel
from tests.support.world import World
from tests.support.world_fixtures import *  # noqa: F403


@pytest.fixture
def hotel(world: World) -> Hotel:
    """Return a manager that leases two rooms."""
    made = Hotel(world)
    made.build(2)
    return made
