# SPDX-License-Identifier: Apache-2.0
"""Create, join, change and delete, as the manager does them for the API."""

import datetime
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import listing
from climate_core.lease import model
from tests.support.world import TYPE, Time, World, at, statuses, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = '2026-12-01 13:00'


def _times(lease: model.Lease) -> dict[str, datetime.datetime]:
    return {e.event_type: e.time for e in lease.events}


def test_a_lease_has_its_events(world: World) -> None:
    lease = world.lease(world.create('a', start=LATER, end='2026-12-01 16:00'))
    assert _times(lease) == {
        'start_lease': at(LATER),
        'before_end_lease': at('2026-12-01 15:00'),
        'end_lease': at('2026-12-01 16:00'),
    }
    assert lease.before_end_date == at('2026-12-01 15:00')
    assert (lease.status, lease.project_id, lease.user_id) == ('PENDING', 'project1', 'user1')
    assert lease.reservations[0].params == {'colour': 'grey'}


def test_before_end_is_clamped_to_the_start(world: World) -> None:
    lease = world.lease(world.create('a', start=LATER, end='2026-12-01 13:10'))
    assert lease.before_end_date == lease.start_date


def test_before_end_can_be_off_or_chosen(world: World) -> None:
    world.conf.set_override('minutes_before_end_lease', 0, group='manager')
    assert world.lease(world.create('a')).event('before_end_lease') is None
    chosen = world.lease(world.create('b', before_end_date=LATER))
    assert _times(chosen)['before_end_lease'] == at(LATER)


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'name': ''}, 'name'),
        ({'name': 'x' * 256}, 'name'),
        ({'start_date': 'tomorrow'}, 'start_date'),
        ({'start_date': '2026-12-01 11:00'}, 'start_date'),
        ({'end_date': '2026-12-01 12:00'}, 'end_date'),
        ({'end_date': '2026-02-30 12:00'}, 'end_date'),
        ({'end_date': None}, 'end_date'),
        ({'before_end_date': '2026-12-01 15:00'}, 'before_end_date'),
        ({'events': [{'event_type': 'end_lease', 'time': LATER}]}, 'events'),
        ({'events': [{'event_type': 'release_trust', 'time': LATER}]}, 'events'),
        ({'events': [{'event_type': 'Bad Name', 'time': LATER}]}, 'events'),
        ({'events': [{'event_type': 'x', 'time': '2026-12-01 14:01'}]}, 'events'),
        ({'events': [{'event_type': 'x', 'time': '2026-12-01 11:00'}]}, 'events'),
        ({'reservations': [{'resource_type': 'no:such'}]}, 'reservations[0].resource_type'),
        (
            {'reservations': [{'resource_type': TYPE, 'resource_id': 'unknown'}]},
            'reservations[0].resource_id',
        ),
        ({'reservations': [{'resource_type': TYPE, 'resource_id': 'a'}] * 2}, 'reservations'),
    ],
)
def test_what_is_refused_leaves_nothing(world: World, values: dict[str, Any], field: str) -> None:

    body = {'name': 'lease1', 'end_date': '2026-12-01 14:00'} | values
    with pytest.raises(exceptions.BadRequest) as caught:
        world.operations.create_lease(user(), body)
    assert caught.value.field == field
    assert world.database.read(listing.page, listing.Query()) == ([], False)
    assert world.trusts.present == set()


def test_a_start_a_little_late_is_taken(world: World) -> None:
    world.create('a', start='2026-12-01 11:56')


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
    assert len(world.database.read(listing.page, listing.Query())[0]) == 1
    assert len(world.trusts.present) == 1


@pytest.mark.parametrize(
    'other',
    [
        {'name': 'other'},
        {'end': '2026-12-01 15:00'},
        {'start': LATER},
        {'context': user('project2')},
    ],
)
def test_a_taken_id(world: World, other: dict[str, Any]) -> None:
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
    assert world.create('a', end='2026-12-01 16:00')


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


def test_joining_a_lease_in_which_something_failed(world: World, time: Time) -> None:
    lease_id = _error(world, time)
    world.join(lease_id, 'b')
    world.run_until_idle()
    lease = world.lease(lease_id)
    assert (lease.status, lease.status_reason) == ('ERROR', f'{TYPE} a: no')
    assert {r.resource_id: r.status for r in lease.reservations} == {'a': 'error', 'b': 'active'}


def test_joining_is_refused(world: World, time: Time) -> None:
    lease_id = world.create('a')
    other = world.create('c')
    with pytest.raises(exceptions.LeaseNotFound):
        world.join(lease_id, 'b', user('project2'))
    with pytest.raises(exceptions.LeaseNotFound):
        world.join(ID, 'b')
    with pytest.raises(exceptions.ResourceReserved):
        world.join(lease_id, 'c')
    time.forward(hours=2)
    world.run_until_idle()
    with pytest.raises(exceptions.InvalidState):
        world.join(other, 'b')


def test_prolonging_moves_the_events(world: World, time: Time) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    world.update(lease_id, end_date='2026-12-01 16:00')
    lease = world.lease(lease_id)
    assert _times(lease)['end_lease'] == at('2026-12-01 16:00')
    assert lease.before_end_date == _times(lease)['before_end_lease'] == at('2026-12-01 15:00')
    time.forward(hours=2)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ACTIVE'


def test_a_time_before_the_end_that_is_given_stays(world: World) -> None:
    lease_id = world.create('a', end='2026-12-01 18:00', before_end_date='2026-12-01 17:00')
    world.update(lease_id, end_date='2026-12-01 20:00', before_end_date='2026-12-01 17:00')
    lease = world.lease(lease_id)
    assert lease.before_end_date == at('2026-12-01 17:00')
    assert _times(lease)['before_end_lease'] == at('2026-12-01 17:00')
    assert _times(lease)['end_lease'] == at('2026-12-01 20:00')


