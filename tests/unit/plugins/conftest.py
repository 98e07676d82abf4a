# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.conformance.fake_volumes import FakeVolumes
from tests.fakes import cloud_server
from tests.fakes.fixtures import fake, world

__all__ = ('fake', 'world')


@pytest.fixture
def volumes(fake: cloud_server.Server) -> FakeVolumes:
    """Users, volumes and a connected plugin in the fake cloud."""
    return FakeVolumes(fake)
