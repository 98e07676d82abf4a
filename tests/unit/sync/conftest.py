# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.databases import *  # noqa: F403
from tests.support.fakes.fixtures import database, fake, hosts, stacks, volumes, world
from tests.unit.sync.notified import Cloud
from tests.unit.sync.sleepers import Sleepers

__all__ = ('database', 'fake', 'hosts', 'stacks', 'volumes', 'world')


@pytest.fixture
def sleepers(tmp_path, monkeypatch):
    made = Sleepers(tmp_path / 'climate.sqlite', monkeypatch)
    yield made
    made.database.dispose()


@pytest.fixture
def one(sleepers):
    """Of the two hosts one is always awake."""
    sleepers.change(number=1, kept_on=True)
    return sleepers


@pytest.fixture
def cloud(database):
    """Return resources as their services show them, and what has them checked."""
    return Cloud(database)
