# SPDX-License-Identifier: Apache-2.0
"""Leases of servers give way and run again, while users end leases and managers die."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common import dates
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.db import tables
from climate_core.db import usage as db_usage
from climate_core.delivery import usage
from climate_core.lease import model
from climate_core.operations import pool_forecast, server_preemption
from climate_core.operations.draft import Draft, PreemptionChoice
from climate_core.operations.server_preemption import PREEMPTS
from climate_core.plugins.forecast import FutureDemand
from climate_core.plugins.server_placement import RunningServer
from tests.support.house import SIZE, House


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    made = House(monkeypatch)
    yield made
    made.world.database.dispose()


@pytest.mark.parametrize(
    ('fillers', 'asked', 'gave_way'),
    [
        ([1, 1, 2], 1, [2]),
        ([2, 1, 1], 2, [0]),
        ([1, 1, 1, 1], 2, [2, 3]),
        ([1, 1], 4, [0, 1]),
        ([1, 1], 2, []),
        ([1, 1], 5, []),
    ],
)
def test_fewest_give_way_and_only_if_that_makes_room_for_all(
    house: House, fillers: list[int], asked: int, gave_way: list[int]
) -> None:
    mine = [house.lease(each, preemptible=True) for each in fillers]
    house.settle(1)
    other = house.lease(asked)
    house.settle()
    waiting = [n for n, each in enumerate(house.status(*mine)) if each == 'WAITING']
    assert waiting == gave_way
    assert house.status(other) == ['ERROR' if asked > SIZE else 'ACTIVE']
    if asked <= SIZE:
        house.end(other)
        house.settle()
        assert house.status(*mine) == ['ACTIVE'] * len(mine)


def refuse(*_: Any) -> None:
    raise exceptions.NotEnough('There is no room.')


def waiting(house: House, monkeypatch: pytest.MonkeyPatch, count: int) -> str:
    """Return a lease that waits, and to which no lease has given way."""
    with monkeypatch.context() as patch:
        patch.setattr(pool_forecast, 'check_draft', refuse)
        patch.setattr(house.world.operations.preemption, 'find_servers', lambda _draft: None)
        lease_id = house.lease(count, kind='retry')
    assert house.status(lease_id) == ['WAITING']
    return lease_id


def victims(house: House, lease_id: str) -> tuple[str, ...]:
    """Return the leases that would give way to another one."""
    lease, now = house.world.lease(lease_id), house.world.clock.now()
    found = server_preemption.find_preempted(house.world.operations.services, lease, now)
    return found.leases if found else ()


def test_no_lease_gives_way_if_the_search_for_the_fewest_is_cut_short(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [house.lease(each, preemptible=True) for each in (2, 1, 1)]
    house.settle(1)
    other = waiting(house, monkeypatch, 2)
    found = []
    for looks in range(60):
        monkeypatch.setattr(server_preemption, 'MAX_SEARCH_STEPS', looks)
        found.append(victims(house, other))
    assert {*found} == {(), (mine[0],)}
    assert found == sorted(found)


def test_fewer_sets_are_compared_if_very_much_is_planned(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other leases take spends nothing of what the lease itself may cost."""
    mine = [house.lease(each, preemptible=True) for each in (2, 1, 1)]
    house.settle(1)
    other = waiting(house, monkeypatch, 2)
    now = dates.to_microseconds(house.world.clock.now())
    servers = [RunningServer(id='planned', amounts={'VCPU': 1})]
    claim = FutureDemand(start=now, end=now + 1, servers=servers)
    monkeypatch.setattr(
        pool_forecast, 'read_future_demands', lambda *_: {f'{n}': claim for n in range(100)}
    )
    monkeypatch.setattr(server_preemption, 'MAX_SEARCH_STEPS', 100)
    found = []
    for factor in range(30):
        monkeypatch.setattr(server_preemption, '_CLAIM_FACTOR', factor)
        found.append(victims(house, other))
    assert [*dict.fromkeys(found)] == [(), (mine[2], mine[1]), (mine[0],)]
    assert found == sorted(found, key=lambda leases: (bool(leases), -len(leases)))


