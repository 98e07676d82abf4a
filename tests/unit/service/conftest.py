# SPDX-License-Identifier: Apache-2.0
from tests.unit.engine.fixtures import *  # noqa: F403
