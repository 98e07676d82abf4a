# SPDX-License-Identifier: Apache-2.0
"""The end of a lane, also by a manager that another one has overtaken."""

import uuid

import pytest

from climate_common import lanes
from climate_hosts import lane_providers, placement
from tests.support.fakes import placement as fake_placement
from tests.support.fakes.fixtures import database, fake
from tests.support.hosts import EnrolledHosts

__all__ = ('database', 'fake')

ENDED, NEXT = str(uuid.uuid4()), str(uuid.uuid4())
SLOTS = 3


class Lane:
    """The first lane of a host, open to the reservation that is to end.

    :ivar id: of its provider
    """

    def __init__(self, hosts):
        self.hosts = hosts
        self.id = hosts.read().lane_ids[0]
        self.open_to(ENDED)

    def aggregates(self):
        return lane_providers.read_access(self.hosts.conn, self.id).aggregates

    def open_to(self, reservation_id):
        found = lane_providers.read_access(self.hosts.conn, self.id)
        own = lanes.lane_aggregates(reservation_id, ['demo-id'])
        assert lane_providers.open_lane(self.hosts.conn, self.id, SLOTS, own, found)

    def enter(self):
        """Have a server in it; return its id."""
        server_id, provider_id = str(uuid.uuid4()), self.hosts.read().provider_id
        fake_placement.add_server(self.hosts.state, provider_id, server_id, self.id)
        return server_id

    def leave(self, reservation_id):
        return lane_providers.drain_lane(self.hosts.conn, self.id, reservation_id)


@pytest.fixture
def lane(fake, database):
    return Lane(EnrolledHosts(fake, database))


def test_lane_is_kept_until_its_servers_have_left(lane):
    server = lane.enter()
    assert lane.leave(ENDED) == [server]
    assert lane.leave(ENDED) == [server]
    assert lane.aggregates() == {lanes.ended_aggregate(ENDED)}
    fake_placement.remove_server(lane.hosts.state, server)
    assert lane.leave(ENDED) == []
    assert lane.aggregates() == frozenset()


@pytest.mark.parametrize('step', ['_give_lane', '_put_slots', 'list_consumers'])
def test_lane_of_the_next_reservation_is_left_alone_by_a_late_manager(lane, monkeypatch, step):
    module = placement if step == 'list_consumers' else lane_providers
    real, servers = getattr(module, step), []

    def late(*args):
        monkeypatch.setattr(module, step, real)
        assert lane.leave(ENDED) == []
        lane.open_to(NEXT)
        servers.append(lane.enter())
        return real(*args)

    monkeypatch.setattr(module, step, late)
    assert lane.leave(ENDED) == []
    assert lane.aggregates() == {*lanes.lane_aggregates(NEXT, ['demo-id'])}
    assert lane_providers.is_open(lane.hosts.conn, lane.id)
    assert lane.leave(NEXT) == servers


def test_lane_that_servers_enter_at_the_same_time_is_closed(lane, monkeypatch):
    real, servers = lane_providers._put_slots, []

    def busy(*args):
        servers.append(lane.enter())
        if len(servers) == SLOTS:
            monkeypatch.setattr(lane_providers, '_put_slots', real)
        return real(*args)

    monkeypatch.setattr(lane_providers, '_put_slots', busy)
    assert sorted(lane.leave(ENDED)) == sorted(servers)
    assert lane.aggregates() == {lanes.ended_aggregate(ENDED)}
