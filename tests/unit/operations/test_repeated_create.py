# SPDX-License-Identifier: Apache-2.0
"""A create that is repeated with its id and more resources: all of them join, or none does."""

from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import listing
from tests.support.quotas import judge, limit
from tests.support.world import Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
FAR = '2099-01-01 00:00'


def _held(world: World, lease_id: str = ID) -> list[str]:
    return sorted(each.resource_id for each in world.lease(lease_id).live)


def _actions(world: World) -> list[str]:
    return [entry.action for _, entry in world.database.read(listing.read_history_page, ID)[0]]


def test_all_join_at_once(world: World) -> None:
    world.create('a', id=ID)
    world.run_until_idle()
    told = len(world.told())
    assert world.create('a', 'b', 'c', id=ID) == ID
    assert _held(world) == ['a', 'b', 'c']
    assert _actions(world).count('reservation.create') == 1
    assert world.told()[told:] == ['lease.update']
    world.run_until_idle()
    assert {each.status for each in world.lease(ID).reservations} == {'active'}


def test_reservations_stand_in_the_order_in_which_they_joined(database_url: str) -> None:
    """Also those of one moment, on every database."""
    world = World(database_url, Time())
    world.create('f', 'e', id=ID, end=FAR)
    for thing in 'dc':
        world.join(ID, thing)
    world.create('b', 'a', id=ID, end=FAR)
    world.join(ID, 'g')
    assert [each.resource_id for each in world.lease(ID).live] == list('fedcbag')
    world.database.dispose()


def _is_unchanged(world: World, **values: Any) -> exceptions.ClimateError:
    """Ask for more than can be had; nothing joins."""
    before = world.lease(ID)
    with pytest.raises(exceptions.ClimateError) as caught:
        world.create('a', 'b', 'x', 'c', id=ID, **values)
    assert world.lease(ID) == before
    assert _actions(world) == ['lease.create']
    assert world.trusts.present == {'trust1', 'trust2'}
    return caught.value


@pytest.mark.parametrize('held_by', ['project1', 'project2'])
def test_none_joins_if_one_is_held(world: World, held_by: str) -> None:
    world.create('a', id=ID)
    world.create('x', name='other', context=user(held_by))
    refused = _is_unchanged(world)
    assert isinstance(refused, exceptions.ResourceReserved)
    assert refused.field == 'reservations[2].resource_id'


def test_none_joins_if_one_cannot_be_reserved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create('a', id=ID)
    world.create('y', name='other')
    reserve = world.things.reserve

    def refuse(context: Any, values: Any, _: str) -> Any:
        if values['resource_id'] == 'x':
            raise exceptions.BadRequest('It is awake.', field='resource_id')
        return reserve(context, values)

    monkeypatch.setattr(world.things, 'reserve', refuse)
    assert _is_unchanged(world).field == 'reservations[2].resource_id'


def test_limits_are_judged_for_the_sum(world: World) -> None:
    world.create('a', id=ID)
    world.create('y', name='other')
    keystone = limit(world, reserved_servers=2)
    assert isinstance(_is_unchanged(world), exceptions.LimitExceeded)
    keystone.most['reserved_servers'] = 3
    asked = len(keystone.asked)
    assert world.create('a', 'b', 'x', 'c', id=ID) == ID
    assert len(keystone.asked) == asked + 1


def test_the_external_service_is_asked_once(world: World) -> None:
    world.create('a', id=ID)
    asked = judge(world)
    world.create('a', 'b', 'c', id=ID)
    ((before, after),) = asked.updates
    assert [len(before.reservations), len(after.reservations)] == [1, 3]
    world.create('a', 'b', 'c', id=ID)
    assert len(asked.updates) == 1


def test_a_resource_that_is_named_twice_is_refused(world: World) -> None:
    world.create('a', id=ID)
    with pytest.raises(exceptions.BadRequest):
        world.create('b', 'b', id=ID)
    assert _held(world) == ['a']
    # What the lease has does not count.
    assert world.create('a', 'a', id=ID) == ID


