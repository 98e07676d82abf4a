# SPDX-License-Identifier: Apache-2.0
"""Of more than can be taken at once the projects take turns."""

import dataclasses
import uuid

from climate_core.db import events, store
from climate_core.lease import history, transitions
from tests.support.world import TYPE, Time, World, user


def taken(world: World, many: int) -> list[tuple[str, str]]:
    """Return the project and the type of the first events that are due."""
    _, due = world.database.read(events.read_due, many)
    return [(world.lease(each.lease_id).project_id, each.event_type) for each in due[:many]]


def test_single_lease_is_not_kept_waiting_by_many_of_another_project(any_world: World) -> None:
    for number in range(9):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    any_world.create('b', end='2099-01-01 00:00', context=user('project2'))
    found = taken(any_world, 4)
    assert len(found) == 4
    assert ('project2', 'start_lease') in found[:2]


def test_next_event_is_known_though_the_projects_take_turns(any_world: World) -> None:
    for number in range(3):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    later = any_world.create('later', start='2098-01-01 00:00', end='2099-01-01 00:00')
    now, found = any_world.database.read(events.read_due, 2)
    assert now is not None
    assert [each.next_at <= now for each in found] == [True, True, False]
    assert found[2].lease_id == later


def test_many_that_are_expected_are_read_as_when_they_are_found(any_world: World) -> None:
    for number in range(9):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    any_world.create('b', end='2099-01-01 00:00', context=user('project2'))
    later = any_world.create('later', start='2098-01-01 00:00', end='2099-01-01 00:00')
    now, found = any_world.database.read(events.read_due, 4, are_many=True)
    assert now is not None
    assert [each.next_at <= now for each in found] == [True] * 4 + [False]
    assert found[4].lease_id == later
    projects = {any_world.lease(each.lease_id).project_id for each in found[:2]}
    assert projects == {'project1', 'project2'}


def test_few_are_read_in_their_order_though_many_were_expected(any_world: World) -> None:
    for number in range(3):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    any_world.create('b', end='2099-01-01 00:00', context=user('project2'))
    any_world.create('later', start='2098-01-01 00:00', end='2099-01-01 00:00')
    expected = any_world.database.read(events.read_due, 9)[1]
    found = any_world.database.read(events.read_due, 9, are_many=True)[1]
    assert sorted(found, key=lambda each: each.id) == sorted(expected, key=lambda each: each.id)
    order = [(each.next_at, each.priority) for each in found]
    assert order == sorted(order)


def test_none_is_due_though_many_were_expected(any_world: World) -> None:
    assert any_world.database.read(events.read_due, 9, are_many=True) == (None, [])
    any_world.create('later', start='2098-01-01 00:00', end='2099-01-01 00:00')
    now, found = any_world.database.read(events.read_due, 9, are_many=True)
    assert now is not None
    assert [each.event_type for each in found] == ['start_lease']


def test_what_frees_something_goes_before_what_takes_it(world: World, time: Time) -> None:
    for number in range(9):
        world.create(f'a{number}', end='2082-12-01 13:00', before_end_notification=0)
    world.run_until_idle()
    world.create('b', start='2082-12-01 13:00', context=user('project2'))
    time.forward(hours=1)
    found = taken(world, 9)
    assert len(found) == 9
    assert 'start_lease' not in {kind for _, kind in found}


def test_little_is_taken_in_the_order_of_its_time(world: World, time: Time) -> None:
    for number in range(3):
        world.create(f'a{number}', start='2082-12-01 12:10')
    world.create('b', start='2082-12-01 12:11', context=user('project2'))
    time.forward(minutes=20)
    starts = [project for project, kind in taken(world, 20) if kind == 'start_lease']
    assert starts == ['project1'] * 3 + ['project2']


def test_lease_that_has_just_become_due_has_its_turn(any_world: World) -> None:
    for number in range(40):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    any_world.create('b', end='2099-01-01 00:00', context=user('project2'))
    assert 'project2' in {project for project, _ in taken(any_world, 2)}


def test_event_names_the_services_that_it_may_call(any_world: World) -> None:
    services = events.CalledServices({'one': [TYPE], 'two': ['test:none'], 'keystone': []})
    any_world.create('a', 'b', 'c', end='2099-01-01 00:00')
    ended = any_world.create('d', end='2099-01-01 00:00')
    any_world.delete(ended)
    any_world.create('e', end='2099-01-01 00:00', before_start=[60], start='2098-12-31 00:00')
    _, found = any_world.database.read(events.read_due, 100, services)
    named = {each.event_type: set(each.services) for each in found}
    assert named['start_lease'] == {'one'}
    assert named['end_lease'] == {'one'}
    assert named['before_start_lease'] == set()


def test_what_calls_no_full_service_has_half_of_what_is_taken(any_world: World) -> None:
    services = events.CalledServices({'full': [TYPE], 'other': ['test:none']})
    for number in range(20):
        any_world.create(f'a{number}', end='2099-01-01 00:00')
    for _ in range(3):
        any_world.create(end='2099-01-01 00:00')
    _, found = any_world.database.read(events.read_due, 8, services, ['full'])
    due = [each for each in found[:8] if each.event_type == 'start_lease']
    assert sorted(len(each.services) for each in due) == [0] * 3 + [1] * 5
    assert [len(each.services) for each in due[:6]] == [0, 1] * 3


def test_event_names_the_service_of_a_resource_that_joined_later(any_world: World) -> None:
    services = events.CalledServices({'one': [TYPE], 'two': ['test:other']})
    lease = any_world.lease(any_world.create('a', end='2099-01-01 00:00'))
    joined = dataclasses.replace(
        lease.reservations[0], id=str(uuid.uuid4()), resource_type='test:other', resource_id='b'
    )
    after = dataclasses.replace(lease, reservations=(*lease.reservations, joined))
    now = any_world.clock.now()
    change = transitions.Change(after, {})
    any_world.database.write(store.save, lease, change, now, history.Cause('lease.update'))
    _, due = any_world.database.read(events.read_due, 100, services)
    assert due[0].event_type == 'start_lease'
    assert due[0].services == {'one', 'two'}
