# SPDX-License-Identifier: Apache-2.0
"""The worlds that the suite runs in.

By default the fake cloud; with ``CLIMATE_TEST_CLOUD=1`` the real one in the file that
``OS_CLIENT_CONFIG_FILE`` names (see ``devstack/local/cloud env``).
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.fake_floating_ips import FakeFloatingIps
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_shares import FakeShares
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.conformance.world import PluginWorld
from tests.support.fakes import cloud_server

FAKES = {
    'fake-floating-ips': FakeFloatingIps,
    'fake-servers': FakeServers,
    'fake-shares': FakeShares,
    'fake-stacks': FakeStacks,
    'fake-volumes': FakeVolumes,
}
WORLDS = ['real-servers'] if os.environ.get('CLIMATE_TEST_CLOUD') else sorted(FAKES)


@pytest.fixture(scope='session', params=WORLDS)
def world(request: Any, tmp_path_factory: Any) -> Iterator[PluginWorld]:
    """Return a place to reserve in, one for each plugin."""
    if request.param == 'real-servers':
        from tests.conformance.real_servers import RealServers

        with RealServers.opened() as real:
            yield real
        return
    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        yield FAKES[request.param](server)


@pytest.fixture(autouse=True)
def room(world: PluginWorld) -> Iterator[None]:
    """Leave nothing behind for the next test."""
    yield
    world.clean()
