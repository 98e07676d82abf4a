# SPDX-License-Identifier: Apache-2.0
"""Deleting and ending work from whatever a manager that died left behind.

Every state of a lease, with every state of what it holds, and its events unclaimed, claimed by a
manager that lives, or claimed by one that is dead.
"""

import dataclasses
import datetime
import itertools

import pytest

from climate_core import exceptions
from climate_core.db import listing, store
from climate_core.lease import model, states, transitions
from climate_core.lease.history import Cause
from tests.support import leases
from tests.support.world import NOON, TYPE, Time, World

_L, _R, _E = states.LeaseStatus, states.ReservationStatus, states.EventStatus
HOUR = datetime.timedelta(hours=1)
#: What a lease may hold in each state; one that is over holds nothing.
HELD = {
    _L.WAITING: [_R.PENDING, _R.DELETING],
    _L.IN_PROGRESS: [_R.PENDING],
    _L.PENDING: [_R.PENDING, _R.DELETING, _R.DELETED],
    _L.STARTING: list(_R),
    _L.ACTIVE: [_R.ACTIVE, _R.PENDING, _R.DELETING, _R.DELETED],
    _L.ERROR: [_R.ERROR, _R.ACTIVE, _R.DELETING],
    _L.TIMEDOUT: [_R.ERROR, _R.DELETING],
    _L.TERMINATING: list(_R),
    _L.DELETING: list(_R),
    _L.TERMINATED: [_R.DELETED],
}
LEFT = [(status, held) for status in _L for held in HELD[status]]
#: Whether events that are due are claimed, and whether the claim runs out soon.
CLAIMS = ['unclaimed', 'claimed', 'dead']


def test_no_state_is_forgotten() -> None:
    assert set(HELD) == set(_L)
    assert set(itertools.chain(*HELD.values())) == set(_R)


def _event(
    kind: str, time: datetime.datetime, claim: str, reservation_id: str | None = None
) -> model.Event:
    event = model.new_event('lease', kind, time, NOON - HOUR, reservation_id)
    if time > NOON or claim == 'unclaimed':
        return event
    until = NOON + datetime.timedelta(seconds=30 if claim == 'claimed' else -1)
    return dataclasses.replace(event, status=_E.IN_PROGRESS, generation=1, next_at=until)


def _leave(world: World, status: str, held: str, claim: str, manual: bool = False) -> None:
    """Write a lease as it was left; its other reservation is awake, or as far as the first."""
    begun = status not in (_L.WAITING, _L.IN_PROGRESS, _L.PENDING)
    over = status in states.ENDING
    start = NOON - HOUR if begun else NOON + HOUR
    end = NOON if over else NOON + 3 * HOUR
    made = [model.new_reservation('lease', TYPE, thing, {}, NOON - HOUR) for thing in ('a', 'b')]
    first = dataclasses.replace(made[0], status=held)
    other = _R.DELETED if status == _L.TERMINATED else _R.ACTIVE if begun else _R.PENDING
    things = (first, dataclasses.replace(made[1], status=other))
    kind = model.READY if manual else model.START
    kind = {
        _L.WAITING: model.RETRY,
        _L.IN_PROGRESS: model.MAKE_ROOM,
        _L.TIMEDOUT: model.MAKE_ROOM,
    }.get(_L(status), kind)
    events = [
        _event(kind, start, claim),
        _event(model.END, end, claim),
    ]
    if held == _R.DELETING:
        events.append(_event(model.END_RESERVATION, NOON - HOUR, claim, first.id))
    if status == _L.TERMINATED:
        events = [transitions.cancel_event(e, None, NOON) for e in events]
        events.append(_event(model.RELEASE_TRUST, NOON, claim))
    elif over or status in (_L.ACTIVE, _L.ERROR, _L.TIMEDOUT):
        events[0] = transitions.cancel_event(events[0], None, NOON)
    lease = leases.lease(
        start=start,
        end=end,
        now=NOON - HOUR,
        project_id='project1',
        user_id='user1',
        status=status,
        trust_id='trust1',
        start_policy='manual' if manual else 'auto',
        reservations=things,
        events=tuple(events),
    )
    world.trusts.present.add('trust1')
    for each in things:
        world.things.state[each.resource_id] = 'gone' if each.status == _R.DELETED else 'awake'
    world.database.write(store.create, lease, NOON, Cause('lease.create'))


def _let_it_end(world: World, time: Time) -> model.Lease:
    for _ in range(3):
        world.run_until_idle()
        time.forward(seconds=31)
    lease = world.lease('lease')
    assert lease.status == _L.TERMINATED
    assert not lease.live
    assert not any(e.open for e in lease.events)
    assert world.things.state == {'a': 'gone', 'b': 'gone'}
    assert max(world.things.count('end', thing) for thing in 'ab') <= 1
    assert ('wake', 'a') not in world.things.calls
    assert world.trusts.present == set()
    return lease


@pytest.mark.parametrize('claim', CLAIMS)
@pytest.mark.parametrize(('status', 'held'), LEFT)
def test_lease_in_any_status_can_be_deleted(
    world: World, time: Time, status: str, held: str, claim: str
) -> None:
    _leave(world, status, held, claim)
    world.delete('lease')
    assert _let_it_end(world, time).deleted_at is not None
    assert world.told().count('lease.delete') == 1
    assert world.database.read(listing.read_page, listing.LeaseQuery()) == ([], False)
    with pytest.raises(exceptions.LeaseNotFound):
        world.delete('lease')


@pytest.mark.parametrize('claim', CLAIMS)
@pytest.mark.parametrize(('status', 'held'), LEFT)
def test_lease_in_any_status_can_be_ended(
    world: World, time: Time, status: str, held: str, claim: str
) -> None:
    _leave(world, status, held, claim)
    world.end('lease')
    lease = _let_it_end(world, time)
    assert (lease.deleted_at is not None) == (status == _L.DELETING)


@pytest.mark.parametrize('claim', CLAIMS)
def test_delete_of_one_that_waits_for_its_user(world: World, time: Time, claim: str) -> None:
    _leave(world, _L.PENDING, _R.PENDING, claim, manual=True)
    world.delete('lease')
    assert _let_it_end(world, time).deleted_at is not None


@pytest.mark.parametrize(('status', 'held'), LEFT)
def test_deleting_twice_is_deleting(world: World, time: Time, status: str, held: str) -> None:
    _leave(world, status, held, 'dead')
    world.delete('lease')
    if world.lease('lease').deleted_at is None:
        world.delete('lease')
    assert _let_it_end(world, time).deleted_at is not None
