# SPDX-License-Identifier: Apache-2.0
"""All that a user may change of a lease, and what is refused and changes nothing."""

import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import listing
from climate_core.lease import model
from tests.support.world import Time, World, at

ONE, TWO, THREE = '2082-12-01 13:00', '2082-12-01 14:00', '2082-12-01 15:00'
HOOK = {'url': 'https://example.org/told', 'secret': 'sixteen letters.', 'events': ['lease.*']}


def _types(lease: model.Lease) -> list[str]:
    return [e.event_type for e in lease.events]


def _times(lease: model.Lease, kind: str) -> list[datetime.datetime]:
    return sorted(e.time for e in lease.events if e.event_type == kind)


def _history(world: World, lease_id: str) -> list[tuple[str, dict[str, Any]]]:
    entries = world.database.read(listing.read_history_page, lease_id)[0]
    return [(entry.action, dict(entry.changes)) for _, entry in entries]


def test_update_of_all_fields_at_once_is_done(world: World) -> None:
    lease_id = world.create('a', start=ONE, end=TWO)
    thing = world.reservation(lease_id, 'a').id
    world.update(
        lease_id,
        name='other',
        start_date='2082-12-01 13:30',
        duration='2h',
        before_end_date=THREE,
        start_policy='manual',
        before_start=[600],
        webhook=HOOK,
        events=[{'event_type': 'note', 'time': TWO}],
        reservations=[{'id': thing, 'colour': 'red'}],
    )
    lease = world.lease(lease_id)
    assert (lease.name, lease.start_policy, lease.before_start) == ('other', 'manual', (600,))
    assert lease.end_date - lease.start_date == datetime.timedelta(hours=2)
    assert lease.before_end_date == at(THREE)
    assert lease.webhook == HOOK
    assert lease.reservations[0].params == {'colour': 'red'}
    assert _types(lease) == [
        'before_start_lease',
        'ready_to_start',
        'note',
        'before_end_lease',
        'end_lease',
    ]
    assert lease.generation == 1
    assert world.told() == ['lease.create', 'lease.update']
    action, changes = _history(world, lease_id)[-1]
    assert action == 'lease.update'
    assert changes['reservations'][thing] == {'params': [{'colour': 'grey'}, {'colour': 'red'}]}
    assert changes['events'] == [[], ['note 2082-12-01T14:00:00.000000']]
    assert 'sixteen' not in str(changes)


def test_update_with_one_wrong_field_changes_nothing(world: World) -> None:
    lease_id = world.create('a', start=ONE, end=TWO)
    before = world.lease(lease_id)
    thing = before.reservations[0].id
    good = {'name': 'other', 'end_date': THREE, 'webhook': HOOK}
    for bad in (
        {'before_start': [0]},
        {'reservations': [{'id': thing, 'colour': 'red'}, {'id': 'nowhere', 'colour': 'red'}]},
        {'reservations': [{'id': thing, 'status': 'deleted'}]},
        {'reservations': [{'id': thing, 'resource_id': 'b'}]},
        {'events': [{'event_type': 'end_lease', 'time': TWO}]},
        {'events': [{'event_type': 'end_reservation', 'time': TWO}]},
        {'events': [{'event_type': 'before_end_lease', 'time': TWO}]},
        {'events': [{'event_type': 'note', 'time': '2082-12-01 11:00'}]},
        {'events': [{'event_type': 'note', 'time': '2082-12-01 15:01'}]},
        {'duration': '2h'},
        {'start_policy': 'never'},
        {'webhook': {**HOOK, 'url': 'http://127.0.0.1/'}},
    ):
        with pytest.raises(exceptions.BadRequest):
            world.update(lease_id, **{**good, **bad})
        assert world.lease(lease_id) == before
    assert world.told() == ['lease.create']
    assert len(_history(world, lease_id)) == 1


@pytest.mark.parametrize('field', ['start_date', 'end_date'])
def test_nothing_is_moved_into_the_past(world: World, time: Time, field: str) -> None:
    begun = field == 'end_date'
    lease_id = world.create('a', start='now' if begun else TWO, end=THREE)
    world.run_until_idle()
    time.forward(hours=1)
    before = world.lease(lease_id)
    with pytest.raises(exceptions.InvalidDate) as caught:
        world.update(lease_id, **{field: '2082-12-01 12:30'})
    assert caught.value.field == field
    assert world.lease(lease_id) == before
    if begun:
        world.update(lease_id, end_date='now')
        world.run_until_idle()
        assert world.lease(lease_id).status == 'TERMINATED'


def test_a_change_that_changes_nothing_is_none(world: World) -> None:
    lease_id = world.create('a', start=ONE, end=TWO, webhook=HOOK, before_start=[60])
    before = world.lease(lease_id)
    world.update(
        lease_id,
        name=before.name,
        start_date=ONE,
        end_date=TWO,
        duration=None,
        start_policy='auto',
        before_start=[60],
        webhook=HOOK,
        events=[],
        reservations=[],
    )
    assert world.lease(lease_id) == before
    assert world.told() == ['lease.create']


