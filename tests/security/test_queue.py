# SPDX-License-Identifier: Apache-2.0
"""Whatever a project has wait, the leases of other projects are tried, and a pass stays cheap."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_core.calendar import calendar, windows
from climate_core.calendar.model import Demand
from climate_core.calendar.search import JointSearch
from climate_core.cloud import servers
from climate_core.db import leases
from climate_core.lease.model import Lease, Reservation
from climate_core.operations import pool_forecast, server_preemption, wait_queue
from climate_core.operations.preemption import Preemption
from climate_core.plugins.forecast import FutureDemand
from climate_core.plugins.server_placement import RunningServer, TargetHost
from tests.security.cost import bounded
from tests.support import quotas
from tests.support.house import SIZE, Guests, Hall, House
from tests.support.rooms import Hotel
from tests.support.world import Time, World, user

OTHER = 'project2'
#: Leases that take their room later, and microseconds.
COUNT, HOUR = 400, 3_600_000_000


def refuse(*_: Any) -> None:
    raise exceptions.NotEnough('There is no room.')


def demand(name: str, start: int, end: int, count: int = 1) -> FutureDemand:
    found = [RunningServer(id=f'{name}.{n}', amounts={'VCPU': 1}) for n in range(count)]
    return FutureDemand(start=start, end=end, servers=found)


def large(hall: Hall, _: Any) -> None:
    """Have as many free VCPUs as there are claims, on hosts with four each."""
    hall.hosts = [TargetHost(name=f'host{n}', free={'VCPU': 4}) for n in range(COUNT // 4)]
    hall.places = {}


class Zones(Hall):
    """The host with the guests, and hosts in two other zones, the larger ones in the last zone."""

    def __init__(self, guests: Guests) -> None:
        super().__init__(guests)
        self.hosts = [dataclasses.replace(each, zone='guests') for each in self.hosts]
        sizes = {'small': 8, 'large': 16}
        self.hosts += [
            TargetHost(name=f'{zone}{n:03}', free={'VCPU': vcpus}, zone=zone)
            for zone, vcpus in sizes.items()
            for n in range(300)
        ]

    def demand(self, name: str, params: Any, amounts: Mapping[str, int]) -> RunningServer:
        return dataclasses.replace(super().demand(name, params, amounts), zone='guests')


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    made = House(monkeypatch)
    yield made
    made.world.database.dispose()


@pytest.fixture
def hotel() -> Iterator[Hotel]:
    """Return a manager that leases two rooms, which another lease has for a day."""
    world = World('sqlite://', Time())
    made = Hotel(world)
    made.build(2)
    world.settle(made.book('first', 2, duration='1d'))
    yield made
    world.database.dispose()


@pytest.fixture
def tried(hotel: Hotel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the ids of the leases that passes try."""
    found: list[str] = []
    right = hotel.rooms.read_demand

    def read_demand(reservation: Reservation) -> Demand:
        found.append(reservation.lease_id)
        return right(reservation)

    monkeypatch.setattr(hotel.rooms, 'read_demand', read_demand)
    return found


def test_servers_that_find_no_room_keep_no_other_project_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = house.lease(SIZE)
    house.settle(1)
    monkeypatch.setattr(pool_forecast, 'check_draft', refuse)
    mine = [house.lease(SIZE + 1, kind='retry') for _ in range(25)]
    other = house.lease(1, project=OTHER, kind='retry')
    assert set(house.status(*mine, other)) == {'WAITING'}
    house.end(first)
    house.world.run_until_idle()
    for _ in range(3):
        house.world.operations.queue.grant_waiting()
    assert house.status(mine[0], other) == ['WAITING', 'PENDING']


