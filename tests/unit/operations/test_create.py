# SPDX-License-Identifier: Apache-2.0
"""What a request for a lease can say, and what becomes of one that is sent again."""

import datetime
import logging
from concurrent import futures
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.db import leases, listing
from tests.support.created import get_id
from tests.support.world import Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = '2082-12-01 13:00'
SECRET = 'correct horse battery'
HOOK = {'url': 'https://example.org/hook', 'secret': SECRET}


def _all(world: World) -> list[Any]:
    return list(world.database.read(listing.read_page, listing.LeaseQuery())[0])


def test_create_keeps_the_seconds_of_dates(world: World) -> None:
    lease = world.lease(world.create('a', start='2082-12-01 13:00:07', end='2082-12-01 14:00:09'))
    assert (lease.start_date.second, lease.end_date.second) == (7, 9)


def test_now_and_a_duration_are_the_same_when_repeated(world: World, time: Time) -> None:
    first = world.create('a', id=ID, end=None, duration=7200)
    time.forward(seconds=30)
    assert world.create('b', id=ID, end=None, duration='2h') == first
    with pytest.raises(exceptions.LeaseConflict):
        world.create('c', id=ID, end=None, duration='3h')


def test_a_coming_start_is_told(world: World, time: Time) -> None:
    world.conf.set_override('before_start_seconds', [1800], group='manager')
    lease_id = world.create('a', start=LATER, before_start=[600, 1800, 86400])
    assert world.lease(lease_id).before_start == (86400, 1800, 600)
    heard = []
    for minutes in (0, 30, 20):
        time.forward(minutes=minutes)
        world.run_until_idle()
        world.told()
        heard.append([p['starts_in'] for t, p in world.sent if t.endswith('before_start_lease')])
    assert heard == [[3600], [3600, 1800], [3600, 1800, 600]]