def test_another_secret_is_remembered_and_not_told(world: World) -> None:
    lease_id = world.create('a', webhook=HOOK)
    world.update(lease_id, webhook=HOOK | {'secret': 'sixteen others..'})
    told = _history(world, lease_id)
    origin = 'https://example.org'
    assert told[-1] == ('lease.update', {'webhook': [origin, origin]})
    assert 'sixteen' not in str(told)


def test_events_take_the_place_of_those_before(world: World, time: Time) -> None:
    given = [{'event_type': 'one', 'time': ONE}, {'event_type': 'two', 'time': TWO}]
    lease_id = world.create('a', end=THREE, events=given)
    kept = world.lease(lease_id).event('two')
    world.update(lease_id, events=[given[1], {'event_type': 'three', 'time': THREE}])
    lease = world.lease(lease_id)
    assert lease.event('two') == kept
    assert lease.event('one') is None
    assert lease.generation == 1
    time.forward(hours=1)
    world.run_until_idle()
    assert 'lease.event.one' not in world.told()
    world.update(lease_id, events=[])
    assert not {'two', 'three'} & set(_types(world.lease(lease_id)))
    time.forward(hours=1)
    world.run_until_idle()
    assert 'lease.event.two' not in world.told()


def test_an_event_that_is_taken_back_while_it_is_worked_on(world: World, time: Time) -> None:
    lease_id = world.create('a', events=[{'event_type': 'one', 'time': ONE}])
    world.run_until_idle()
    time.forward(hours=1)
    (due,) = (d for d in world.due() if d.event_type == 'one')
    assert world.database.write(world.claims.claim, due)
    world.update(lease_id, events=[])
    time.forward(minutes=5)
    world.run_until_idle()
    assert 'lease.event.one' not in world.told()


def test_the_coming_start_is_told_again_when_it_moves(world: World, time: Time) -> None:
    world.conf.set_override('before_start_seconds', [1800], group='manager')
    lease_id = world.create('a', start=ONE, end=THREE, before_start=[600])
    time.forward(minutes=35)
    world.run_until_idle()
    assert world.told().count('lease.event.before_start_lease') == 1
    world.update(lease_id, start_date=TWO)
    assert _times(world.lease(lease_id), 'before_start_lease') == [
        at('2082-12-01 13:30'),
        at('2082-12-01 13:50'),
    ]
    time.forward(minutes=80)
    world.run_until_idle()
    world.told()
    told = [p['starts_in'] for kind, p in world.sent if kind == 'lease.event.before_start_lease']
    assert told == [1500, 300, 300]


def test_of_what_is_past_one_is_told(world: World, time: Time) -> None:
    lease_id = world.create('a', start=TWO, end=THREE, before_start=[3600, 1800, 60])
    world.update(lease_id, start_date='2082-12-01 12:20')
    world.run_until_idle()
    world.told()
    told = [p['starts_in'] for kind, p in world.sent if kind == 'lease.event.before_start_lease']
    assert told == [1200]
    time.forward(minutes=19)
    world.run_until_idle()
    assert world.told().count('lease.event.before_start_lease') == 2


def test_prolonging_after_the_end_was_told_near_tells_that_it_is_not(
    world: World, time: Time
) -> None:
    lease_id = world.create('a')
    time.forward(minutes=90)
    world.run_until_idle()
    world.update(lease_id, duration='4h')
    assert world.told()[-2:] == ['lease.event.before_end_lease.stop', 'lease.update']
    time.forward(minutes=90)
    world.run_until_idle()
    assert world.told()[-1] == 'lease.event.before_end_lease'


def test_a_reservation_is_changed_by_a_request_of_its_own(world: World) -> None:
    lease_id = world.create('a', 'b')
    world.paint(lease_id, 'a', colour='red')
    lease = world.lease(lease_id)
    assert [r.params['colour'] for r in lease.reservations] == ['red', 'grey']
    assert (lease.generation, _history(world, lease_id)[-1][0]) == (1, 'reservation.update')
    with pytest.raises(exceptions.BadRequest):
        world.paint(lease_id, 'a', size='big')


@pytest.mark.parametrize('action', ['delete', 'start', 'end', 'remove', 'update'])
def test_every_change_may_name_its_generation(world: World, time: Time, action: str) -> None:
    lease_id = world.create('a', 'b', start=ONE, start_policy='manual')
    time.forward(minutes=70)
    world.run_until_idle()
    before = world.lease(lease_id)
    calls = {
        'delete': lambda g: world.delete(lease_id, g),
        'start': lambda g: world.start(lease_id, g),
        'end': lambda g: world.end(lease_id, g),
        'remove': lambda g: world.remove(lease_id, 'a', g),
        'update': lambda g: world.update(lease_id, g, name='other'),
    }
    with pytest.raises(exceptions.GenerationConflict):
        calls[action](before.generation + 1)
    assert world.lease(lease_id) == before
    calls[action](before.generation)
    assert world.lease(lease_id).generation == before.generation + 1
