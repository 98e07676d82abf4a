# SPDX-License-Identifier: Apache-2.0
"""Leases of the kind retry: they wait until the calendar has enough, and are granted in order."""

import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_core.db import events as db_events
from climate_core.db import leases, monitoring, sql, tables
from climate_core.lease import model
from climate_core.repair import operator_repair
from tests.support.created import get_id
from tests.support.rooms import TYPE, Hotel
from tests.support.world import at, user


def test_enough_at_once_is_granted_at_once(hotel: Hotel) -> None:
    lease = hotel.world.lease(hotel.book('one'))
    assert (lease.status, lease.kind, lease.retries_left) == ('PENDING', 'retry', None)
    assert hotel.world.settle(lease.id).status == 'ACTIVE'


def test_lease_that_waits_is_not_stuck(hotel: Hotel) -> None:
    """It has no end yet; one that says when it ends has."""
    world, thresholds = hotel.world, monitoring.StuckThresholds()
    hotel.book('first', 2, end_date='+2d', duration=None)
    waiting = hotel.book('waits')
    ending = hotel.book('ends', end_date='+1h')
    for seconds in (0, 3600 + 599):
        world.time.forward(seconds=seconds)
        world.run_until_idle()
        assert world.database.read(monitoring.find_stuck, thresholds) == []
    assert hotel.status(waiting, ending) == ['WAITING', 'TERMINATED']
    world.time.forward(hours=3)
    world.run_until_idle()
    found = world.database.read(monitoring.find_stuck, thresholds, waiting)
    assert world.database.write(operator_repair.unstick, waiting, found, 'root') == []
    assert (found, world.lease(waiting).event(model.END)) == ([], None)


def test_it_waits_for_the_end_of_another_and_lasts_as_long_as_it_asked_for(hotel: Hotel) -> None:
    world = hotel.world
    first = hotel.book('first', 2)
    second = hotel.book('second')
    waiting = world.lease(second)
    assert (waiting.status, waiting.retries_left) == ('WAITING', 2016)
    assert waiting.next_retry_at == waiting.created_at + datetime.timedelta(minutes=10)
    assert 'Only 0' in waiting.status_reason or 'None of the rooms' in waiting.status_reason
    assert waiting.reservations[0].allocations == ()
    world.run_until_idle(minutes=30)
    assert hotel.status(first, second) == ['ACTIVE', 'WAITING']
    world.end(first)
    world.run_until_idle()
    hotel.poll()
    granted = world.settle(second)
    assert granted.status == 'ACTIVE'
    until = world.time.now + datetime.timedelta(hours=2)
    assert (granted.start_date, granted.end_date) == (world.time.now, until)
    assert [e.event_type for e in granted.events if e.event_type == 'start_lease']
    assert 'lease.event.retry_lease' in world.told()
    assert world.settle(second, hours=2).status == 'TERMINATED'


def test_a_fixed_end_stays(hotel: Hotel) -> None:
    first = hotel.book('first', 2)
    second = hotel.book('second', end_date='2082-12-01 15:00')
    hotel.world.time.forward(minutes=30)
    hotel.world.end(first)
    hotel.world.run_until_idle()
    hotel.poll()
    granted = hotel.world.settle(second)
    assert (granted.status, granted.end_date) == ('ACTIVE', at('2082-12-01 15:00'))


def test_a_lease_never_granted_is_over_at_its_end(hotel: Hotel) -> None:
    hotel.book('first', 2, duration='1d')
    second = hotel.book('second', end_date='2082-12-01 15:00')
    lease = hotel.world.settle(second, hours=4)
    assert lease.status == 'TERMINATED'
    assert lease.status_reason == 'Capacity was insufficient until its end.'
    assert hotel.rooms.opened == ['first']


