# SPDX-License-Identifier: Apache-2.0
"""A reserved boot, from the hints to RESERVED."""

from tests.functional.nova.base import NovaTest


class TestReserve(NovaTest):
    def test_boot_to_wake_up_to_delete(self):
        server = self.reserve()
        found = self.assert_status(server, 'RESERVED')
        assert found['OS-EXT-STS:vm_state'] == 'reserved'
        assert found['OS-EXT-STS:power_state'] == 0
        assert self.guests() == []
        held = self.allocations(server)
        assert len(held) == 1

        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert [server['id']] == self.guests()
        assert held == self.allocations(server)

        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)
        assert self.allocations(server) == {}
        assert self.guests() == []
