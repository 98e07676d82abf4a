# SPDX-License-Identifier: Apache-2.0
from tests.servers import *  # noqa: F403