def wait_for_room(house: House, count: int, **values: Any) -> str:
    """Create a lease that waits, as if the cloud were full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Preemption, 'find_servers', lambda *_: None)
        patch.setattr(pool_forecast, 'check_draft', refuse)
        return house.lease(count, kind='retry', end_date=None, duration='1h', **values)


def test_lease_above_the_limits_keeps_no_room_from_other_projects(house: House) -> None:
    house.world.operations.quota.project_limits = quotas.Keystone(reserved_vcpus=SIZE - 1)
    first = house.lease(SIZE - 1, project=OTHER)
    house.settle(1)
    mine = wait_for_room(house, SIZE - 1)
    # With this one the lease that waits is above the limits of its project.
    small = house.lease(1)
    house.settle(1)
    other = wait_for_room(house, 1, project='project3')
    house.world.operations.end_lease(user(OTHER), first)
    house.world.run_until_idle()
    house.settle(1)
    assert house.status(small, mine, other) == ['ACTIVE', 'WAITING', 'ACTIVE']


def test_no_lease_gives_way_to_one_above_the_limits(house: House) -> None:
    house.world.operations.quota.project_limits = quotas.Keystone(reserved_vcpus=SIZE - 1)
    others = house.lease(SIZE - 1, preemptible=True, project=OTHER)
    house.settle(1)
    mine = wait_for_room(house, SIZE - 1)
    small = house.lease(1)
    house.settle(5)
    assert house.status(others, small, mine) == ['ACTIVE', 'ACTIVE', 'WAITING']


@pytest.mark.parametrize(('leases', 'count'), [(1, 1000), (1000, 1)])
def test_planned_servers_keep_no_other_project_from_preempting(
    house: House, monkeypatch: pytest.MonkeyPatch, leases: int, count: int
) -> None:
    """They would run in another zone, which has enough room for all of them."""
    now, read = (
        dates.to_microseconds(house.world.clock.now()),
        pool_forecast.read_future_demands,
    )
    one = demand('', now + 2 * HOUR, now + 3 * HOUR, count)
    zone = [dataclasses.replace(each, zone='large') for each in one.servers]
    planned = {
        f'{n}': dataclasses.replace(one, start=one.start + n, servers=zone) for n in range(leases)
    }
    monkeypatch.setattr(
        pool_forecast, 'read_future_demands', lambda *args: {**planned, **read(*args)}
    )
    monkeypatch.setattr(server_preemption, 'CommonHostCapacity', Zones)
    mine = [house.lease(1, preemptible=True) for _ in range(SIZE)]
    house.settle(1)
    other = house.lease(2, project=OTHER)
    with bounded(cpu_seconds=3, mebibytes=30):
        house.settle()
    assert house.status(*mine, other) == ['ACTIVE', 'ACTIVE', 'WAITING', 'WAITING', 'ACTIVE']


def test_servers_with_volumes_keep_no_other_project_from_preempting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are younger than the lease that can give way, so that they are chosen first."""
    size, choose, searches = 40, server_preemption.choose_fewest_preempted, []

    def count(*args: Any) -> Any:
        searches.append(args)
        return choose(*args)

    def show(_conn: object, server_id: str) -> dict[str, Any]:
        attached = [] if server_id == movable.resource_id else [{'id': 'volume'}]
        return {'status': 'ACTIVE', servers.VOLUMES: attached}

    monkeypatch.setattr('tests.support.house.SIZE', size)
    mine = house.lease(1, preemptible=True)
    for _ in range(size - 1):
        house.lease(1, preemptible=True, project=OTHER)
    house.settle(1)
    (movable,) = house.world.lease(mine).live
    monkeypatch.setattr(servers, 'get', show)
    monkeypatch.setattr(server_preemption, 'choose_fewest_preempted', count)
    monkeypatch.setattr(server_preemption, '_MAX_SERVERS_CHECKED', size - 2)
    other = house.lease(1, project='project3')
    house.settle()
    assert house.status(mine, other) == ['WAITING', 'ACTIVE']
    assert len(searches) < 10


