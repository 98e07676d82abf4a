# SPDX-License-Identifier: Apache-2.0
"""Webhooks: signed, at least once, again until they answer, and nobody waits for the slow."""

import dataclasses
import datetime
import json
import pathlib
import runpy
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.conf.delivery import webhook_rules
from climate_core.db import leases, listing, outbox, store, tables
from climate_core.delivery import webhooks
from climate_core.delivery.webhooks import WebhookSender
from climate_core.lease import model, transitions
from climate_core.lease.history import Cause, HistoryEntry
from tests.support.fakes import receiver as fake
from tests.support.fakes.receiver import Got, Receiver
from tests.support.stopping import stop
from tests.support.world import NOON, Time, World

PATIENCE = 60
NEVER = '2099-01-01 00:00'
SECRET = 'correct-horse-battery-staple'
VERIFY = pathlib.Path(__file__).parents[3] / 'doc/source/reference/verify.py'


Make = Callable[..., WebhookSender]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with fake.running() as made:
        yield made


@pytest.fixture
def make_sender() -> Iterator[Make]:
    made: list[WebhookSender] = []

    def make(world: World, **options: Any) -> WebhookSender:
        for name, value in {'allowed_networks': ['127.0.0.0/8'], **options}.items():
            world.conf.set_override(name, value, group='webhooks')
        rules = webhook_rules(world.conf)
        cloud = mock.Mock(catalog_urls=list)
        made.append(WebhookSender(world.conf, world.database, world.clock, rules, cloud))
        return made[-1]

    yield make
    for each in made:
        assert stop(each)


@pytest.fixture
def sender(world: World, make_sender: Make) -> WebhookSender:
    return make_sender(world)


def _hook(receiver: Receiver, *events: str, **more: Any) -> dict[str, Any]:
    patterns = {'events': list(events)} if events else {}
    return {'url': receiver.url(), 'secret': SECRET, **patterns, **more}


def _flush(world: World, sender: WebhookSender) -> None:
    """Have everything called that is due, once for each time that it is due."""
    while _due_in(world) == 0:
        sender.poll()
        with sender._changed:
            assert sender._changed.wait_for(lambda: not sender._in_flight, PATIENCE)


def _due_in(world: World) -> float | None:
    return world.database.read(outbox.seconds_until_delivery, outbox.DeliveriesInProgress(99))


def _left(world: World) -> list[Any]:
    with world.database.reader() as session:
        return list(session.execute(sa.select(tables.DELIVERIES).order_by('id')).mappings())


def _history(world: World, lease_id: str) -> list[HistoryEntry]:
    return [entry for _, entry in world.database.read(listing.read_history_page, lease_id)[0]]


def _data(got: Got) -> Any:
    return json.loads(got.body)['data']


def _types(receiver: Receiver) -> list[str]:
    return [json.loads(got.body)['type'] for got in receiver.got]


def test_it_is_told_what_the_bus_is_told(
    world: World, sender: WebhookSender, receiver: Receiver, time: Time
) -> None:
    world.create('a', webhook=_hook(receiver))
    world.run_until_idle()
    time.forward(hours=2)
    world.run_until_idle()
    _flush(world, sender)
    assert _types(receiver) == world.told()
    assert [_data(got) for got in receiver.got] == [payload for _, payload in world.sent]
    assert _left(world) == []
    first = json.loads(receiver.got[0].body)
    assert first['type'] == 'lease.create'
    assert first['timestamp'] == '2082-12-01T12:00:00Z'


