# SPDX-License-Identifier: Apache-2.0
from tests.support.fakes.fixtures import database, fake, hosts  # noqa: F401
from tests.support.world_fixtures import *  # noqa: F403