def test_a_webhook_is_kept_and_its_secret_told_to_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lease_id = world.create('a', webhook=HOOK)
    assert world.lease(lease_id).webhook == HOOK | {'events': ['*']}
    world.run_until_idle()
    world.told()
    rows = world.database.read(listing.read_history_page, lease_id)[0]
    assert SECRET not in caplog.text + repr(world.sent) + repr(rows)
    assert 'example.org' in repr(rows)


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'start_policy': 'never'}, 'start_policy'),
        ({'start_policy': ['manual']}, 'start_policy'),
        ({'before_start': 60}, 'before_start'),
        ({'before_start': [0]}, 'before_start'),
        ({'before_start': [True]}, 'before_start'),
        ({'before_start': ['60']}, 'before_start'),
        ({'before_start': [367 * 86400]}, 'before_start'),
        ({'before_start': list(range(1, 22))}, 'before_start'),
        ({'webhook': 'https://example.org'}, 'webhook'),
        ({'webhook': HOOK | {'url': 'http://127.0.0.1/'}}, 'webhook.url'),
        ({'end': None, 'duration': 'P1Y'}, 'duration'),
    ],
)
def test_options_that_are_refused(world: World, values: dict[str, Any], field: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        world.create('a', **values)
    assert caught.value.field == field
    assert _all(world) == []


def test_the_operator_says_where_webhooks_may_be(world: World) -> None:
    world.conf.set_override('allowed_networks', ['127.0.0.0/8'], group='webhooks')
    assert world.create('a', webhook=HOOK | {'url': 'http://127.0.0.1/'})
    world.conf.set_override('enabled', False, group='webhooks')
    with pytest.raises(exceptions.InvalidWebhook):
        world.create('b', webhook=HOOK)


def test_options_are_compared_if_they_are_said(world: World) -> None:
    world.create('a', id=ID, start=LATER, start_policy='manual', webhook=HOOK)
    assert world.create('b', id=ID, start=LATER) == ID
    assert world.create('c', id=ID, start=LATER, start_policy='manual', webhook=HOOK) == ID
    for other in ({'start_policy': 'auto'}, {'before_start': [60]}):
        with pytest.raises(exceptions.LeaseConflict):
            world.create('d', id=ID, start=LATER, **other)


def test_a_key_gives_the_same_lease_whatever_became_of_it(world: World, time: Time) -> None:
    first = world.create('a', idempotency_key='k', end=None, duration='1h')
    time.forward(hours=5)
    world.run_until_idle()
    assert world.lease(first).status == 'TERMINATED'
    assert world.create('a', idempotency_key='k', end=None, duration='1h') == first
    assert len(_all(world)) == 1
    assert world.trusts.made == 1


def test_a_key_with_an_end_that_is_past(world: World, time: Time) -> None:
    first = world.create('a', idempotency_key='k')
    time.forward(hours=5)
    assert world.create('a', idempotency_key='k') == first


def test_a_key_of_a_request_that_was_refused_can_be_used_again(world: World) -> None:
    with pytest.raises(exceptions.ResourceNotFound):
        world.create('unknown', idempotency_key='k')
    assert world.create('a', idempotency_key='k')


def test_one_key_at_once_makes_one_lease(any_world: World) -> None:
    world = any_world

    def make(_: int) -> str:
        return world.create('a', end='2099-01-01 00:00', idempotency_key='k')

    with futures.ThreadPoolExecutor(6) as pool:
        made = set(pool.map(make, range(6)))
    assert len(made) == len(_all(world)) == 1
    assert len(world.trusts.present) == 1
    assert len(world.lease(made.pop()).reservations) == 1


def test_nothing_joins_a_lease_that_was_not_seen(world: World) -> None:
    world.create('a', id=ID)
    with pytest.raises(exceptions.LeaseAppeared):
        world.create('b', id=ID, may_join=False)
    assert len(world.lease(ID).reservations) == 1
    assert world.create('b', id=ID, may_join=True) == ID
    with pytest.raises(exceptions.LeaseConflict):
        world.create('c', id=ID, may_join=False, name='other')


@pytest.mark.parametrize('bad', [0, 1, 2])
def test_create_with_one_unknown_resource_leaves_nothing(world: World, bad: int) -> None:
    things = ['a', 'b', 'c']
    things[bad] = 'unknown'
    with pytest.raises(exceptions.ResourceNotFound) as caught:
        world.create(*things)
    assert caught.value.field == f'reservations[{bad}].resource_id'
    assert _all(world) == []
    assert world.trusts.made == 0
    assert world.told() == []
    assert world.run() == 0


def test_all_or_nothing_when_one_is_held(world: World) -> None:
    holder = world.create('b', name='first')
    before = world.told()
    with pytest.raises(exceptions.ResourceReserved) as caught:
        world.create('a', 'b', 'c', name='second')
    assert caught.value.field == 'reservations[1].resource_id'
    assert [each.id for each in _all(world)] == [holder]
    assert world.trusts.present == {'trust1'}
    assert world.told() == before
    assert world.create('a', 'c', name='third')


def test_a_lease_may_reserve_things_of_several_types(world: World) -> None:
    body = {
        'name': 'n',
        'duration': 60,
        'reservations': [world.wanted(each) for each in 'cab'],
    }
    lease_id = get_id(world.operations.creator.create_lease(user(), body))
    lease = world.database.read(leases.get, lease_id)
    assert [r.resource_id for r in lease.reservations] == ['c', 'a', 'b']
    assert lease.end_date - lease.start_date == datetime.timedelta(minutes=1)


def test_repeating_a_create_after_the_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is awake cannot be reserved anew, and need not be."""
    lease_id = world.create('a', id=ID)
    world.run_until_idle()

    def refuse(*_: Any) -> None:
        raise exceptions.BadRequest('It is awake.', field='resource_id')

    monkeypatch.setattr(world.things, 'reserve', refuse)
    assert world.create('a', id=ID) == lease_id
    assert world.join(ID, 'a') == world.lease(ID).reservations[0].id
    with pytest.raises(exceptions.BadRequest):
        world.create('a', 'b', id=ID)
