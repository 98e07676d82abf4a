# SPDX-License-Identifier: Apache-2.0
"""The base of the tests of wake-ups."""

from tests.functional.nova.base import NovaTest


class WakeUpTest(NovaTest):
    """:ivar spawned: a spy on the spawns of guests."""

    def setUp(self):
        super().setUp()
        self.spawned = self.spy_on()
