# SPDX-License-Identifier: Apache-2.0
"""The publisher: at least once, by one manager at a time, through oslo.messaging."""

import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

import oslo_messaging as messaging
import pytest
from oslo_messaging.notify import _impl_test
from sqlalchemy import orm

from climate_core import notifications
from climate_core.db import outbox
from climate_core.delivery import publisher
from climate_core.delivery.publisher import Publisher
from tests.support.stopping import stop
from tests.support.world import Time, World

PATIENCE = 60


def test_it_goes_through_the_configured_driver(world: World) -> None:
    world.conf.set_override('driver', ['test'], group='oslo_messaging_notifications')
    world.conf.set_override('host', 'here', group='manager')
    _impl_test.reset()
    lease_id = world.create('a')
    Publisher(world.database, publisher.notifier(world.conf), 600, 60).publish()
    ((_, message, priority, _),) = _impl_test.NOTIFICATIONS
    assert priority == 'INFO'
    assert message['publisher_id'] == 'climate.here'
    assert message['event_type'] == 'lease.create'
    assert message['payload']['lease_id'] == lease_id


def test_one_notification_takes_two_transactions(world: World) -> None:
    world.create('a')
    statements = world.statements(world.publisher.publish)
    assert [each.split()[0] for each in statements] == ['SELECT', 'UPDATE', 'DELETE']


@pytest.mark.parametrize('before', [0, 1])
def test_what_cannot_be_sent_is_kept_and_the_rest_not_sent_again(
    world: World, time: Time, before: int
) -> None:
    sent: list[str] = []

    def fail(event_type: str, payload: Mapping[str, Any]) -> None:
        if len(sent) == before:
            raise messaging.MessageDeliveryFailure('no bus')
        sent.append(payload['lease_id'])

    ids = [world.create('a'), world.create('b')]
    with pytest.raises(messaging.MessageDeliveryFailure):
        Publisher(world.database, fail, 600, 60).publish()
    assert world.told() == []
    time.forward(seconds=61)
    assert world.told() == ['lease.create'] * (2 - before)
    assert sent + [payload['lease_id'] for _, payload in world.sent] == ids


def test_it_runs_when_nudged_and_survives_trouble(world: World) -> None:
    failed, done = threading.Event(), threading.Event()
    trouble = [messaging.MessageDeliveryFailure('no bus')]

    def send(event_type: str, payload: Mapping[str, Any]) -> None:
        if trouble:
            failed.set()
            raise trouble.pop()
        done.set()

    made = Publisher(world.database, send, 600, 60)
    made.start()
    world.create('a')
    made.nudge()
    # The claim of the failed one has not expired; the next lease is told all the same.
    assert failed.wait(PATIENCE)
    world.create('b')
    made.nudge()
    assert done.wait(PATIENCE)
    assert stop(made)


class Lost:
    """A manager that dies with what it has written."""

    def __init__(self, ttl: float | None = 60) -> None:
        self.ttl = ttl
        self.taken: list[outbox.NewNotification] = []

    def seconds_for_new(self) -> float | None:
        return self.ttl

    def take(self, notifications: Sequence[outbox.NewNotification], until: float) -> None:
        self.taken += notifications


def test_what_its_process_writes_is_sent_without_being_read(any_world: World) -> None:
    told, done = [], threading.Event()

    def send(event_type: str, payload: Mapping[str, Any]) -> None:
        told.append((event_type, payload['lease_id']))
        if len(told) == 2:
            done.set()

    made = Publisher(any_world.database, send, 600, 60)
    made.look()
    made.start()
    lease_ids = []

    def create() -> None:
        lease_ids.extend(any_world.create(each) for each in 'ab')
        assert done.wait(PATIENCE)
        assert stop(made)

    kinds = [each.split()[0] for each in any_world.statements(create)]
    assert told == [('lease.create', each) for each in lease_ids]
    assert kinds.count('DELETE') in (1, 2)
    # It asks once, when it starts.
    assert sum('notifications' in each for each in any_world.statements(made.publish)) == 1
    assert any_world.told() == []


def test_what_a_manager_wrote_that_died_is_sent_when_its_claim_expires(
    world: World, time: Time
) -> None:
    world.database.info[outbox.SENDER] = lost = Lost()
    world.create('a')
    (kept,) = lost.taken
    assert world.told() == []
    time.forward(seconds=61)
    assert world.told() == ['lease.create']
    assert world.sent[0][1]['event_id'] == kept.event_id


def test_what_was_rolled_back_is_not_sent(world: World) -> None:
    lease = world.lease(world.create('a'))
    world.database.info[outbox.SENDER] = lost = Lost()

    def fail(session: orm.Session) -> None:
        now = world.clock.now()
        outbox.add(session, [notifications.make('lease.create', lease, now)], now)
        raise ValueError

    with pytest.raises(ValueError):
        world.database.write(fail)
    assert lost.taken == []


def test_publisher_that_has_too_much_leaves_it_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, 'MOST_NEW', 2)
    made = Publisher(world.database, lambda *_: None, 600, 60)
    world.database.info[outbox.SENDER] = made
    for each in 'abc':
        world.create(each)
    assert world.told() == ['lease.create']


def test_publisher_that_stops_leaves_it_to_others(world: World) -> None:
    made = Publisher(world.database, lambda *_: None, 600, 60)
    made.start()
    assert stop(made)
    world.create('a')
    assert world.told() == ['lease.create']


def test_new_one_that_cannot_be_sent_is_sent_when_its_claim_expires(
    world: World, time: Time
) -> None:
    def fail(event_type: str, payload: Mapping[str, Any]) -> None:
        raise messaging.MessageDeliveryFailure('no bus')

    made = Publisher(world.database, fail, 600, 60)
    made.look()
    world.database.info[outbox.SENDER] = made
    world.create('a')
    with pytest.raises(messaging.MessageDeliveryFailure):
        made.look()
    assert world.told() == []
    assert 59 < (made.look() or 0) <= 60
    time.forward(seconds=61)
    assert world.told() == ['lease.create']


def test_new_one_whose_claim_expired_is_left_to_the_database(world: World, time: Time) -> None:
    sent: list[str] = []
    made = Publisher(world.database, lambda *item: sent.append(item[0]), 600, 60)
    made.look()
    world.database.info[outbox.SENDER] = lost = Lost()
    world.create('a')
    time.forward(seconds=61)
    made.take(lost.taken, monotonic() - 1)
    made.look()
    assert sent == ['lease.create']
    assert world.told() == []