def test_the_last_try_that_fails_leaves_it_in_error(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    second = hotel.book('second', max_retries=2)
    for left in (1, 0):
        lease = world.settle(second, minutes=10)
        assert (lease.status, lease.retries_left) == ('WAITING', left)
    lease = world.settle(second, minutes=10)
    assert lease.status == 'ERROR'
    assert 'Capacity was insufficient in every retry' in lease.status_reason
    assert 'lease.event.retry_lease.error' in world.told()
    world.delete(second)
    assert world.settle(second).status == 'TERMINATED'


def test_order_of_the_queue_is_the_same_in_the_database_and_in_memory(hotel: Hotel) -> None:
    hotel.book('first', 2)
    made = [hotel.book(f'lease{n}') for n in range(8)]
    with hotel.world.database.writer() as session:
        for number, lease_id in enumerate(made):
            values = {
                'preemptible': bool(number & 1),
                'priority': number >> 1 & 1,
                'kind': 'scheduled' if number & 4 else 'retry',
            }
            query = sa.update(tables.LEASES).where(tables.LEASES.c.id == lease_id)
            sql.change(session, query.values(values))
    found = hotel.world.database.read(leases.read_waiting, made)
    assert found == sorted(found, key=model.queue_order)
    assert [made.index(each.id) for each in found] == [6, 2, 4, 0, 7, 3, 5, 1]


def test_those_that_wait_longer_come_first(hotel: Hotel) -> None:
    world = hotel.world
    first = hotel.book('first', 1)
    hotel.book('other', 1, duration='1h')
    large = hotel.book('large', 2)
    # It would take the room that becomes free first, and make the large one later.
    long = hotel.book('long', 1, duration='3h')
    # It is over when the large one can begin: it may pass.
    world.run_until_idle(hours=1)
    hotel.poll()
    assert hotel.status(large, long) == ['WAITING', 'WAITING']
    short = hotel.book('short', 1, duration='30m')
    hotel.poll()
    assert hotel.status(large, long, short) == ['WAITING', 'WAITING', 'PENDING']
    world.run_until_idle(hours=1)
    assert hotel.status(first) == ['TERMINATED']
    hotel.poll()
    world.run_until_idle()
    assert hotel.status(large, long) == ['ACTIVE', 'WAITING']


def test_all_that_wait_are_tried_by_one_event(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    world.run_until_idle()
    waiting = []
    for number in range(3):
        waiting.append(hotel.book(f'lease{number}'))
        world.time.forward(seconds=1)
    world.time.forward(minutes=10)
    assert len(world.due()) == 3
    world.executor.run(world.due()[0])
    assert world.due() == []
    assert [world.lease(each).retries_left for each in waiting] == [2015] * 3


def test_the_manager_knows_when_to_look_next(hotel: Hotel) -> None:
    hotel.book('first', 2)
    hotel.book('second')
    hotel.world.time.forward(minutes=30)
    assert hotel.poll() == pytest.approx(90 * 60, abs=1)


def test_a_lease_that_waits_is_changed_and_tried_again(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 1, duration='1d')
    second = hotel.book('second', 2)
    reservation = world.lease(second).reservations[0]
    world.operations.update_reservation(user(), second, reservation.id, {'min': 1})
    world.run_until_idle()
    granted = world.lease(second)
    assert granted.status == 'ACTIVE'
    assert granted.reservations[0].amounts == {'hosts': 1}


def test_a_start_in_the_future_is_waited_for(hotel: Hotel) -> None:
    world = hotel.world
    first = hotel.book('first', 2, duration='3h')
    second = hotel.book('second', start_date='2082-12-01 14:00')
    assert hotel.status(second) == ['WAITING']
    world.end(first)
    world.run_until_idle()
    hotel.poll()
    granted = world.lease(second)
    assert (granted.status, granted.start_date) == ('PENDING', at('2082-12-01 14:00'))


@pytest.mark.parametrize('change', ['end', 'delete'])
def test_cancelled_while_it_waits(hotel: Hotel, change: str) -> None:
    hotel.book('first', 2)
    second = hotel.book('second')
    getattr(hotel.world, change)(second)
    lease = hotel.world.settle(second)
    assert lease.status == 'TERMINATED'
    if change == 'end':
        assert lease.status_reason == 'Cancelled by its user before its start.'
    hotel.world.run_until_idle(minutes=30)
    assert hotel.rooms.opened == ['first']


def test_higher_priority_comes_first(hotel: Hotel) -> None:
    world = hotel.world
    first = hotel.book('first', 2)
    waiting = [hotel.book(f'p{each}', priority=each) for each in (0, 5, 5, 1)]
    order = ['p5', 'p5', 'p1', 'p0']
    assert [each.name for each in world.database.read(leases.read_waiting, waiting)] == order
    world.end(first)
    world.run_until_idle()
    hotel.poll()
    assert hotel.status(*waiting) == ['WAITING', 'PENDING', 'PENDING', 'WAITING']
    with pytest.raises(exceptions.InvalidState, match='priority can be changed only'):
        world.update(waiting[1], priority=0)
    world.update(waiting[0], priority=2)
    assert [each.name for each in world.database.read(leases.read_waiting, waiting)] == [
        'p0',
        'p1',
    ]


def test_new_one_with_a_higher_priority_does_not_wait_for_others(hotel: Hotel) -> None:
    hotel.book('first')
    assert hotel.status(hotel.book('large', 2)) == ['WAITING']
    assert hotel.status(hotel.book('small'), hotel.book('first too', priority=1)) == [
        'WAITING',
        'PENDING',
    ]


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'kind': 'immediate', 'max_retries': 3}, 'max_retries'),
        ({'kind': 'soon'}, 'kind'),
        ({'max_retries': 0}, 'max_retries'),
        ({'max_retries': 5000}, 'max_retries'),
        ({'kind': 'immediate', 'priority': 0}, 'priority'),
        ({'priority': 10}, 'priority'),
    ],
)
def test_wrong_request_that_may_wait_is_refused_and_names_the_field(
    hotel: Hotel, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        hotel.book('one', **values)
    assert caught.value.field == field


def test_what_is_held_already_cannot_wait(hotel: Hotel) -> None:
    for things in ((), ('thing1',)):
        with pytest.raises(exceptions.BadRequest) as caught:
            hotel.world.create(*things, kind='retry')
        assert caught.value.field == 'kind'
    assert hotel.world.trusts.present == set()


def test_the_kind_follows_from_the_resources(hotel: Hotel) -> None:
    world = hotel.world
    body = {'name': 'l', 'duration': '1h', 'reservations': [{'resource_type': TYPE}]}
    assert (
        world.lease(get_id(world.operations.creator.create_lease(user(), body))).kind
        == 'scheduled'
    )
    assert world.lease(world.create('thing1')).kind == 'immediate'


def test_nothing_joins_and_nobody_starts_a_lease_that_waits(hotel: Hotel) -> None:
    hotel.book('first', 2)
    second = hotel.book('second', start_policy='manual')
    with pytest.raises(exceptions.InvalidState, match='is queued'):
        hotel.world.join(second, 'thing1')
    with pytest.raises(exceptions.InvalidState, match='is queued'):
        hotel.world.start(second)


def test_two_managers_grant_a_lease_once(hotel: Hotel) -> None:
    world = hotel.world
    first = hotel.book('first', 2)
    second = hotel.book('second', 2)
    world.end(first)
    world.run_until_idle()
    lease = world.lease(second)
    queue = world.operations.queue
    assert [queue.grant(lease), queue.grant(lease)] == [True, False]


def test_it_waits_for_longer_than_it_lasts(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    second = hotel.book('second', duration='1h')
    assert world.settle(second, hours=3).status == 'WAITING'
    world.run_until_idle(hours=21)
    hotel.poll()
    granted = world.settle(second)
    assert granted.status == 'ACTIVE'
    assert granted.end_date - granted.start_date == datetime.timedelta(hours=1)
    assert world.settle(second, hours=1).status == 'TERMINATED'


def test_an_end_that_is_given_while_it_waits_is_kept(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    second = hotel.book('second')
    world.update(second, end_date='2082-12-01 13:00')
    assert world.settle(second, hours=1).status == 'TERMINATED'


def test_what_cannot_be_granted_keeps_nobody_waiting(hotel: Hotel) -> None:
    """Its plugin is not loaded any more, or its project has reached its limits."""
    world = hotel.world
    first = hotel.book('first', 2, duration='1d')
    stuck, next_one = hotel.book('stuck', 2), hotel.book('next', 2)
    grant = world.operations.queue.grant

    def limited(lease: model.Lease, *more: Any, **named: Any) -> bool:
        if lease.id == stuck:
            raise exceptions.LimitExceeded('Too much.')
        return grant(lease, *more, **named)

    world.operations.queue.grant = limited
    world.end(first)
    world.run_until_idle()
    hotel.poll()
    assert hotel.status(stuck, next_one) == ['WAITING', 'PENDING']
    world.end(next_one)
    del world.plugins[TYPE]
    world.run_until_idle(minutes=10)
    assert hotel.status(stuck) == ['WAITING']


def test_a_mistake_in_a_plugin_keeps_nobody_else_waiting(
    hotel: Hotel, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = hotel.world
    first = hotel.book('first', 2, duration='1d')
    bad, good = hotel.book('bad'), hotel.book('good')
    right = hotel.rooms.read_demand

    def broken(reservation: model.Reservation) -> Demand:
        if reservation.lease_id == bad:
            raise KeyError('cpu')
        return right(reservation)

    world.end(first)
    world.run_until_idle()
    nudged: list[int] = []
    world.database.listen(db_events.DUE, lambda: nudged.append(1))
    monkeypatch.setattr(hotel.rooms, 'read_demand', broken)
    hotel.poll()
    assert hotel.status(bad, good) == ['WAITING', 'PENDING']
    assert nudged == [1]


def test_what_was_given_up_takes_nothing_more(hotel: Hotel) -> None:
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    lease = hotel.book('second', max_retries=1)
    for _ in range(2):
        world.run_until_idle(minutes=10)
    assert world.lease(lease).status == 'ERROR'
    reservation = world.lease(lease).reservations[0]
    for change in (
        lambda: world.update(lease, end_date='2082-12-03 13:00'),
        lambda: world.join(lease, 'thing1'),
        lambda: world.operations.update_reservation(user(), lease, reservation.id, {'min': 2}),
    ):
        with pytest.raises(exceptions.InvalidState, match='was never granted'):
            change()
    world.update(lease, name='other')
    assert world.settle(lease, hours=3).status == 'TERMINATED'


def test_two_managers_count_one_try_once(hotel: Hotel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has read before the first one writes."""
    world = hotel.world
    hotel.book('first', 2, duration='1d')
    hotel.book('one')
    other = hotel.book('other')
    soon, until = (world.time.now + datetime.timedelta(minutes=each) for each in (15, 25))
    change, faster = sql.change, []

    def late(session: orm.Session, statement: sa.Update) -> int:
        if not faster:
            faster.append(True)
            db_events.postpone_retries(session, model.RETRY, [other], soon, until)
        return change(session, statement)

    monkeypatch.setattr(sql, 'change', late)
    world.database.write(db_events.postpone_retries, model.RETRY, [other], soon, until)
    lease = world.lease(other)
    assert (lease.retries_left, lease.next_retry_at) == (2015, until)


def test_what_is_asked_for_less_still_holds_nothing(hotel: Hotel) -> None:
    world = hotel.world
    first, waits = hotel.book('first', 2), hotel.book('waits', 2)
    world.settle(first)
    (asked,) = world.lease(waits).reservations
    world.operations.update_reservation(user(), waits, asked.id, {'min': 1})
    lease = world.lease(waits)
    (asked,) = lease.reservations
    assert (lease.status, asked.params['min'], asked.amounts) == ('WAITING', 1, {})
    world.end(first)
    world.run_until_idle()
    hotel.poll()
    assert world.lease(waits).reservations[0].amounts == {'hosts': 1}


def test_an_empty_queue_costs_one_statement(hotel: Hotel) -> None:
    assert len(hotel.world.statements(hotel.poll)) == 1


@pytest.mark.parametrize('waiting', [1, 1000])
def test_a_freed_room_costs_as_many_statements_however_many_wait(
    hotel: Hotel, waiting: int
) -> None:
    first = hotel.book('first')
    hotel.book('second')
    hotel.world.settle(first)
    ids = [hotel.book('waits')]
    ids += hotel.repeat(ids[0], waiting - 1)
    assert hotel.poll() is not None
    hotel.world.operations.delete_lease(user(), first)
    hotel.world.settle(first)
    statements = hotel.world.statements(hotel.poll)
    assert hotel.status(*ids[:10], ids[-1])[:waiting] == ['PENDING', *['WAITING'] * 10][:waiting]
    assert len(statements) == 19, statements
