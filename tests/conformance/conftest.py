# SPDX-License-Identifier: Apache-2.0
"""The worlds that the suite runs in.

By default the fake cloud; with ``CLIMATE_TEST_CLOUD=1`` the real one in the file that
``OS_CLIENT_CONFIG_FILE`` names (see ``devstack/local/cloud env``).
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.world import World
from tests.support.fakes import cloud_server


def _fake_servers(tmp_path_factory: Any) -> Iterator[World]:
    from tests.conformance.fake_servers import FakeServers

    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        yield FakeServers(server)


def _fake_volumes(tmp_path_factory: Any) -> Iterator[World]:
    from tests.conformance.fake_volumes import FakeVolumes

    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        yield FakeVolumes(server)


def _fake_stacks(tmp_path_factory: Any) -> Iterator[World]:
    from tests.conformance.fake_stacks import FakeStacks

    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        yield FakeStacks(server)


def _real_servers(tmp_path_factory: Any) -> Iterator[World]:
    from tests.conformance.real_servers import RealServers

    with RealServers.opened() as world:
        yield world


WORLDS: dict[str, Callable[[Any], Iterator[World]]] = (
    {'real-servers': _real_servers}
    if os.environ.get('CLIMATE_TEST_CLOUD')
    else {
        'fake-servers': _fake_servers,
        'fake-stacks': _fake_stacks,
        'fake-volumes': _fake_volumes,
    }
)


@pytest.fixture(scope='session', params=sorted(WORLDS))
def world(request: Any, tmp_path_factory: Any) -> Iterator[World]:
    """A place to reserve in, one for each plugin."""
    yield from WORLDS[request.param](tmp_path_factory)


@pytest.fixture(autouse=True)
def room(world: World) -> Iterator[None]:
    """Leave nothing behind for the next test."""
    yield
    world.clean()
