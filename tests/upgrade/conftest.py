# SPDX-License-Identifier: Apache-2.0
from tests.support.databases import *  # noqa: F403
