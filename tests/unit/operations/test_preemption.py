# SPDX-License-Identifier: Apache-2.0
"""Preemptible leases lose what they are promised to others, and wait until there is enough."""

import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import events, forecast_reads, leases
from climate_core.db import usage as db_usage
from climate_core.delivery import usage
from climate_core.operations import allocation, pool_forecast
from climate_core.operations.draft import Draft
from tests.support.rooms import TYPE, Hotel, Suites
from tests.support.world import user

LATER = {'start_date': '+2h', 'end_date': '+4h'}


def book(hotel: Hotel, name: str, count: int = 1, **values: Any) -> str:
    return hotel.book(name, count, **{'kind': None, **LATER, **values})


def test_youngest_loses_its_room_and_has_it_again_when_there_is_one(hotel: Hotel) -> None:
    world = hotel.world
    old, young = (book(hotel, name, preemptible=True) for name in ('old', 'young'))
    other = book(hotel, 'other')
    assert hotel.status(old, young, other) == ['PENDING', 'WAITING', 'PENDING']
    lease = world.lease(young)
    assert 'Another lease preempts' in lease.status_reason
    assert (lease.reservations[0].allocations, lease.reservations[0].amounts) == ((), {})
    world.run_until_idle()
    assert hotel.status(young) == ['WAITING']
    world.end(other)
    world.run_until_idle()
    hotel.poll()
    assert hotel.status(old, young) == ['PENDING', 'PENDING']
    world.run_until_idle(hours=2)
    assert hotel.status(old, young) == ['ACTIVE', 'ACTIVE']


def test_as_few_as_needed_wait(hotel: Hotel) -> None:
    hotel.build(1)
    large, small = book(hotel, 'large', 2, preemptible=True), book(hotel, 'small')
    young = book(hotel, 'young', preemptible=True, start_date='+5h', end_date='+6h')
    other = book(hotel, 'other', 2)
    assert hotel.status(large, small, young, other) == ['WAITING', 'PENDING', 'PENDING', 'PENDING']


def test_what_would_not_be_enough_is_refused_and_nobody_waits(hotel: Hotel) -> None:
    first, second = book(hotel, 'first', preemptible=True), book(hotel, 'second')
    with pytest.raises(exceptions.NotEnough):
        book(hotel, 'other', 2)
    assert hotel.status(first, second) == ['PENDING', 'PENDING']


