# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.support.databases import *  # noqa: F403
from tests.support.fakes.fixtures import database, fake, hosts, stacks, volumes, world
from tests.unit.hosts.powered_hosts import PoweredHosts

__all__ = ('database', 'fake', 'hosts', 'stacks', 'volumes', 'world')


@pytest.fixture
def powered_hosts(tmp_path, monkeypatch):
    made = PoweredHosts(tmp_path / 'climate.sqlite', monkeypatch)
    yield made
    made.database.dispose()


@pytest.fixture
def one(powered_hosts):
    """Of the two hosts one is always powered on."""
    powered_hosts.change(number=1, kept_on=True)
    return powered_hosts
