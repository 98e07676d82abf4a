# SPDX-License-Identifier: Apache-2.0
"""A resource is taken out of a lease that goes on, without a loop."""

import pytest

from climate_core import exceptions
from climate_core.lease import views
from tests.support.world import Time, World, statuses

ONE = '2082-12-01 13:00'
AWAY = exceptions.Transient('Nova is away')


def _live(world: World, lease_id: str) -> list[str]:
    return [r.resource_id for r in world.lease(lease_id).live]


def test_taking_a_resource_out(world: World, time: Time) -> None:
    lease_id = world.create('a', 'b')
    world.run_until_idle()
    world.remove(lease_id, 'a')
    assert world.reservation(lease_id, 'a').status == 'deleting'
    assert 'end_reservation' not in {
        e.event_type for e in views.visible_events(world.lease(lease_id))
    }
    world.remove(lease_id, 'a')
    lease = world.settle(lease_id)
    assert (lease.status, lease.degraded) == ('ACTIVE', False)
    assert world.reservation(lease_id, 'a').status == 'deleted'
    assert world.reservation(lease_id, 'a').freed_at == time.now
    assert world.things.state == {'a': 'gone', 'b': 'awake'}
    with pytest.raises(exceptions.ReservationNotFound):
        world.remove(lease_id, 'a')
    world.run_until_idle(hours=2)
    assert world.things.count('end', 'a') == world.things.count('end', 'b') == 1


def test_taking_everything_out_leaves_an_empty_lease(world: World) -> None:
    lease_id = world.create('a', start=ONE)
    world.remove(lease_id, 'a')
    lease = world.settle(lease_id)
    assert (lease.status, lease.live) == ('PENDING', ())
    world.join(lease_id, 'b')
    assert world.settle(lease_id, hours=1).status == 'ACTIVE'
    assert world.things.journal == [('end', 'a'), ('wake', 'b')]


@pytest.mark.parametrize('thing', ['a', 'b'])
@pytest.mark.parametrize('freed', [False, True])
def test_taking_out_while_the_start_wakes(world: World, thing: str, freed: bool) -> None:
    """Of one that is being woken, or comes next; it may be freed before the start goes on."""

    def meanwhile() -> None:
        world.remove(lease_id, thing)
        for due in world.due() if freed else ():
            world.new_executor().run(due)

    world.things.answers['wake', 'a'] = [meanwhile]
    lease_id = world.create('a', 'b')
    lease = world.settle(lease_id)
    assert lease.status == 'ACTIVE'
    assert world.reservation(lease_id, thing).status == 'deleted'
    other = 'b' if thing == 'a' else 'a'
    assert _live(world, lease_id) == [other]
    assert world.things.state == {thing: 'gone', other: 'awake'}
    assert world.things.journal[-1] != ('wake', thing)


@pytest.mark.parametrize('how', ['due', 'end', 'delete'])
@pytest.mark.parametrize('at_work', [False, True])
def test_the_end_comes_while_something_is_taken_out(
    world: World, time: Time, how: str, at_work: bool
) -> None:
    """It is retried, or its manager is at work just then; all is freed, once."""

    def over() -> None:
        if how == 'due':
            time.forward(hours=3)
        elif how == 'end':
            world.end(lease_id)
        else:
            world.delete(lease_id)
        for due in (d for d in world.due() if d.event_type == 'end_lease'):
            world.new_executor().run(due)

    world.things.answers['end', 'a'] = [over] if at_work else [AWAY] * 2
    lease_id = world.create('a', 'b', start='2082-12-01 11:58')
    world.run_until_idle()
    world.remove(lease_id, 'a')
    world.run_until_idle()
    if not at_work:
        over()
    lease = world.settle(lease_id, minutes=5)
    assert (lease.status, statuses(lease.reservations)) == ('TERMINATED', ['deleted'] * 2)
    assert (lease.deleted_at is not None) == (how == 'delete')
    assert world.things.count('end', 'a') == world.things.count('end', 'b') == 1
    assert not any(e.open for e in lease.events)
    assert world.told().count('lease.event.end_lease') == 1


def test_what_is_being_taken_out_cannot_join_again_yet(world: World) -> None:
    lease_id = world.create('a', 'b')
    world.run_until_idle()
    world.things.answers['end', 'a'] = [AWAY]
    world.remove(lease_id, 'a')
    world.run_until_idle()
    with pytest.raises(exceptions.ResourceReserved, match='being removed'):
        world.join(lease_id, 'a')
    world.run_until_idle(seconds=10)
    assert world.join(lease_id, 'a') == world.reservation(lease_id, 'a').id
    assert world.lease(lease_id).status == 'ACTIVE'
