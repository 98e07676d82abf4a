# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.support.fakes.fixtures import fake, stacks, volumes, world
from tests.unit.plugins.leased import Leased
from tests.unit.plugins.templated import Templated

__all__ = ('fake', 'stacks', 'volumes', 'world')


@pytest.fixture(params=[FakeServers, FakeVolumes, FakeStacks])
def place(request, fake):
    return request.param(fake)


@pytest.fixture(params=[FakeServers, FakeVolumes])
def single(request, fake):
    """Return a place whose resources have no members."""
    return request.param(fake)


@pytest.fixture
def leased(stacks):
    made = Leased(stacks)
    yield made
    made.database.dispose()


@pytest.fixture
def templated(stacks):
    made = Templated(stacks)
    yield made
    made.database.dispose()
