# SPDX-License-Identifier: Apache-2.0
"""The publisher: at least once, by one manager at a time, through oslo.messaging."""

import threading
from collections.abc import Mapping
from typing import Any

import oslo_messaging as messaging
import pytest
from oslo_messaging.notify import _impl_test

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
