# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.databases import *  # noqa: F403
from tests.support.fakes.fixtures import database, fake, hosts, stacks, volumes, world
from tests.unit.repair.notified import Cloud

__all__ = ('database', 'fake', 'hosts', 'stacks', 'volumes', 'world')


@pytest.fixture
def cloud(database):
    """Return resources as their services show them, and what has them checked."""
    return Cloud(database)