@pytest.mark.parametrize('is_dry_run', [False, True])
def test_nobody_is_preempted_for_capacity_that_another_lease_has_just_released(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    world = hotel.world
    old, young = (book(hotel, name, preemptible=True) for name in ('old', 'young'))
    find = forecast_reads.find_preemptible

    def find_before_the_end(*args: Any) -> Any:
        found = find(*args)
        if world.lease(young).status != 'TERMINATED':
            world.end(young)
            world.run_until_idle()
        return found

    monkeypatch.setattr(forecast_reads, 'find_preemptible', find_before_the_end)
    if is_dry_run:
        values = {'name': 'other', **LATER, 'reservations': [{'resource_type': TYPE, 'min': 1}]}
        assert world.operations.check_lease(user(), values)['granted']
    else:
        other = book(hotel, 'other')
        assert hotel.status(old, young, other) == ['PENDING', 'TERMINATED', 'PENDING']


def test_preemptible_lease_takes_nothing(hotel: Hotel) -> None:
    book(hotel, 'first', 2, preemptible=True)
    with pytest.raises(exceptions.NotEnough):
        book(hotel, 'second', preemptible=True)


@pytest.fixture
def running(hotel: Hotel) -> str:
    """Return a preemptible lease of both rooms that runs."""
    lease_id = book(hotel, 'running', 2, preemptible=True, start_date='now')
    hotel.world.run_until_idle()
    assert hotel.status(lease_id) == ['ACTIVE']
    return lease_id


def test_one_that_runs_has_its_notice_and_then_waits(hotel: Hotel, running: str) -> None:
    world = hotel.world
    other = book(hotel, 'other', start_date='now', end_date='+3h')
    lease, now = world.lease(running), world.clock.now()
    notice = datetime.timedelta(seconds=120)
    assert lease.status == 'ACTIVE'
    assert lease.preempted_at == world.lease(other).start_date == now + notice
    assert 'Another lease needs its resources' in lease.status_reason
    with pytest.raises(exceptions.InvalidState):
        world.update(running, end_date='+5h')
    world.run_until_idle()
    assert hotel.status(running, other) == ['ACTIVE', 'PENDING']
    world.run_until_idle(minutes=3)
    assert hotel.status(running, other) == ['WAITING', 'ACTIVE']
    world.run_until_idle(hours=3)
    assert hotel.status(running, other) == ['ACTIVE', 'TERMINATED']


def test_engine_asks_at_once_when_a_new_lease_preempts_others(hotel: Hotel, running: str) -> None:
    """What others give up is due before the first event of the new lease."""
    told: list[str] = []
    hotel.world.database.listen(events.DUE, lambda: told.append(running))
    book(hotel, 'young', preemptible=True, start_date='+9h', end_date='+10h')
    assert not told
    book(hotel, 'other', start_date='+9m', end_date='+1h')
    assert told


def test_usage_of_what_was_given_up_stays(hotel: Hotel, running: str) -> None:
    world = hotel.world
    began = world.clock.now()
    other = book(hotel, 'other', start_date='+1h', end_date='+2h')
    world.run_until_idle(minutes=61)
    assert hotel.status(running, other) == ['WAITING', 'ACTIVE']
    was, had = world.lease(running).reservations
    assert (was.status, was.amounts, was.woken_at) == ('pending', {}, None)
    assert (had.status, had.amounts) == ('deleted', {'hosts': 2})
    world.run_until_idle(hours=1)
    assert hotel.status(running) == ['ACTIVE']
    world.run_until_idle(hours=2)
    assert hotel.status(running) == ['TERMINATED']
    period = usage.Span(began, began + datetime.timedelta(days=1))
    uses = world.database.read(lambda session: list(db_usage.read_uses(session, period)))
    hours = {
        name: sum(usage.sum_lease([each], period).reserved['host_hours'] for each in mine)
        for name in ('running', 'other')
        if (mine := [each for each in uses if each.lease_name == name])
    }
    # Two rooms for an hour, and then from the end of the other lease until its own.
    assert hours['other'] == pytest.approx(1, abs=0.1)
    assert hours['running'] == pytest.approx(2 * 3, abs=0.2)
    mine = [each for each in uses if each.lease_name == 'running']
    lost = usage.sum_lease(mine, period).preempted['host_hours']
    assert lost == pytest.approx(2 * 1, abs=0.1)
    (given_up,) = [each for each in mine if each.lost_until]
    assert given_up.lost_until == world.lease(running).start_date


def test_time_that_is_being_lost_is_in_each_period_of_usage(hotel: Hotel, running: str) -> None:
    """Also of one in which the lease had nothing; and no longer than until its end."""
    world = hotel.world
    ends = world.lease(running).end_date
    book(hotel, 'other', start_date='now', end_date='+9h')
    world.run_until_idle(minutes=3)
    assert hotel.status(running) == ['WAITING']
    (given_up,) = [each for each in world.lease(running).reservations if each.freed_at]

    def lost(begin: datetime.datetime, end: datetime.datetime) -> list[float]:
        period = usage.Span(begin, end)
        found = (
            world.database.read(lambda session: list(db_usage.read_uses(session, period))),
            world.database.read(
                lambda session: list(db_usage.read_uses_by_lease(session, period))
            ),
        )
        totals = (
            usage.sum_lease([one for one in each if one.lease_id == running], period)
            for each in found
        )
        return [each.preempted['host_hours'] for each in totals]

    hour = datetime.timedelta(hours=1)
    began = given_up.freed_at
    assert began is not None
    assert lost(began, began + hour) == [2, 2]
    assert lost(began + hour, began + 2 * hour) == [2, 2]
    assert lost(began - hour, began) == [0, 0]
    world.run_until_idle(hours=6)
    assert hotel.status(running) == ['TERMINATED']
    assert lost(ends - hour, ends + hour) == [2, 2]
    assert lost(ends, ends + hour) == [0, 0]


def test_room_that_is_in_use_is_kept_until_it_is_empty(hotel: Hotel, running: str) -> None:
    world = hotel.world
    hotel.rooms.busy.add(world.lease(running).reservations[0].id)
    other = book(hotel, 'other', start_date='now', end_date='+3h')
    world.run_until_idle(minutes=3)
    assert hotel.status(running) == ['ACTIVE']
    (mine,) = world.lease(running).reservations
    (promised,) = world.lease(other).reservations[0].allocations
    kept = next(each for each in mine.allocations if each.unit_id == promised.unit_id)
    assert kept.end == promised.start > world.clock.now()
    hotel.rooms.busy.clear()
    world.run_until_idle(minutes=1)
    assert hotel.status(running, other) == ['WAITING', 'ACTIVE']


def test_what_is_given_up_first_is_in_the_usage_too(hotel: Hotel) -> None:
    """The rooms of two reservations are not empty at the same time."""
    world = hotel.world
    lease_id = book(hotel, 'running', preemptible=True, start_date='now')
    world.run_until_idle()
    second = {'resource_type': TYPE, 'min': 1}
    world.operations.creator.add_reservation(user(), lease_id, second)
    world.run_until_idle()
    other = book(hotel, 'other', 2, start_date='now')
    _, two = world.lease(lease_id).reservations
    hotel.rooms.busy.add(two.id)
    world.run_until_idle(minutes=3)
    assert [each.status for each in world.lease(lease_id).reservations] == [
        'pending',
        'active',
        'deleted',
    ]
    assert world.lease(lease_id).status == 'ACTIVE'
    with pytest.raises(exceptions.InvalidState):
        world.operations.remove_reservation(user(), lease_id, two.id)
    hotel.rooms.busy.clear()
    world.run_until_idle(minutes=1)
    assert hotel.status(lease_id, other) == ['WAITING', 'ACTIVE']
    found = world.lease(lease_id).reservations
    assert [(each.status, each.amounts) for each in found] == [
        ('pending', {}),
        ('pending', {}),
        ('deleted', {'hosts': 1}),
        ('deleted', {'hosts': 1}),
    ]
    assert [each.given_up for each in found] == [False, False, True, True]
    world.run_until_idle(hours=4)
    ended = world.lease(lease_id)
    assert ended.status == 'TERMINATED'
    assert 'Preempted by another lease on' in ended.status_reason


def test_end_comes_before_the_notice_is_over(hotel: Hotel, running: str) -> None:
    world = hotel.world
    other = book(hotel, 'other', start_date='now', end_date='+3h')
    world.end(running)
    world.run_until_idle(minutes=3)
    assert hotel.status(running, other) == ['TERMINATED', 'ACTIVE']


def test_those_that_have_not_begun_come_first(hotel: Hotel) -> None:
    hotel.build(1)
    running = book(hotel, 'running', 2, preemptible=True, start_date='now')
    hotel.world.run_until_idle()
    asleep = book(hotel, 'asleep', preemptible=True, start_date='+1h')
    other = book(hotel, 'other', start_date='now')
    assert hotel.status(running, asleep, other) == ['ACTIVE', 'WAITING', 'PENDING']
    assert hotel.world.lease(running).preempted_at is None


def test_what_a_plugin_keeps_is_there_when_it_is_granted_again(hotel: Hotel, running: str) -> None:
    world = hotel.world
    other = book(hotel, 'other', start_date='now', end_date='+3h')
    world.run_until_idle(minutes=3)
    assert world.lease(running).reservations[0].progress == {'guests': 'running'}
    world.end(other)
    world.run_until_idle()
    hotel.poll()
    world.run_until_idle()
    assert hotel.status(running) == ['ACTIVE']


def test_nothing_else_joins_a_preemptible_lease(hotel: Hotel, running: str) -> None:
    world = hotel.world
    world.plugins['test:suite'] = Suites()
    with pytest.raises(exceptions.BadRequest, match='cannot be preempted'):
        wanted = {'resource_type': 'test:suite', 'min': 1}
        world.operations.creator.add_reservation(user(), running, wanted)


def test_waiting_ends_with_the_lease(hotel: Hotel) -> None:
    world = hotel.world
    lost = book(hotel, 'lost', 2, preemptible=True)
    book(hotel, 'other', 2)
    world.run_until_idle(hours=5)
    assert hotel.status(lost) == ['TERMINATED']


def test_waiting_goes_on_until_the_end_however_late_that_becomes(hotel: Hotel) -> None:
    world = hotel.world
    world.conf.set_override('retry_interval', 3600, group='queue')
    lost = book(hotel, 'lost', 2, preemptible=True, end_date='+130m')
    book(hotel, 'other', 2, end_date='+40h')
    assert world.lease(lost).retries_left is None
    world.update(lost, end_date='+30h')
    for _ in range(29):
        world.run_until_idle(hours=1)
    assert hotel.status(lost) == ['WAITING']
    world.run_until_idle(hours=1)
    assert hotel.status(lost) == ['TERMINATED']


def test_one_that_waits_is_changed_shows_its_place_and_is_cancelled(hotel: Hotel) -> None:
    world = hotel.world
    lost = book(hotel, 'lost', 2, preemptible=True)
    book(hotel, 'other', 2)
    waits = hotel.book('waits', 2, start_date='+2h', end_date='+4h')
    lease = world.lease(lost)
    assert world.database.read(leases.queue_positions, [lease]) == {waits: 1, lost: 2}
    world.update(lost, duration='3h')
    after = world.lease(lost)
    assert after.end_date - after.start_date == datetime.timedelta(hours=3)
    assert (after.status, after.duration) == ('WAITING', None)
    end = next(each for each in after.events if each.event_type == 'end_lease')
    assert end.time == after.end_date
    world.end(lost)
    world.run_until_idle()
    assert hotel.status(lost) == ['TERMINATED']


def test_those_that_gave_way_are_granted_again_the_oldest_first(hotel: Hotel) -> None:
    world = hotel.world
    lost = [book(hotel, name, 2, preemptible=True) for name in ('old',)]
    other = book(hotel, 'other', 2)
    lost.append(book(hotel, 'young', 2, preemptible=True, start_date='+5h', end_date='+9h'))
    world.update(lost[0], start_date='+5h', end_date='+9h')
    second = book(hotel, 'second', 2, start_date='+5h', end_date='+9h')
    assert hotel.status(*lost) == ['WAITING', 'WAITING']
    world.end(other)
    world.end(second)
    world.run_until_idle()
    hotel.poll()
    assert hotel.status(*lost) == ['PENDING', 'WAITING']


def test_other_lease_that_is_cancelled_meanwhile_gives_its_room_back(
    hotel: Hotel, running: str
) -> None:
    world = hotel.world
    other = book(hotel, 'other', start_date='now', end_date='+3h')
    world.end(other)
    world.run_until_idle(minutes=3)
    hotel.poll()
    world.run_until_idle()
    assert hotel.status(running, other) == ['ACTIVE', 'TERMINATED']


def test_nothing_is_preempted_for_what_the_calendar_does_not_lack(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made for a lease with hosts may find no room where the calendar has nothing of."""

    def refuse(*_: Any) -> None:
        raise exceptions.NotEnough('There is no capacity for its servers.', 'reservations')

    lost = book(hotel, 'lost', preemptible=True)
    monkeypatch.setattr(Draft, 'needs_forecast', True)
    monkeypatch.setattr(pool_forecast, 'check_draft', refuse)
    with pytest.raises(exceptions.NotEnough, match='its servers'):
        book(hotel, 'other')
    assert hotel.status(lost) == ['PENDING']


def test_request_that_another_was_faster_than_preempts_too(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this manager has in memory is old; the transaction finds that."""
    first = book(hotel, 'first', preemptible=True)
    book(hotel, 'second')
    monkeypatch.setattr(allocation, 'propose_units', lambda *_: frozenset())
    other = book(hotel, 'other')
    assert hotel.status(first, other) == ['WAITING', 'PENDING']


def test_those_that_wait_by_their_kind_come_first(hotel: Hotel) -> None:
    world = hotel.world
    lost = book(hotel, 'lost', 2, preemptible=True)
    other = book(hotel, 'other', 2)
    waits = hotel.book('waits', 2, start_date='+2h', end_date='+4h')
    world.end(other)
    world.run_until_idle()
    hotel.poll()
    assert hotel.status(lost, waits) == ['WAITING', 'PENDING']


@pytest.mark.parametrize('kind', ['retry', 'best_effort'])
def test_preemptible_lease_of_a_kind_that_waits_is_refused(hotel: Hotel, kind: str) -> None:
    with pytest.raises(exceptions.BadRequest) as refused:
        book(hotel, 'first', preemptible=True, kind=kind)
    assert refused.value.field == 'kind' if kind == 'best_effort' else 'preemptible'


def test_dry_run_counts_what_preemptible_leases_would_give_up(hotel: Hotel) -> None:
    book(hotel, 'first', 2, preemptible=True)
    wanted = {'name': 'other', **LATER, 'reservations': [{'resource_type': TYPE, 'min': 2}]}
    for preemptible, granted in ((False, True), (True, False)):
        values = {**wanted, 'preemptible': preemptible}
        found = hotel.world.operations.check_lease(user(), values)
        assert found['granted'] is granted