def test_forecasts_of_a_pass_are_bounded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers would find room at many times, but take that of a lease that starts later."""
    now = dates.to_microseconds(house.world.clock.now())
    claims = {f'{n}': demand(f'{n}', now + n * HOUR, now + 2000 * HOUR) for n in range(2, COUNT)}
    claims['first'] = demand('first', now, now + HOUR, COUNT // 4)
    monkeypatch.setattr(Hall, '__init__', large)
    monkeypatch.setattr(pool_forecast, 'read_future_demands', lambda *_: claims.copy())
    monkeypatch.setattr(pool_forecast, 'check_draft', refuse)
    mine = [house.lease(COUNT // 10, kind='retry', end_date='2082-12-31 12:00') for _ in range(20)]
    small = house.lease(1, project=OTHER, kind='retry', end_date='2082-12-01 14:00')
    later = house.lease(COUNT * 7 // 8, project=OTHER, kind='retry', end_date=None, duration='1h')
    queue = house.world.operations.queue
    with bounded(cpu_seconds=6, mebibytes=30):
        refused = queue._grant_some().refused
    assert house.status(mine[0], small, later) == ['WAITING', 'PENDING', 'WAITING']
    assert len({*mine} & {*refused}) == 18
    assert 'Capacity is expected from 2082-12-01 13:' in refused[later]


def test_expensive_searches_leave_looks_for_other_projects(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [hotel.book('mine', 50) for _ in range(10)]
    other = hotel.book('other', 3, project=OTHER)
    hotel.build(40)
    # A search takes 10 of them.
    monkeypatch.setattr(calendar, 'MAX_CHECKS', 40)
    hotel.poll()
    assert hotel.status(mine[0], other) == ['WAITING', 'PENDING']


def test_a_pass_through_ten_thousand_leases_is_cheap(hotel: Hotel, tried: list[str]) -> None:
    mine = hotel.book('mine', 3)
    hotel.repeat(mine, 9999)
    hotel.world.time.forward(seconds=1)
    other = hotel.book('other', project=OTHER)
    hotel.world.run_until_idle()
    tried.clear()
    with bounded(cpu_seconds=3, mebibytes=30):
        hotel.poll()
    assert {mine, other} <= set(tried)
    assert 99 <= len(set(tried)) <= 100
    assert len(hotel.world.statements(hotel.poll)) < 10


def test_leases_that_store_much_are_tried_in_turn(
    hotel: Hotel, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass reads two of them here, and the next passes start with the others."""
    mine = hotel.book('mine', 3)
    ids = [mine, *hotel.repeat(mine, 20, projects=4)]
    hotel.poll()
    assert set(tried) == set(ids)
    tried.clear()
    monkeypatch.setattr(leases, 'MAX_QUEUE_BYTES', 1000)
    for number in range(1, 6):
        assert hotel.world.operations.queue.grant_waiting() == wait_queue._PASS_PAUSE_SECONDS
        assert len(tried) == 2 * number
    assert len({hotel.world.lease(each).project_id for each in tried}) == 5
    for _ in range(25):
        hotel.poll()
    assert set(tried) == set(ids)


def test_leases_above_the_limits_are_searched_once(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = hotel.book('mine')
    ids = [mine, *hotel.repeat(mine, 49)]
    hotel.world.time.forward(seconds=1)
    other = hotel.book('other', project=OTHER)
    hotel.build(1)
    grant, searches = hotel.world.operations.queue.grant, []

    def limited(lease: Lease) -> bool:
        if lease.project_id != OTHER:
            raise exceptions.LimitExceeded('Too much.')
        return grant(lease)

    class Counted(JointSearch):
        def choose(self) -> Any:
            searches.append(self)
            return super().choose()

    monkeypatch.setattr(hotel.world.operations.queue, 'grant', limited)
    monkeypatch.setattr(windows, 'JointSearch', Counted)
    hotel.poll()
    assert hotel.status(mine, ids[-1], other) == ['WAITING', 'WAITING', 'PENDING']
    assert len(searches) == 51


def test_all_leases_of_a_thousand_projects_are_tried_in_turn(
    hotel: Hotel, tried: list[str]
) -> None:
    """Each pass handles two leases of fifty projects: the first one, and the next in turn."""
    mine = hotel.book('mine', 3)
    ids = hotel.repeat(mine, 3000, projects=1000)
    tried.clear()
    for _ in range(21):
        hotel.poll()
    assert set(ids[:1000]) <= set(tried)
    for _ in range(21):
        hotel.poll()
    assert set(ids) <= set(tried)


def test_each_lease_of_a_long_queue_is_tried_in_each_interval(
    hotel: Hotel, tried: list[str]
) -> None:
    mine = hotel.book('mine', 3)
    ids = [mine, *hotel.repeat(mine, 399)]
    tried.clear()
    hotel.world.time.forward(minutes=10)
    passes = 0
    while due := hotel.world.due():
        hotel.world.executor.run(due[0])
        passes += 1
    assert set(tried) == set(ids)
    assert passes < 10
    assert {hotel.world.lease(each).retries_left for each in ids} == {2015}
