# SPDX-License-Identifier: Apache-2.0
"""What the lease service asks of Nova about volumes, answered by the real one."""

import json as jsonlib
from unittest import mock

import pytest

from climate_core.cloud import errors, servers
from tests.functional.nova.reserved_volumes import ORDINARY, OTHER, VolumesTest, disk


class LeaseServiceTest(VolumesTest):
    """As the owner of the lease."""

    def setUp(self):
        super().setUp()
        self.flags(shelved_offload_time=0)
        self.conn = mock.Mock()
        self.conn.client.return_value.request = self._request

    def _request(self, path, method, json=None, params=None, microversion=None, raise_exc=True):
        """Send a request as keystoneauth's adapter does, without a catalogue."""
        assert (params, raise_exc) == (None, False)
        before, self.api.microversion = self.api.microversion, microversion
        try:
            return self.api.api_request(
                path,
                method=method,
                body=jsonlib.dumps(json),
                headers={'Content-Type': 'application/json'},
                check_response_status=range(200, 600),
            )
        finally:
            self.api.microversion = before

    def off_its_host(self):
        """Return a shelved server that its volume goes with."""
        data = disk(ORDINARY, delete_on_termination=True)
        server = self.join(data, hints={})
        self.assert_status(server, 'ACTIVE')
        self.api.post_server_action(server['id'], {'shelve': {}})
        self.assert_status(server, 'SHELVED_OFFLOADED')
        return server

    def test_detach_with_delete_on_termination_deletes_the_volume(self):
        server = self.off_its_host()
        for ask in (servers.keep_volume, servers.detach):
            with pytest.raises(errors.Gone):
                ask(self.conn, server['id'], OTHER)
        servers.detach(self.conn, server['id'], ORDINARY)
        assert self.volumes.gone == {ORDINARY}

    def test_keep_volume_before_detach_keeps_the_volume(self):
        server = self.off_its_host()
        servers.keep_volume(self.conn, server['id'], ORDINARY)
        servers.detach(self.conn, server['id'], ORDINARY)
        assert self.volumes.gone == set()
        assert self.attached(server) == []
