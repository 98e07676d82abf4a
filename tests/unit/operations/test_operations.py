# SPDX-License-Identifier: Apache-2.0
"""Create, join, change and delete, as the manager does them for the API."""

import datetime
from concurrent import futures
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import listing
from climate_core.lease import model
from tests.support.world import TYPE, Time, World, at, statuses, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = '2082-12-01 13:00'


def _times(lease: model.Lease) -> dict[str, datetime.datetime]:
    return {e.event_type: e.time for e in lease.events}


def test_a_lease_has_its_events(world: World) -> None:
    lease = world.lease(world.create('a', start=LATER, end='2082-12-01 16:00'))
    assert _times(lease) == {
        'start_lease': at(LATER),
        'before_end_lease': at('2082-12-01 15:00'),
        'end_lease': at('2082-12-01 16:00'),
    }
    assert lease.before_end_date == at('2082-12-01 15:00')
    assert (lease.status, lease.project_id, lease.user_id) == ('PENDING', 'project1', 'user1')
    assert lease.reservations[0].params == {'colour': 'grey'}


def test_before_end_can_be_off_or_chosen(world: World) -> None:
    world.conf.set_override('minutes_before_end_lease', 0, group='manager')
    assert world.lease(world.create('a')).event('before_end_lease') is None
    chosen = world.lease(world.create('b', before_end_date=LATER))
    assert _times(chosen)['before_end_lease'] == at(LATER)


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'name': ''}, 'name'),
        ({'end_date': None}, 'end_date'),
        ({'events': [{'event_type': 'end_lease', 'time': LATER}]}, 'events[0].event_type'),
        ({'reservations': [{'resource_type': 'no:such'}]}, 'reservations[0].resource_type'),
        (
            {'reservations': [{'resource_type': TYPE, 'resource_id': 'unknown'}]},
            'reservations[0].resource_id',
        ),
        ({'reservations': [{'resource_type': TYPE, 'resource_id': 'a'}] * 2}, 'reservations'),
    ],
)
def test_refused_create_leaves_nothing(world: World, values: dict[str, Any], field: str) -> None:
    body = {'name': 'lease1', 'end_date': '2082-12-01 14:00'} | values
    with pytest.raises(exceptions.BadRequest) as caught:
        world.operations.creator.create_lease(user(), body)
    assert caught.value.field == field
    assert world.database.read(listing.read_page, listing.LeaseQuery()) == ([], False)
    assert world.trusts.present == set()


def test_a_start_a_little_late_is_taken(world: World) -> None:
    world.create('a', start='2082-12-01 11:56')


def test_repeating_a_create_gives_the_same_lease(world: World, time: Time) -> None:
    first = world.create('a', id=ID)
    time.forward(minutes=1)
    assert world.create('a', id=ID) == first == ID
    assert len(world.lease(ID).reservations) == 1
    assert world.trusts.made == 1


def test_repeating_a_create_without_an_id(world: World, time: Time) -> None:
    first = world.create('a', 'b')
    time.forward(minutes=1)
    assert world.create('a') == first
    assert world.trusts.present == {'trust1'}


def test_several_computes_make_one_lease(any_world: World) -> None:
    """Each posts the same lease with its own server, all at once."""
    world = any_world
    things = [f'server{n}' for n in range(6)]
    with futures.ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda t: world.create(t, id=ID, end='2099-01-01 00:00'), things))
    assert made == {ID}
    assert {r.resource_id for r in world.lease(ID).reservations} == set(things)
    assert len(world.trusts.present) == 1
    world.run_until_idle()
    assert world.lease(ID).status == 'ACTIVE'
    assert set(statuses(world.lease(ID).reservations)) == {'active'}


def test_one_resource_for_many_leases_is_reserved_once(any_world: World) -> None:
    world = any_world

    def create(n: int) -> str:
        try:
            return world.create('a', name=f'lease{n}', end='2099-01-01 00:00')
        except exceptions.ResourceReserved:
            return ''

    with futures.ThreadPoolExecutor(6) as pool:
        made = [each for each in pool.map(create, range(6)) if each]
    assert len(made) == 1
    assert len(world.database.read(listing.read_page, listing.LeaseQuery())[0]) == 1
    assert len(world.trusts.present) == 1


@pytest.mark.parametrize(
    'other',
    [
        {'name': 'other'},
        {'end': '2082-12-01 15:00'},
        {'start': LATER},
        {'context': user('project2')},
    ],
)
def test_create_with_a_taken_id_or_resource_is_a_conflict(
    world: World, other: dict[str, Any]
) -> None:
    world.create('a', id=ID)
    with pytest.raises(exceptions.LeaseConflict):
        world.create('b', id=ID, **other)
    with pytest.raises(exceptions.ResourceReserved):
        world.create('a', **other)
    assert len(world.lease(ID).reservations) == 1


def test_a_resource_that_was_freed_can_be_reserved_again(world: World, time: Time) -> None:
    world.create('a')
    time.forward(hours=2)
    world.run_until_idle()
    assert world.create('a', end='2082-12-01 16:00')


def test_joining_before_the_start(world: World, time: Time) -> None:
    lease_id = world.create('a', start=LATER)
    joined = world.join(lease_id, 'b')
    assert world.join(lease_id, 'b') == joined
    assert {r.resource_id: r.id for r in world.lease(lease_id).reservations}['b'] == joined
    time.forward(hours=1)
    world.run_until_idle()
    assert statuses(world.lease(lease_id).reservations) == ['active', 'active']


def test_joining_an_active_lease_wakes_the_resource(world: World) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    world.join(lease_id, 'b')
    assert world.lease(lease_id).status == 'ACTIVE'
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ACTIVE'
    assert world.things.calls == [('wake', 'a'), ('wake', 'b')]


def test_joining_while_the_start_is_at_work(world: World) -> None:
    world.things.answers['wake', 'a'] = [lambda: world.join(lease_id, 'b') and None]
    lease_id = world.create('a')
    world.run_until_idle()
    assert statuses(world.lease(lease_id).reservations) == ['active', 'active']


def test_joining_a_lease_in_which_something_failed(world: World) -> None:
    world.things.answers['wake', 'a'] = [exceptions.Permanent('no')]
    lease_id = world.create('a')
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ERROR'
    world.join(lease_id, 'b')
    world.run_until_idle()
    lease = world.lease(lease_id)
    assert (lease.status, lease.status_reason) == ('ERROR', f'{TYPE} a: no')
    assert {r.resource_id: r.status for r in lease.reservations} == {'a': 'error', 'b': 'active'}


def test_lease_with_a_later_start_starts_then(world: World, time: Time) -> None:
    lease_id = world.create('a', start='2082-12-01 12:30')
    world.update(lease_id, start_date=LATER, name='other')
    time.forward(minutes=30)
    assert world.run() == 0
    time.forward(minutes=30)
    world.run_until_idle()
    lease = world.lease(lease_id)
    assert (lease.status, lease.name) == ('ACTIVE', 'other')


def test_nothing_is_left_when_the_database_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oslo_db import exception as db_exc

    from climate_core.db import outbox

    def fail(*_args: object) -> None:
        raise db_exc.DBError

    monkeypatch.setattr(outbox, 'add_notifications', fail)
    with pytest.raises(db_exc.DBError):
        world.create('a')
    assert world.database.read(listing.read_page, listing.LeaseQuery()) == ([], False)
    assert world.trusts.present == set()
