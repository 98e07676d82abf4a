# SPDX-License-Identifier: Apache-2.0
"""Lanes that are kept by reservations, of whatever state these are."""

import uuid

import pytest
import sqlalchemy as sa

from climate_common import lanes
from climate_core.cloud.placement import PLACEMENT
from climate_core.db import tables
from climate_hosts import lane_providers, placement
from climate_hosts.watch import repair as host_lanes
from climate_hosts.watch.refresh import HostRefresher
from climate_hosts.watch.repair import HostRepair
from tests.support.hosts import promise
from tests.support.leases import NOON


class Lanes:
    """The four lanes of the first host.

    :ivar open: lanes that are open: to a reservation that has it, to one that is over, to one
        that no database has; and one that the one that is over has left, but not closed
    """

    def __init__(self, hosts):
        self.hosts = hosts
        self.ids = hosts.read().lane_ids
        live, over, left = (self._reservation(lane) for lane in (0, 1, 3))
        for lane, reservation_id in ((0, live), (1, over), (2, str(uuid.uuid4()))):
            own = lanes.lane_aggregates(reservation_id, ['demo-id'])
            lane_providers.set_lane_aggregates(hosts.conn, self.ids[lane], own)
            lane_providers.set_slots(hosts.conn, self.ids[lane], 3, is_open=True)
        ended = [lanes.ended_aggregate(left)]
        lane_providers.set_lane_aggregates(hosts.conn, self.ids[3], ended)
        self.over, self._left = over, left
        self.end(over)

    def _reservation(self, lane):
        start = NOON.replace(year=2020)
        lease = promise(self.hosts.database, self.hosts.ids[0], start, lane)
        return lease.reservations[0].id

    def end(self, reservation_id):
        """Have a reservation be over."""
        mine = tables.RESERVATIONS.c.id == reservation_id
        with self.hosts.database.writer() as session:
            session.execute(sa.update(tables.RESERVATIONS).where(mine).values(hold=None))

    def end_left(self):
        self.end(self._left)

    def kept(self):
        """Return the numbers of the lanes that are taken."""
        conn = self.hosts.conn
        return [
            number for number, each in enumerate(self.ids) if lane_providers.is_open(conn, each)
        ]


@pytest.fixture
def four(hosts):
    return Lanes(hosts)


def test_refresh_closes_what_is_open_to_a_reservation_that_is_over(hosts, four, caplog):
    refresher = HostRefresher(hosts.conf, hosts.database, hosts.cloud)
    for _ in range(2):
        refresher.refresh()
        assert four.kept() == [0, 2, 3]
    assert caplog.text.count(f'cn1 was open to reservation {four.over}, which has ended') == 1


def test_lane_that_is_gone_is_left(hosts, four):
    host = hosts.read()
    lost = {host.id: host}
    fault = {'method': 'GET', 'path': 'aggregates', 'status': 404, 'count': 1}
    hosts.state.faults.append(fault)
    assert not list(host_lanes.close_stale_lanes(hosts.database, hosts.conn, lost, four.ids))
    assert four.kept() == [0, 1, 2, 3]


def test_repair_closes_what_no_reservation_explains(hosts, four):
    def repair(yes):
        work = HostRepair(hosts.database, hosts.conn, yes)
        return [(each.what, each.done) for each in work.run()]

    assert repair(False) == [('climate-1-cn1', False), ('climate-2-cn1', False)]
    assert four.kept() == [0, 1, 2, 3]
    assert repair(True) == [('climate-1-cn1', True), ('climate-2-cn1', True)]
    assert four.kept() == [0, 3]
    four.end_left()
    assert repair(True) == [('climate-3-cn1', True)]
    assert four.kept() == [0]
    # One that was prepared for a lease that has not begun.
    (later,) = promise(hosts.database, hosts.ids[0], lane=4).reservations
    prepared = [lanes.reservation_aggregate(later.id)]
    lane_providers.set_lane_aggregates(hosts.conn, four.ids[1], prepared)
    assert repair(True) == []


def test_lane_that_is_opened_to_another_one_meanwhile_is_left(hosts, four, monkeypatch):
    """Between the look at its aggregates and the first write, and before the second."""
    other = lanes.reservation_aggregate('other')
    found = lane_providers.read_access(hosts.conn, four.ids[2]).aggregates
    send = PLACEMENT.send
    for part in ('inventories', 'aggregates'):
        lane_providers.set_lane_aggregates(hosts.conn, four.ids[2], found)

        def overtaken(conn, method, path, *args, part=part, **kwargs):
            if method == 'PUT' and path.endswith(part):
                monkeypatch.undo()
                lane_providers.set_lane_aggregates(conn, four.ids[2], [other])
                lane_providers.set_slots(conn, four.ids[2], 5, is_open=True)
            return send(conn, method, path, *args, **kwargs)

        monkeypatch.setattr(type(PLACEMENT), 'send', staticmethod(overtaken))
        assert not lane_providers.clear_lane(hosts.conn, four.ids[2], found)
        assert lane_providers.read_access(hosts.conn, four.ids[2]).aggregates == {other}
        rooms = placement.read_host_capacities(hosts.conn, hosts.read().provider_id)
        assert four.ids[2] in rooms[hosts.read().provider_id].open_lanes