def test_prolonging_tells_the_end_once_more(world: World, time: Time) -> None:
    lease_id = world.create('a')
    time.forward(minutes=90)
    world.run_until_idle()
    world.update(lease_id, end_date='2026-12-01 16:00')
    time.forward(minutes=90)
    world.run_until_idle()
    assert world.told().count('lease.event.before_end_lease') == 2


def test_reducing_ends_now(world: World, time: Time) -> None:
    lease_id = world.create('a', events=[{'event_type': 'note', 'time': '2026-12-01 13:50'}])
    world.run_until_idle()
    time.forward(minutes=1)
    world.update(lease_id, end_date='now')
    world.run_until_idle()
    assert world.lease(lease_id).status == 'TERMINATED'
    assert 'lease.event.note' in world.told()


def test_deferring_the_start(world: World, time: Time) -> None:
    lease_id = world.create('a', start='2026-12-01 12:30')
    world.update(lease_id, start_date=LATER, name='other')
    time.forward(minutes=30)
    assert world.run() == 0
    time.forward(minutes=30)
    world.run_until_idle()
    lease = world.lease(lease_id)
    assert (lease.status, lease.name) == ('ACTIVE', 'other')


@pytest.mark.parametrize(
    ('values', 'error'),
    [
        ({'project_id': 'mine'}, exceptions.BadRequest),
        ({'trust_id': 'mine'}, exceptions.BadRequest),
        ({'reservations': [{'id': 'x'}]}, exceptions.BadRequest),
        ({'end_date': '2026-12-01 11:59'}, exceptions.InvalidDate),
        ({'end_date': 'soon'}, exceptions.InvalidDate),
        ({'before_end_date': '2026-12-01 14:01'}, exceptions.InvalidDate),
        ({'start_date': LATER}, exceptions.InvalidState),
        ({'name': ''}, exceptions.BadRequest),
    ],
)
def test_changes_that_are_refused(
    world: World, values: dict[str, Any], error: type[Exception]
) -> None:
    lease_id = world.create('a')
    world.run_until_idle()
    before = world.lease(lease_id)
    with pytest.raises(error):
        world.update(lease_id, **values)
    assert world.lease(lease_id) == before


def test_a_change_may_name_its_generation(world: World) -> None:
    lease_id = world.create('a')
    world.update(lease_id, 0, name='second')
    with pytest.raises(exceptions.GenerationConflict):
        world.update(lease_id, 0, name='third')
    assert world.lease(lease_id).name == 'second'


def test_a_lease_that_is_over_can_only_be_renamed(world: World, time: Time) -> None:
    lease_id = world.create('a')
    time.forward(hours=2)
    world.run_until_idle()
    world.update(lease_id, name='history')
    with pytest.raises(exceptions.InvalidState):
        world.update(lease_id, end_date='2026-12-01 20:00')


def _pending(world: World, time: Time) -> str:
    return world.create('a', start=LATER)


def _starting(world: World, time: Time) -> str:
    from climate_core.plugins.base import Wait

    world.things.answers['wake', 'a'] = [Wait(10)]
    lease_id = world.create('a')
    world.run_until_idle()
    return lease_id


def _active(world: World, time: Time) -> str:
    lease_id = world.create('a')
    world.run_until_idle()
    return lease_id


def _error(world: World, time: Time) -> str:
    world.things.answers['wake', 'a'] = [exceptions.Permanent('no')]
    lease_id = world.create('a')
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ERROR'
    return lease_id


def _terminating(world: World, time: Time) -> str:
    world.things.answers['end', 'a'] = [exceptions.Transient('away')]
    lease_id = world.create('a')
    time.forward(hours=2)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'TERMINATING'
    return lease_id


def _terminated(world: World, time: Time) -> str:
    lease_id = world.create('a')
    time.forward(hours=2)
    world.run_until_idle()
    return lease_id


def _deleting(world: World, time: Time) -> str:
    lease_id = world.create('a')
    world.delete(lease_id)
    assert world.lease(lease_id).status == 'DELETING'
    return lease_id


@pytest.mark.parametrize(
    'state', [_pending, _starting, _active, _error, _terminating, _terminated, _deleting]
)
def test_delete_in_every_state(
    world: World, time: Time, state: Callable[[World, Time], str]
) -> None:
    lease_id = state(world, time)
    world.delete(lease_id)
    world.run_until_idle()
    assert world.lease(lease_id).deleted_at is not None
    with pytest.raises(exceptions.LeaseNotFound):
        world.delete(lease_id)
    assert world.database.read(listing.page, listing.Query()) == ([], False)
    assert world.things.state == {'a': 'gone'}
    assert world.things.count('end', 'a') == 1
    assert world.trusts.present == set()
    assert world.told().count('lease.delete') == 1
    assert 'lease.event.start_lease' not in world.told()[-1:]
    time.forward(days=1)
    assert world.run() == 0


def test_deleting_a_lease_that_holds_nothing_is_done_at_once(world: World) -> None:
    lease_id = world.create(start=LATER)
    world.delete(lease_id)
    assert world.lease(lease_id).deleted_at is not None
    world.run_until_idle()
    assert world.trusts.present == set()


def test_nothing_is_left_when_the_database_refuses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oslo_db import exception as db_exc

    from climate_core.db import outbox

    def fail(*_args: object) -> None:
        raise db_exc.DBError

    monkeypatch.setattr(outbox, 'add', fail)
    with pytest.raises(db_exc.DBError):
        world.create('a')
    assert world.database.read(listing.page, listing.Query()) == ([], False)
    assert world.trusts.present == set()