def test_larger_lease_ahead_hides_no_other_one_ahead(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_preemption, '_MAX_SERVERS_AHEAD', 2)
    mine = house.lease(2, preemptible=True)
    house.lease(2)
    house.settle(1)
    larger = waiting(house, monkeypatch, 3)
    ahead = waiting(house, monkeypatch, 2)
    other = waiting(house, monkeypatch, 2)
    assert victims(house, other) == ()
    house.end(ahead)
    assert house.status(larger) == ['WAITING']
    assert victims(house, other) == (mine,)


def test_nova_is_asked_for_a_bounded_number_of_servers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = house.lease(1, preemptible=True)
    for _ in range(3):
        house.lease(1, preemptible=True)
    house.settle(1)
    (movable,) = house.world.lease(mine).live
    other = waiting(house, monkeypatch, 1)
    asked: list[str] = []

    def show(_conn: object, server_id: str) -> dict[str, Any]:
        asked.append(server_id)
        attached = [] if server_id == movable.resource_id else [{'id': 'volume'}]
        return {'status': 'ACTIVE', servers.VOLUMES: attached}

    monkeypatch.setattr(servers, 'get', show)
    assert (victims(house, other), len(asked)) == ((mine,), 4)
    asked.clear()
    monkeypatch.setattr(server_preemption, '_MAX_SERVERS_CHECKED', 3)
    assert (victims(house, other), len(asked)) == ((), 3)


@pytest.mark.parametrize(
    ('answer', 'gives_way'),
    [(exceptions.Transient('Nova answered 503.'), True), (errors.Gone(), False)],
)
def test_server_that_nova_does_not_show_once(
    house: House, monkeypatch: pytest.MonkeyPatch, answer: Exception, gives_way: bool
) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    answers = [answer]

    def show(_conn: object, _server_id: str) -> dict[str, str]:
        if answers:
            raise answers.pop()
        return {'status': 'ACTIVE'}

    monkeypatch.setattr(servers, 'get', show)
    other = house.lease(SIZE)
    house.settle()
    assert not answers
    expected = ['WAITING', 'ACTIVE'] if gives_way else ['ACTIVE', 'ERROR']
    assert house.status(mine, other) == expected


def test_oldest_has_its_room_again_first(house: House) -> None:
    mine = [house.lease(2, preemptible=True) for _ in range(2)]
    house.settle(1)
    others = [house.lease(2), house.lease(2)]
    house.settle()
    assert house.status(*mine, *others) == ['WAITING', 'WAITING', 'ACTIVE', 'ACTIVE']
    house.end(others[0])
    house.settle()
    assert house.status(*mine) == ['ACTIVE', 'WAITING']


@pytest.mark.parametrize('left', [0, 2, 4, 6, 8])
def test_managers_that_die_shelve_and_wake_each_server(house: House, left: int) -> None:
    """One dies after so many calls while others take the room, give it back, and all ends."""
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    house.guests.left = left
    other = house.lease(SIZE)
    house.settle()
    assert house.status(mine, other) == ['WAITING', 'ACTIVE']
    assert len(house.guests.inside) == SIZE
    house.guests.left = left
    house.end(other)
    house.settle()
    assert house.status(mine, other) == ['ACTIVE', 'TERMINATED']
    assert (len(house.guests.inside), house.guests.shelved) == (1, set())
    house.guests.left = 0
    house.end(mine)
    house.settle(3)
    assert (house.status(mine), house.guests.inside) == (['TERMINATED'], set())


def test_ended_while_it_waits_it_holds_nothing(house: House) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    other = house.lease(SIZE)
    house.settle()
    house.end(mine)
    house.settle(2)
    assert house.status(mine, other) == ['TERMINATED', 'ACTIVE']
    assert house.guests.shelved == set()


def test_lease_others_gave_way_to_is_tried_again_when_strangers_took_the_room(
    house: House,
) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    other = house.lease(SIZE)
    house.settle(1)
    assert house.status(other) == ['WAITING']
    before = house.world.lease(other).retries_left
    strangers = {f'stranger-{n}' for n in range(SIZE)}
    house.guests.inside |= strangers
    house.settle(5)
    assert house.status(mine, other) == ['WAITING', 'WAITING']
    assert house.world.lease(other).retries_left < before
    house.guests.inside -= strangers
    house.settle()
    assert house.status(mine, other) == ['WAITING', 'ACTIVE']