def test_the_example_for_receivers_verifies_it(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    world.create('a', webhook=_hook(receiver))
    _flush(world, sender)
    (got,) = receiver.got
    verify = runpy.run_path(str(VERIFY))['verify']
    now = world.clock.now().timestamp()
    assert got.headers['webhook-id'] == _data(got)['event_id']
    assert got.headers['content-type'] == 'application/json'
    assert verify(got.headers, got.body, SECRET, now)
    assert verify(got.headers, got.body, SECRET, now + 299)
    assert not verify(got.headers, got.body, SECRET, now + 301)
    assert not verify(got.headers, got.body, 'another secret', now)
    assert not verify(got.headers, got.body + b' ', SECRET, now)
    assert not verify(got.headers | {'webhook-id': 'other'}, got.body, SECRET, now)


def test_signature_is_that_of_standard_webhooks() -> None:
    # printf '%s.%s.%s' ID TIME BODY | openssl dgst -sha256 -hmac SECRET -binary | base64
    told = webhooks.sign_body(
        SECRET, 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, b'{"test": 2432232314}'
    )
    assert told == 'v1,BFpw6Zy4lBEkD2g/E47HnvbAnE6QcTxq/lrxz8mULK4='


def test_only_what_it_wants_to_hear(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    world.create('a', webhook=_hook(receiver, 'lease.delete', '*.start_lease'))
    world.create('b')
    world.run_until_idle()
    _flush(world, sender)
    assert _types(receiver) == ['lease.event.start_lease']


def test_it_is_tried_again_with_back_off(
    world: World, sender: WebhookSender, receiver: Receiver, time: Time
) -> None:
    receiver.answers = [500, 404, 302, 429]
    world.create('a', webhook=_hook(receiver))
    waits = []
    for _ in range(4):
        _flush(world, sender)
        seconds = _due_in(world)
        assert seconds is not None
        waits.append(seconds)
        time.forward(seconds=seconds)
    _flush(world, sender)
    assert waits == [5, 10, 20, 40]
    assert _left(world) == []
    assert len({got.headers['webhook-id'] for got in receiver.got}) == 1
    assert len({got.body for got in receiver.got}) == 1
    assert len({got.headers['webhook-timestamp'] for got in receiver.got}) == 5


def test_retry_after_of_the_receiver_lengthens_the_wait(
    world: World, make_sender: Make, receiver: Receiver, time: Time
) -> None:
    sender = make_sender(world, retry_max_seconds=1000)
    asked = iter(['300', '1', '5000'])

    def limit(handler: Any) -> None:
        handler.send_response(429)
        handler.send_header('Retry-After', next(asked))
        handler.end_headers()

    receiver.answers = [limit] * 3
    world.create('a', webhook=_hook(receiver))
    for expected in (300, 10, 1000):
        _flush(world, sender)
        assert _due_in(world) == expected
        time.forward(seconds=expected)
    _flush(world, sender)
    assert _left(world) == []


def test_delivery_that_fails_for_long_is_given_up(
    world: World, make_sender: Make, receiver: Receiver, time: Time
) -> None:
    sender = make_sender(world, give_up_hours=0.01)
    receiver.answers = [302] * 50
    lease_id = world.create('a', webhook=_hook(receiver))
    while (seconds := _due_in(world)) is not None:
        time.forward(seconds=seconds)
        _flush(world, sender)
    # 5, 10 and 20 seconds, and then at the end of the 36.
    assert len(receiver.got) == 5
    told = _history(world, lease_id)[-1]
    assert (told.action, told.result) == ('webhook.failed', 'failed')
    assert told.time == NOON + datetime.timedelta(seconds=36)
    assert told.reason == (
        'Abandoned the notification lease.create after many attempts: '
        'It answered 302, and redirects are not followed.'
    )
    # What comes later is tried again.
    world.run_until_idle()
    receiver.answers = []
    _flush(world, sender)
    assert _types(receiver)[-1] == 'lease.event.start_lease'


def test_gone_is_for_good(
    world: World, sender: WebhookSender, receiver: Receiver, time: Time
) -> None:
    lease_id = world.create('a', webhook=_hook(receiver))
    world.run_until_idle()
    receiver.answers = [410]
    _flush(world, sender)
    assert world.lease(lease_id).webhook is None
    assert (_left(world), len(receiver.got)) == ([], 1)
    told = _history(world, lease_id)[-1]
    assert (told.action, told.result) == ('webhook.failed', 'failed')
    assert told.reason == 'The webhook answered 410: it is not called any more.'
    assert told.changes == {'webhook': [f'http://127.0.0.1:{receiver.port}', None]}
    assert world.told()[-1] == 'lease.update'
    assert world.sent[-1][1]['reason'] == told.reason
    time.forward(hours=2)
    world.run_until_idle()
    _flush(world, sender)
    assert len(receiver.got) == 1


def test_gone_comes_too_late_for_a_new_one(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    lease_id = world.create('a', webhook=_hook(receiver))

    def gone(handler: Any) -> None:
        _change(world, lease_id, _hook(receiver, url=receiver.url('127.0.0.2')))
        handler.send_response(410)
        handler.end_headers()

    receiver.answers = [gone]
    _flush(world, sender)
    lease = world.lease(lease_id)
    assert lease.webhook is not None
    assert lease.webhook['url'] == receiver.url('127.0.0.2')


def test_what_waits_goes_to_the_new_one(
    world: World, sender: WebhookSender, receiver: Receiver, time: Time
) -> None:
    receiver.answers = [500]
    lease_id = world.create('a', webhook=_hook(receiver, url=receiver.url() + '&old'))
    _flush(world, sender)
    _change(world, lease_id, _hook(receiver))
    time.forward(seconds=5)
    _flush(world, sender)
    assert [got.path for got in receiver.got] == ['/hook?who=me&old', '/hook?who=me']


def test_what_waits_for_one_that_is_taken_away_is_dropped(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    lease_id = world.create('a', webhook=_hook(receiver))
    _change(world, lease_id, None)
    assert _left(world) == []


def _change(world: World, lease_id: str, hook: Mapping[str, Any] | None) -> None:
    def change(session: orm.Session) -> model.Lease:
        lease = leases.get(session, lease_id, lock=True)
        after = transitions.Change(dataclasses.replace(lease, webhook=hook))
        return store.save(session, lease, after, world.clock.now(), Cause('lease.update'))

    world.database.write(change)


def test_the_secret_is_nowhere_else(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    lease_id = world.create('a', webhook=_hook(receiver))
    world.run_until_idle()
    world.told()
    _flush(world, sender)
    shown = [world.sent, _history(world, lease_id), [got.body for got in receiver.got]]
    assert SECRET not in str(shown)


def test_a_call_is_claimed_for_longer_than_it_takes(
    world: World, sender: WebhookSender, receiver: Receiver
) -> None:
    left: list[float | None] = []

    def answer(handler: Any) -> None:
        left.append(_due_in(world))
        handler.send_response(204)
        handler.end_headers()

    receiver.answers = [answer]
    world.create('a', webhook=_hook(receiver))
    _flush(world, sender)
    assert left == [world.conf.webhooks.timeout_seconds + 60]


def test_two_managers_call_once(any_world: World, make_sender: Make, receiver: Receiver) -> None:
    world = any_world
    senders = [make_sender(world, workers=4), make_sender(world, workers=4)]
    for n in range(12):
        world.create(f'a{n}', end=NEVER, webhook=_hook(receiver))
    for each in senders:
        each.start()
    receiver.wait(12)
    for each in senders:
        assert stop(each)
    assert len({got.headers['webhook-id'] for got in receiver.got}) == len(receiver.got) == 12
    assert _left(world) == []


def test_one_that_is_slow_keeps_nobody_waiting(
    world: World, make_sender: Make, receiver: Receiver
) -> None:
    sender = make_sender(world, workers=8, timeout_seconds=PATIENCE)
    go_on = threading.Event()

    def wait(_handler: Any) -> None:
        go_on.wait(PATIENCE)

    with fake.running() as slow:
        slow.answers = [wait] * 9
        for n in range(9):
            world.create(f'slow{n}', webhook=_hook(slow))
        world.create('fast', webhook=_hook(receiver))
        # One of eight threads is the share of a host: nine leases take no more.
        sender.start()
        receiver.wait(1)
        assert len(slow.got) <= 1
        # What is written later is told at once, too, without a nudge.
        world.run_until_idle()
        receiver.wait(2)
        sender.stop()
        go_on.set()


def test_an_address_that_is_not_allowed_is_told(
    world: World, sender: WebhookSender, make_sender: Make, receiver: Receiver
) -> None:
    lease_id = world.create('a', webhook=_hook(receiver))
    strict = make_sender(world, allowed_networks=[], give_up_hours=0.0)
    _flush(world, strict)
    assert receiver.got == []
    reason = _history(world, lease_id)[-1].reason
    assert reason is not None
    assert reason.endswith(': Its address is not allowed for webhooks.')