@pytest.mark.parametrize('wakes_as_owner', [True, False])
def test_resource_that_the_owners_rights_wake_joins_by_the_owner_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, wakes_as_owner: bool
) -> None:
    monkeypatch.setattr(world.things, 'wakes_as_owner', wakes_as_owner)
    lease_id = world.create('a', id=ID)
    other = user(name='user2')
    world.join(lease_id, 'b')
    if not wakes_as_owner:
        world.join(lease_id, 'c', other)
        world.create('a', 'd', id=ID, context=other)
        return
    with pytest.raises(exceptions.Forbidden, match='a lease of your own') as alone:
        world.join(lease_id, 'c', other)
    assert alone.value.field == 'resource_id'
    with pytest.raises(exceptions.Forbidden, match='a lease of your own') as together:
        world.create('a', 'd', id=ID, context=other)
    assert together.value.field == 'reservations[1].resource_id'
    # What is in it already is the answer for every user.
    assert world.create('a', 'b', id=ID, context=other) == lease_id
    assert [each.resource_id for each in world.lease(lease_id).live] == ['a', 'b']
    with pytest.raises(exceptions.LeaseNotFound):
        world.join(lease_id, 'c', user(project='project2', name='user2'))


def test_none_joins_while_one_is_being_taken_out(world: World) -> None:
    world.create('a', 'b', id=ID)
    world.remove(ID, 'b')
    with pytest.raises(exceptions.ResourceReserved) as caught:
        world.create('c', 'b', id=ID)
    assert caught.value.field == 'reservations[1].resource_id'
    assert _held(world) == ['a', 'b']


def _meanwhile(world: World, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Let something happen when the plugin is asked for the next time."""
    reserve = world.things.reserve

    def slow(context: Any, values: Any, _: str) -> Any:
        monkeypatch.setattr(world.things, 'reserve', reserve)
        happens()
        return reserve(context, values)

    monkeypatch.setattr(world.things, 'reserve', slow)


def test_create_skips_resources_that_joined_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create('a', id=ID)
    _meanwhile(world, monkeypatch, lambda: world.join(ID, 'c'))
    assert world.create('a', 'b', 'c', id=ID) == ID
    assert _held(world) == ['a', 'b', 'c']


def test_nothing_joins_a_lease_that_is_over(world: World, time: Time) -> None:
    world.create('a', id=ID)
    time.forward(hours=2)
    world.run_until_idle()
    with pytest.raises(exceptions.ClimateError):
        world.create('a', 'b', id=ID)
    assert _held(world) == []


def test_several_that_want_the_same_things(any_world: World) -> None:
    """Two leases race for overlapping sets; each gets all of its set or nothing of it."""
    world = any_world
    sets = [('b', 'c', 'd'), ('d', 'c', 'b')]
    ids = [f'{n}{ID[1:]}' for n in range(2)]
    for n, lease_id in enumerate(ids):
        world.create(f'a{n}', id=lease_id, end=FAR)

    def ask(n: int) -> bool:
        try:
            world.create(f'a{n}', *sets[n], id=ids[n], end=FAR)
        except exceptions.ResourceReserved:
            return False
        return True

    with futures.ThreadPoolExecutor(2) as pool:
        won = list(pool.map(ask, range(2)))
    assert sorted(won) == [False, True]
    for n, lease_id in enumerate(ids):
        assert len(_held(world, lease_id)) == (4 if won[n] else 1)


def test_the_lease_of_a_faster_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id appears after we looked; what we want beside it is held by others."""
    world.create('x', name='other')
    _meanwhile(world, monkeypatch, lambda: world.create('a', id=ID))
    with pytest.raises(exceptions.ResourceReserved):
        world.create('a', 'b', 'x', id=ID)
    assert _held(world) == ['a']
    assert len(world.trusts.present) == 2


def test_joins_cost_the_same_statements_for_any_number(world: World) -> None:
    world.create('a', id=ID)
    many = [f't{n}' for n in range(20)]
    # One to find it, two to lock it, four to write; however many join.
    assert len(world.statements(lambda: world.create('b', id=ID))) == 7
    assert len(world.statements(lambda: world.create(*many, id=ID))) == 7
    assert len(world.statements(lambda: world.create(*many, id=ID))) == 1


def test_a_type_that_is_not_known(world: World) -> None:
    world.create('a', id=ID)
    other = {'resource_type': 'other', 'resource_id': 'c'}
    body = {'id': ID, 'name': 'lease1', 'end_date': '2082-12-01 14:00'}
    with pytest.raises(exceptions.UnknownResourceType):
        world.operations.creator.create_lease(
            user(), body | {'reservations': [world.wanted('b'), other]}
        )
    assert _held(world) == ['a']
