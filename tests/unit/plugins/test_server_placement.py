# SPDX-License-Identifier: Apache-2.0
"""Which hosts are emptied, and that what must leave them fits elsewhere."""

import collections
import dataclasses
import datetime
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.concurrency import SearchBudget
from climate_core.plugins import server_placement
from climate_core.plugins.server_placement import (
    CandidateHost,
    CannotDrainHosts,
    FreeCapacity,
    RunningServer,
    TargetHost,
)
from tests.unit.plugins.placing import place_each, subtract_places

KINDS = ('VCPU', 'MEMORY_MB')


def server(
    name: str, vcpus: int = 1, memory: int = 10, day: int | None = None, **more: Any
) -> RunningServer:
    created = day and datetime.datetime(2026, 1, day, tzinfo=datetime.UTC)
    amounts = {'VCPU': vcpus, 'MEMORY_MB': memory}
    return RunningServer(id=name, amounts=amounts, created_at=created or None, **more)


def host(number: int, *servers: RunningServer) -> CandidateHost:
    return CandidateHost(id=number, name=f'host{number}', servers=servers)


TRAITS = (frozenset(), frozenset({'SSD'}), frozenset({'SSD', 'GPU'}))


def draw_host(dice: random.Random, number: int) -> TargetHost:
    free = {kind: dice.randint(-1, 9) for kind in KINDS if dice.random() < 0.9}
    zone, traits = dice.choice(('a', 'b', None)), dice.choice((*TRAITS, None))
    return TargetHost(name=f'host{number}', free=free, zone=zone, traits=traits)


def draw_servers(dice: random.Random, name: str) -> list[RunningServer]:
    """Return servers of a few flavors: equal ones that follow each other, and that do not."""
    flavors = [
        RunningServer(
            id='',
            amounts={kind: dice.randint(0, 3) for kind in KINDS if dice.random() < 0.9},
            zone=dice.choice(('a', 'b', 'c', None, None)),
            required=dice.choice((*TRAITS[:1] * 4, *TRAITS)),
            forbidden=dice.choice((*TRAITS[:1] * 6, *TRAITS)),
        )
        for _ in range(dice.randint(1, 3))
    ]
    drawn = [flavor for _ in range(dice.randint(1, 3)) for flavor in dice.choices(flavors, k=2)]
    equal = [flavor for flavor in drawn for _ in range(dice.choice((1, 1, 4)))]
    return [dataclasses.replace(each, id=f'{name}.{n}') for n, each in enumerate(equal)]


def target(name: str, vcpus: int, memory: int = 1000) -> TargetHost:
    return TargetHost(name=name, free={'VCPU': vcpus, 'MEMORY_MB': memory})


MANY = host(1, server('a', memory=1, day=1), server('b', memory=1, day=2))
LARGE = host(2, server('c', memory=90, day=3))
YOUNG = host(3, server('d', memory=80, day=9))
BOUND = host(4, server('e', obstacle='is suspended'))
EMPTY = host(5)


@pytest.mark.parametrize(
    ('strategy', 'expected'),
    [
        (server_placement.fewest_servers, [5, 3, 2, 1]),
        (server_placement.least_memory, [5, 1, 3, 2]),
        (server_placement.oldest_first, [5, 1, 2, 3]),
    ],
)
def test_order_of_a_strategy(strategy: server_placement.Strategy, expected: list[int]) -> None:
    hosts = [MANY, LARGE, YOUNG, BOUND, EMPTY]
    for count in range(1, 5):
        found = server_placement.choose_hosts(hosts, count, [target('x', 9)], strategy)
        assert [each.id for each in found] == expected[:count]


def test_servers_of_unknown_age_are_the_last() -> None:
    found = server_placement.choose_hosts(
        [host(1, server('a')), YOUNG], 1, [target('x', 9)], server_placement.oldest_first
    )
    assert found == [YOUNG]


@pytest.mark.parametrize(
    ('hosts', 'targets', 'spares', 'told'),
    [
        ([], [target('x', 9)], 0, 'No host can be drained for it: no shared host matches.'),
        (
            [BOUND],
            [target('x', 9)],
            0,
            '0 of 1 shared host can be .* 1 must be. Servers cannot be moved: 1 is suspended.',
        ),
        ([MANY], [target('x', 1)], 0, 'Other hosts have no capacity for the servers of 1 host.'),
        ([MANY], [target('x', 2)], 1, 'Other hosts have no capacity for the servers of 1 host.'),
        # It does not move to itself, nor does half of one server.
        ([LARGE], [target('host2', 9)], 0, 'no capacity'),
        ([host(1, server('a', 2))], [target('x', 1), target('y', 1)], 0, 'no capacity'),
        # What nobody has, as a device.
        (
            [host(1, RunningServer(id='a', amounts={'VGPU': 1}))],
            [target('x', 9)],
            0,
            'no capacity',
        ),
    ],
)
def test_what_cannot_be_emptied_is_told(
    hosts: Sequence[CandidateHost], targets: Sequence[TargetHost], spares: int, told: str
) -> None:
    with pytest.raises(CannotDrainHosts, match=told):
        server_placement.choose_hosts(hosts, 1, targets, spares=spares)


