# SPDX-License-Identifier: Apache-2.0
from tests.support.world_fixtures import *  # noqa: F403
from tests.unit.service.manager_process import start, url  # noqa: F401
