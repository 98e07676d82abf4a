# SPDX-License-Identifier: Apache-2.0
"""Servers of a preemptible lease that ends while nova-api has not taken a request to wake them."""

from unittest import mock

import pytest

from climate_core import exceptions
from climate_core.cloud import errors, servers
from tests.functional.nova.hosts import Crash
from tests.functional.nova.preemption import ServerPreemptionTest


class TestLateUnshelving(ServerPreemptionTest):
    """A request to unshelve a server is on its way to nova-api when its lease ends."""

    def setUp(self):
        super().setUp()
        self.filler = self.run_preemptible()
        other = self.preempt(self.filler)
        change = {'on_end': 'shelve'}
        reservation = self.world.lease(self.filler).live[0]
        self.world.operations.update_reservation(self.owner(), self.filler, reservation.id, change)
        self.late, self.act = [], servers.act

        def act(conn, server_id, action, *arguments):
            if action == 'unshelve':
                self.late.append((conn, server_id, action, *arguments))
                raise exceptions.Transient('No answer.')
            return self.act(conn, server_id, action, *arguments)

        with mock.patch.object(servers, 'act', act):
            self.end(other)
            self.until(self.filler, 'STARTING')
            for _ in range(10):
                self.world.run_until_idle(seconds=2)
        assert self.late
        server = self.server(self.filler)
        assert (server['status'], server['locked']) == ('SHELVED_OFFLOADED', False)

    def assert_ended(self):
        self.until(self.filler, 'TERMINATED')
        (server,) = self.api.get_servers(detail=True)
        assert (server['status'], server['OS-EXT-STS:task_state']) == ('SHELVED_OFFLOADED', None)
        assert not self.show(server)['locked']
        assert self.used() == 0

    def test_request_that_comes_while_the_lease_ends_is_refused(self):
        self.world.operations.end_lease(self.owner(), self.filler)
        self.world.run_until_idle()
        assert self.world.lease(self.filler).status == 'TERMINATING'
        with pytest.raises(errors.Busy):
            self.act(*self.late[0])
        self.assert_ended()

    def test_server_of_a_request_that_came_before_is_shelved_again(self):
        self.act(*self.late[0])
        self.world.operations.end_lease(self.owner(), self.filler)
        self.assert_ended()

    def test_server_of_a_request_that_comes_before_the_lock_is_shelved_again(self):
        def act(conn, server_id, action, *arguments):
            if action == 'lock' and self.late:
                self.act(*self.late.pop())
                self.late.clear()
            return self.act(conn, server_id, action, *arguments)

        with mock.patch.object(servers, 'act', act):
            self.world.operations.end_lease(self.owner(), self.filler)
            self.assert_ended()
        assert not self.late

    def test_manager_that_dies_after_the_lock_leaves_it_to_the_next_one(self):
        def act(conn, server_id, action, *arguments):
            self.act(conn, server_id, action, *arguments)
            if action == 'lock' and not died:
                died.append(1)
                raise Crash

        died = []
        self.world.operations.end_lease(self.owner(), self.filler)
        with mock.patch.object(servers, 'act', act):
            with pytest.raises(Crash):
                self.world.run_until_idle()
            self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
            self.world.run_until_idle()
        with pytest.raises(errors.Busy):
            self.act(*self.late[0])
        self.assert_ended()

    def test_lock_of_an_administrator_is_respected(self):
        server = self.server(self.filler)
        self.act(self.cloud.service(), server['id'], 'lock', {'locked_reason': 'Evidence.'})
        self.world.operations.end_lease(self.owner(), self.filler)
        self.until(self.filler, 'TERMINATED')
        (server,) = self.api.get_servers(detail=True)
        shown = self.show(server)
        assert (shown['locked'], shown['locked_reason']) == (True, 'Evidence.')