def test_hosts_fit_together_and_not_only_one_by_one() -> None:
    one, two = host(1, server('a', 2)), host(2, server('b', 2))
    with pytest.raises(
        CannotDrainHosts, match='1 of 2 shared hosts can be drained for it, and 2 must'
    ):
        server_placement.choose_hosts([one, two], 2, [target('x', 3)])
    # One that has no room is passed by for the next one.
    assert server_placement.choose_hosts([one, two, EMPTY], 2, [target('x', 3)]) == [EMPTY, one]


def test_largest_server_is_placed_first() -> None:
    full = host(1, server('small', 1), server('large', 4))
    places = server_placement.place_servers([full], [target('x', 4), target('y', 1)])
    assert places == {'large': 'x', 'small': 'y'}


def test_servers_of_hosts_that_are_being_emptied_find_room_first() -> None:
    one, two = host(1, server('a', 2)), host(2, server('b', 2))
    assert server_placement.choose_hosts([two], 1, [target('x', 4)], moving=[one]) == [two]
    with pytest.raises(CannotDrainHosts, match='no capacity'):
        server_placement.choose_hosts([two], 1, [target('x', 3)], moving=[one])


def test_server_stays_in_its_zone() -> None:
    bound = host(1, server('a', zone='east'))
    west, unknown = (
        TargetHost(name='x', free={'VCPU': 9, 'MEMORY_MB': 90}, zone='west'),
        target('y', 9),
    )
    assert server_placement.place_servers([bound], [west, unknown]) is None
    east = TargetHost(name='z', free={'VCPU': 9, 'MEMORY_MB': 90}, zone='east')
    assert server_placement.place_servers([bound], [west, unknown, east]) == {'a': 'z'}


def test_host_that_has_more_than_it_can_takes_nothing_from_others() -> None:
    full = host(1, server('a', 2))
    assert server_placement.place_servers([full], [target('x', -5), target('y', 2)]) == {'a': 'y'}


amounts = st.fixed_dictionaries({kind: st.integers(0, 4) for kind in KINDS})


@given(
    st.lists(st.lists(amounts, max_size=4), max_size=4),
    st.lists(amounts, max_size=5),
    st.integers(0, 2),
)
def test_what_has_a_place_fits_there(
    taken: list[list[dict[str, int]]], free: list[dict[str, int]], spares: int
) -> None:
    hosts = [
        host(
            number,
            *(RunningServer(id=f'{number}-{n}', amounts=each) for n, each in enumerate(row)),
        )
        for number, row in enumerate(taken)
    ]
    # The first hosts have room themselves.
    targets = [TargetHost(name=f'host{number}', free=each) for number, each in enumerate(free)]
    moved = {each.id: each.amounts for one in hosts[:2] for each in one.servers}
    places = server_placement.place_servers(hosts[:2], targets, spares)
    if places is None:
        return
    assert places.keys() == moved.keys()
    assert not {each.name for each in hosts[:2]} & set(places.values())
    used: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for server_id, name in places.items():
        used[name].update(moved[server_id])
    for each in targets:
        assert all(used[each.name][kind] <= each.free[kind] for kind in KINDS)


@given(st.integers(1, 6), st.integers(1, 3), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_servers_of_one_size_find_all_the_room_that_there_is(
    count: int, vcpus: int, free: list[int]
) -> None:
    full = host(0, *(server(str(number), vcpus) for number in range(count)))
    places = server_placement.place_servers(
        [full], [target(f'x{n}', room) for n, room in enumerate(free)]
    )
    assert (places is not None) == (sum(room // vcpus for room in free) >= count)


@pytest.mark.parametrize('seed', range(60))
def test_servers_go_where_each_goes_if_all_hosts_are_compared(seed: int) -> None:
    """Also after hosts were freed and taken, and in copies of the same room."""
    dice = random.Random(seed)
    room = FreeCapacity([draw_host(dice, number) for number in range(dice.randint(1, 8))])
    rooms = [room, room.copy()]
    for step in range(20):
        room = dice.choice(rooms)
        hosts, servers = room.hosts, draw_servers(dice, f'{step}')
        leaving = [each.name for each in hosts if dice.random() < 0.1]
        expected = place_each(hosts, servers, leaving)
        assert room.take(servers, SearchBudget(0), leaving) == expected
        left = subtract_places(hosts, servers if expected else (), expected or {})
        assert {each.name: each.free for each in room.hosts} == left
        freed = dice.choice(hosts).name
        room.add(freed, {kind: dice.randint(0, 5) for kind in KINDS if dice.random() < 0.7})
        if dice.random() < 0.3:
            rooms[dice.randrange(2)] = dice.choice(rooms).copy()


def test_equal_servers_check_each_host_once() -> None:
    hosts = [target(f'host{n:03}', 4, memory=n % 2 * 1000) for n in range(100)]
    room, budget = FreeCapacity(hosts), SearchBudget(1000)
    places = room.take([server(f'{n}') for n in range(200)], budget)
    assert places is not None
    assert len({*places.values()}) == 50
    assert 1000 - budget.left == 101