def test_retry_request_waits_when_those_that_gave_way_have_ended_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    preemption = house.world.operations.preemption
    find = preemption.find_servers

    def find_and_end(draft: Draft) -> PreemptionChoice | None:
        found = find(draft)
        assert found is not None
        assert found.leases == (mine,)
        house.end(mine)
        return found

    monkeypatch.setattr(pool_forecast, 'check_draft', refuse)
    monkeypatch.setattr(preemption, 'find_servers', find_and_end)
    other = house.lease(SIZE, kind='retry')
    assert house.status(other) == ['WAITING']


def test_retry_request_says_that_others_give_way_to_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)

    monkeypatch.setattr(pool_forecast, 'check_draft', refuse)
    other = house.lease(SIZE, kind='retry')
    lease = house.world.lease(other)
    assert (lease.status, lease.status_reason) == ('WAITING', PREEMPTS)
    waits = house.world.operations.queue.retry(lease)
    assert waits is not None
    assert waits.reason == PREEMPTS
    house.settle()
    assert house.status(mine, other) == ['WAITING', 'ACTIVE']
    assert house.world.lease(other).status_reason is None


def lost(house: House, lease_id: str) -> list[usage.Span]:
    """Return when a lease lacked what it had given up, within two weeks."""
    weeks = usage.Span(house.time() - usage.WEEK, house.time() + usage.WEEK)
    uses = house.world.database.read(lambda session: list(db_usage.read_uses(session, weeks)))
    spans = (each.preempted(weeks) for each in uses if each.lease_id == lease_id)
    return sorted((each for each in spans if each), key=lambda each: each.begin)


@pytest.fixture
def half(house: House) -> str:
    """Return a lease of two servers one of which gave way to another lease."""
    mine = house.lease(2, preemptible=True)
    house.settle(1)
    house.guests.stuck = {house.world.lease(mine).live[1].resource_id}
    house.lease(SIZE)
    house.settle(4)
    assert house.status(mine) == ['ACTIVE']
    return mine


def test_time_that_one_of_several_servers_lost_counts_while_the_other_still_runs(
    house: House, half: str
) -> None:
    (first,) = lost(house, half)
    assert (first.begin < house.time(), first.end) == (True, house.world.lease(half).end_date)
    house.guests.stuck.clear()
    house.settle(4)
    assert house.status(half) == ['WAITING']
    again, second = lost(house, half)
    assert (again, first.begin < second.begin) == (first, True)


def test_time_that_one_of_several_servers_lost_counts_until_the_end_of_its_lease(
    house: House, half: str
) -> None:
    (first,) = lost(house, half)
    house.end(half)
    house.settle(4)
    assert house.status(half) == ['TERMINATED']
    assert lost(house, half) == [usage.Span(first.begin, house.world.lease(half).end_date)]


def test_lease_ahead_of_which_is_not_known_what_it_takes_is_not_counted(house: House) -> None:
    mine = [house.lease(each, preemptible=True) for each in (2, 1)]
    house.settle(1)
    others = [house.lease(2)]
    house.settle()
    assert house.status(*mine, *others) == ['ACTIVE', 'WAITING', 'ACTIVE']
    forget(house, mine[1])
    others.append(house.lease(2))
    house.settle()
    assert house.status(*mine, *others) == ['WAITING', 'WAITING', 'ACTIVE', 'ACTIVE']


def test_nobody_gives_way_to_a_lease_of_which_is_not_known_what_it_takes(house: House) -> None:
    mine = house.lease(1, preemptible=True)
    house.settle(1)
    other = house.lease(SIZE)
    forget(house, other)
    house.settle()
    assert house.status(mine, other) == ['ACTIVE', 'ERROR']


def forget(house: House, lease_id: str) -> None:
    """Have nobody know any more what the servers of a lease take."""
    table = tables.RESERVATIONS
    with house.world.database.writer() as session:
        mine = sa.select(table.c.id, table.c.params).where(table.c.lease_id == lease_id)
        for each, params in session.execute(mine).all():
            known = {name: value for name, value in params.items() if name != model.HOLDS}
            forgotten = sa.update(table).where(table.c.id == each)
            session.execute(forgotten.values(params=known, amounts={}))
