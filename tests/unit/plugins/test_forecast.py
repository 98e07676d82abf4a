# SPDX-License-Identifier: Apache-2.0
"""When servers will find room on the hosts that everybody uses."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core.concurrency import SearchBudget
from climate_core.plugins.forecast import Forecast, FutureDemand, NotExpected, Release
from climate_core.plugins.server_placement import RunningServer, TargetHost
from tests.unit.plugins.placing import place_each

SSD = frozenset({'CUSTOM_SSD'})


def servers(name: str, *vcpus: int, **more: Any) -> list[RunningServer]:
    return [
        RunningServer(id=f'{name}{number}', amounts={'VCPU': each}, **more)
        for number, each in enumerate(vcpus)
    ]


def claim(name: str, start: int, end: int, *vcpus: int, **more: Any) -> FutureDemand:
    return FutureDemand(start=start, end=end, servers=servers(name, *vcpus, **more))


def hosts(*vcpus: int) -> list[TargetHost]:
    return [TargetHost(name=f'h{n}', free={'VCPU': each}) for n, each in enumerate(vcpus)]


def release(at: int, host: str, vcpus: int) -> Release:
    return Release(at=at, host=host, amounts={'VCPU': vcpus})


def windows(forecast: Forecast, length: int, *vcpus: int, until: int = 100) -> list[int]:
    found = forecast.windows(servers('a', *vcpus), length, 0, until)
    return [start for start, end in found if end == start + length]


def test_servers_fit_together_and_not_only_one_by_one() -> None:
    Forecast(hosts(2, 2)).check(claim('a', 0, 9, 2, 2))
    with pytest.raises(NotExpected, match='alone, but 3 servers do not fit together'):
        Forecast(hosts(2, 2)).check(claim('a', 0, 9, 2, 1, 2))


def test_refused_forecast_says_what_is_missing() -> None:
    with pytest.raises(NotExpected, match=r'Of 2 hosts 2 match .* too little VCPU on 2 hosts'):
        Forecast(hosts(1, 1)).check(claim('a', 0, 9, 2))
    with pytest.raises(NotExpected, match='Of 2 hosts 0 match: the others lack a trait'):
        Forecast(hosts(9, 9)).check(claim('a', 0, 9, 1, required=SSD))
    fast = [TargetHost(name='x', free={'VCPU': 9}, traits=SSD), *hosts(1)]
    Forecast(fast).check(claim('a', 0, 9, 9, required=SSD))
    with pytest.raises(NotExpected, match=r'Of 2 hosts 1 matches .* VCPU on 1 host'):
        Forecast(fast).check(claim('a', 0, 9, 9, forbidden=SSD))


def test_host_whose_traits_are_not_known_takes_servers_that_do_not_care() -> None:
    forecast = Forecast([TargetHost(name='x', free={'VCPU': 9}, traits=None)])
    forecast.check(claim('a', 0, 9, 9))
    for demand in ({'required': SSD}, {'forbidden': SSD}):
        with pytest.raises(NotExpected, match='Of 1 host 0 match'):
            forecast.check(claim('a', 0, 9, 1, **demand))


def test_what_is_freed_at_the_start_counts_and_later_does_not() -> None:
    forecast = Forecast(
        hosts(-1, 0), [release(5, 'h0', 3), release(7, 'h1', 2), release(1, '?', 9)]
    )
    assert windows(forecast, 3, 2) == [5]
    assert windows(forecast, 3, 2, 2) == [7]
    assert windows(forecast, 3, 3) == []


def test_claims_keep_their_room() -> None:
    forecast = Forecast(hosts(2), claims=[claim('x', 10, 20, 2)])
    assert windows(forecast, 5, 1) == [0, 20]
    with pytest.raises(NotExpected, match='too little capacity left for another lease'):
        forecast.check(claim('a', 6, 11, 1))
    forecast.check(claim('a', 5, 10, 1))
    # One that has no room itself keeps nobody out.
    assert windows(Forecast(hosts(2), claims=[claim('x', 10, 20, 3)]), 5, 1) == [0]


sizes = st.lists(st.integers(1, 3), min_size=1, max_size=2)
times = st.tuples(st.integers(0, 6), st.integers(1, 4))
leases = st.lists(st.tuples(times, sizes), max_size=4)
free = st.lists(st.integers(-1, 4), min_size=1, max_size=3)
freed = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(1, 3)), max_size=3)


def drawn(rows: Sequence[Any]) -> list[FutureDemand]:
    return [
        claim(f'{n}-', start, start + length, *vcpus)
        for n, ((start, length), vcpus) in enumerate(rows)
    ]


def have_room(
    found: Sequence[TargetHost], releases: Sequence[Release], all_of: list[FutureDemand]
) -> bool:
    """Try all hosts for all servers, and look at each moment whether they have enough."""
    moved = [(each, one) for each in all_of for one in each.servers]
    return any(
        all(
            sum(
                server.amounts['VCPU']
                for (each, server), name in zip(moved, names, strict=True)
                if name == host.name and each.start <= time < each.end
            )
            <= max(
                0,
                host.free['VCPU']
                + sum(e.amounts['VCPU'] for e in releases if e.host == host.name and e.at <= time),
            )
            for host in found
            for time in range(12)
        )
        for names in itertools.product([each.name for each in found], repeat=len(moved))
    )


@given(free, freed, leases)
def test_all_that_were_expected_have_room_together(free, freed, leases) -> None:
    found, releases = hosts(*free), [release(at, f'h{host}', n) for at, host, n in freed]
    expected: list[FutureDemand] = []
    for each in drawn(leases):
        try:
            Forecast(found, releases, expected).check(each)
        except NotExpected:
            continue
        expected.append(each)
    assert have_room(found, releases, expected)


@given(free, freed, times, st.integers(1, 3), st.integers(1, 3))
def test_equal_servers_are_expected_if_there_is_any_way(free, freed, time, count, vcpus) -> None:
    found, releases = hosts(*free), [release(at, f'h{host}', n) for at, host, n in freed]
    asked = claim('a', time[0], sum(time), *[vcpus] * count)
    try:
        Forecast(found, releases).check(asked)
    except NotExpected:
        assert not have_room(found, releases, [asked])
    else:
        assert have_room(found, releases, [asked])


@given(free, freed, leases, sizes, st.integers(1, 4))
def test_windows_are_those_that_begin_to_have_room(free, freed, leases, vcpus, length) -> None:
    releases = [release(at, f'h{host}', n) for at, host, n in freed]
    forecast = Forecast(hosts(*free), releases, drawn(leases))
    expected, before = [], False
    for start in range(15 - length + 1):
        try:
            forecast.check(claim('a', start, start + length, *vcpus))
        except NotExpected:
            before = False
        else:
            expected += [] if before else [start]
            before = True
    assert windows(forecast, length, *vcpus, until=15) == expected


kinds = st.tuples(st.integers(0, 3), st.integers(0, 2)).filter(any)
needs = st.lists(st.tuples(kinds, st.sampled_from((frozenset(), SSD))), min_size=1, max_size=3)
demands = st.lists(st.tuples(times, needs), max_size=6)
rooms = st.lists(
    st.tuples(st.integers(-1, 5), st.integers(0, 3), st.sampled_from((None, frozenset(), SSD))),
    min_size=1,
    max_size=4,
)
returns = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4), kinds), max_size=4)


def demand(name: str, start: int, end: int, wanted: Sequence[Any]) -> FutureDemand:
    found = [
        RunningServer(id=f'{name}{n}', amounts={'VCPU': vcpus, 'GPU': gpus}, required=required)
        for n, ((vcpus, gpus), required) in enumerate(wanted)
    ]
    return FutureDemand(start=start, end=end, servers=found)


def placed(
    found: Sequence[TargetHost], releases: Sequence[Release], listed: Sequence[FutureDemand]
) -> dict[int, Any]:
    """Place all claims, each on hosts counted anew at its start; by their numbers."""
    places: dict[int, Any] = {}
    for number, one in sorted(enumerate(listed), key=lambda each: each[1].start):
        free = {each.name: Counter(each.free) for each in found}
        for each in releases:
            if each.at <= one.start and each.host in free:
                free[each.host].update(each.amounts)
        for other, names in places.items():
            for server in listed[other].servers if names and listed[other].end > one.start else ():
                free[names[server.id]].subtract(server.amounts)
        counted = [dataclasses.replace(each, free=free[each.name]) for each in found]
        places[number] = place_each(counted, one.servers)
    return places


@given(rooms, returns, demands, needs, st.integers(1, 6))
def test_answers_are_those_of_placing_all_claims_again(
    free, freed, claimed, wanted, length
) -> None:
    found = [
        TargetHost(name=f'h{n}', free={'VCPU': vcpus, **({'GPU': gpus} if gpus else {})}, traits=t)
        for n, (vcpus, gpus, t) in enumerate(free)
    ]
    releases = [
        Release(at=at, host=f'h{host}', amounts={'VCPU': vcpus, 'GPU': gpus})
        for at, host, (vcpus, gpus) in freed
    ]
    claims = [
        demand(f'{n}-', start, start + lasts, each)
        for n, ((start, lasts), each) in enumerate(claimed)
    ]
    forecast = Forecast(found, releases, claims[:-1])
    for each in claims[-1:]:
        forecast.add(each)
    before = placed(found, releases, claims)
    for start in range(12):
        asked = demand('a', start, start + length, wanted)
        after = placed(found, releases, [*claims, asked])
        harmed = any(before[n] is not None and after[n] is None for n in before)
        try:
            forecast.check(asked)
        except NotExpected as exc:
            refused = str(exc)
        else:
            refused = ''
        assert (not refused) == (after[len(claims)] is not None and not harmed)
        assert ('left for another lease' in refused) == bool(refused and after[len(claims)])


def test_claims_that_are_placed_again_cost_a_search_nothing() -> None:
    """Each lease that is added may move the claims: other projects do not pay for that."""

    def spent(times: int) -> int:
        forecast = Forecast(hosts(*[20] * 50), claims=[claim(f'x{n}', n, 99, 9) for n in range(9)])
        other = SearchBudget(1000)
        for number in range(9):
            for each in range(times):
                forecast.budget = SearchBudget(1000)
                forecast.add(claim(f'y{number}.{each}', 0, 99, 1))
            forecast.budget = other
            forecast.check(claim('a', 9, 99, 1))
        return 1000 - other.left

    assert spent(1) == spent(0)


def test_search_ends_when_its_budget_is_spent() -> None:
    """What follows is not known: no window is guessed."""
    forecast = Forecast(hosts(2), claims=[claim('x', 10, 20, 2), claim('y', 30, 40, 2)])

    def search(budget: SearchBudget) -> list[tuple[int, int]]:
        forecast.budget = budget
        return list(forecast.windows(servers('a', 1), 5, 0, 100))

    budget = SearchBudget(1000)
    found = search(budget)
    counts = []
    for left in range(1000 - budget.left + 1):
        some = search(SearchBudget(left))
        assert some == found[: len(some)]
        counts.append(len(some))
    assert sorted({*counts}) == [0, 1, 2, 3]
    assert counts == sorted(counts)
