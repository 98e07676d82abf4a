# SPDX-License-Identifier: Apache-2.0
"""The publisher: at least once, by one manager at a time, through oslo.messaging."""

import datetime
import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import oslo_messaging as messaging
import pytest
from oslo_db import exception as db_exc
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
    Publisher(world.database, world.clock, publisher.create_sender(world.conf), 600, 60).publish()
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
        Publisher(world.database, world.clock, fail, 600, 60).publish()
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

    made = Publisher(world.database, world.clock, send, 600, 60)
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

    def __init__(self, world: World, ttl: float = 60) -> None:
        self.world = world
        self.ttl = datetime.timedelta(seconds=ttl)
        self.taken: list[outbox.NewNotification] = []

    def expiry_of_new(self) -> outbox.Expiry:
        return outbox.Expiry(self.world.clock.now() + self.ttl, monotonic() + self.ttl.seconds)

    def take(self, notifications: Sequence[outbox.NewNotification], until: float) -> None:
        self.taken += notifications


def test_what_its_process_writes_is_sent_without_being_read(any_world: World) -> None:
    told, done = [], threading.Event()

    def send(event_type: str, payload: Mapping[str, Any]) -> None:
        told.append((event_type, payload['lease_id']))
        if len(told) == 2:
            done.set()

    made = Publisher(any_world.database, any_world.clock, send, 600, 60)
    made.poll()
    made.start()
    lease_ids = []

    def create() -> None:
        lease_ids.extend(any_world.create(each) for each in 'ab')
        assert done.wait(PATIENCE)
        assert stop(made)

    statements = any_world.statements(create)
    kinds = [each.split()[0] for each in statements if 'notifications' in each]
    assert told == [('lease.create', each) for each in lease_ids]
    assert kinds.count('INSERT') == 2
    assert kinds.count('DELETE') in (1, 2)
    assert set(kinds) == {'INSERT', 'DELETE'}
    # It asks once, when it starts.
    assert sum('notifications' in each for each in any_world.statements(made.publish)) == 1
    assert any_world.told() == []


def test_what_a_manager_wrote_that_died_is_sent_when_its_claim_expires(
    world: World, time: Time
) -> None:
    world.database.info[outbox.SENDER] = lost = Lost(world)
    world.create('a')
    (kept,) = lost.taken
    assert world.told() == []
    time.forward(seconds=61)
    assert world.told() == ['lease.create']
    assert world.sent[0][1]['event_id'] == kept.event_id


def test_what_was_rolled_back_is_not_sent(world: World) -> None:
    lease = world.lease(world.create('a'))
    world.database.info[outbox.SENDER] = lost = Lost(world)

    def fail(session: orm.Session) -> None:
        now = world.clock.now()
        outbox.add_notifications(session, [notifications.build('lease.create', lease, now)], now)
        raise ValueError

    with pytest.raises(ValueError):
        world.database.write(fail)
    assert lost.taken == []


def test_publisher_that_has_too_much_leaves_it_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, 'MAX_CLAIMED', 2)
    made = Publisher(world.database, world.clock, lambda *_: None, 600, 60)
    world.database.info[outbox.SENDER] = made
    for each in 'abc':
        world.create(each)
    assert world.told() == ['lease.create']


def test_publisher_that_stops_leaves_it_to_others(world: World) -> None:
    made = Publisher(world.database, world.clock, lambda *_: None, 600, 60)
    made.start()
    assert stop(made)
    world.create('a')
    assert world.told() == ['lease.create']


def test_new_one_that_cannot_be_sent_is_sent_when_its_claim_expires(
    world: World, time: Time
) -> None:
    def fail(event_type: str, payload: Mapping[str, Any]) -> None:
        raise messaging.MessageDeliveryFailure('no bus')

    made = Publisher(world.database, world.clock, fail, 600, 60)
    made.poll()
    world.database.info[outbox.SENDER] = made
    world.create('a')
    with pytest.raises(messaging.MessageDeliveryFailure):
        made.poll()
    assert world.told() == []
    assert 59 < (made.poll() or 0) <= 60
    time.forward(seconds=61)
    assert world.told() == ['lease.create']


def test_new_one_whose_claim_expired_is_left_to_the_database(world: World, time: Time) -> None:
    sent: list[str] = []
    made = Publisher(world.database, world.clock, lambda *item: sent.append(item[0]), 600, 60)
    made.poll()
    world.database.info[outbox.SENDER] = lost = Lost(world)
    world.create('a')
    time.forward(seconds=61)
    made.take(lost.taken, monotonic() - 1)
    made.poll()
    assert sent == ['lease.create']
    assert world.told() == []


class Heard:
    """What a publisher sends: the resources of leases, with what happens meanwhile."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.names: list[str] = []
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.publisher = Publisher(world.database, world.clock, self._send, 600, 60)

    def _send(self, event_type: str, payload: Mapping[str, Any]) -> None:
        name = payload['name']
        self.names.append(name)
        self.meanwhile.pop(name, lambda: None)()

    def create(self, *names: str) -> None:
        for each in names:
            self.world.create(each, name=each)

    def create_elsewhere(self, *names: str) -> None:
        """Have them written by a process that does not claim them."""
        self.world.database.info.pop(outbox.SENDER, None)
        self.create(*names)
        self.world.database.info[outbox.SENDER] = self.publisher


@pytest.fixture
def heard(world: World) -> Heard:
    made = Heard(world)
    made.publisher.poll()
    world.database.info[outbox.SENDER] = made.publisher
    return made


@pytest.mark.parametrize('is_claimed_when_written', [True, False])
def test_what_is_not_sent_when_it_stops_is_left_to_others_at_once(
    world: World, is_claimed_when_written: bool
) -> None:
    heard = Heard(world)
    if is_claimed_when_written:
        world.database.info[outbox.SENDER] = heard.publisher
        heard.publisher.poll()
    heard.create('a', 'b', 'c')
    heard.meanwhile['a'] = heard.publisher.stop
    heard.publisher.start()
    assert heard.publisher.wait(monotonic() + PATIENCE)
    assert heard.names == ['a']
    assert world.told() == ['lease.create'] * 2


def test_publisher_that_cannot_leave_what_is_not_sent_ends(
    world: World, monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    heard = Heard(world)
    heard.publisher.poll()
    world.database.info[outbox.SENDER] = heard.publisher
    heard.create('a', 'b')
    heard.meanwhile['a'] = heard.publisher.stop

    def fail(*_: Any) -> None:
        raise db_exc.DBConnectionError

    monkeypatch.setattr(outbox, 'release_claims', fail)
    heard.publisher.start()
    assert heard.publisher.wait(monotonic() + PATIENCE)
    assert world.told() == []
    time.forward(seconds=61)
    assert world.told() == ['lease.create']


def test_manager_at_work_asks_for_what_others_left_when_a_claim_has_expired(
    heard: Heard,
) -> None:
    heard.create('a')
    assert 59 < (heard.publisher.poll() or 0) <= 60
    assert heard.names == ['a']


def test_what_the_database_has_is_not_kept_waiting_by_what_is_written(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, 'BATCH_SIZE', 1)
    heard.create('a')
    heard.create_elsewhere('other')
    for one, following in itertools.pairwise('abcde'):
        heard.meanwhile[one] = functools.partial(heard.create, following)
    heard.publisher.poll()
    assert heard.names == ['a', 'other', 'b', 'c', 'd', 'e']


def test_what_had_no_room_is_sent_before_what_is_written_later(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, 'MAX_CLAIMED', 2)
    heard.create('a', 'b', 'c')
    heard.meanwhile['b'] = functools.partial(heard.create, 'd')
    heard.meanwhile['c'] = functools.partial(heard.create, 'e')
    heard.publisher.poll()
    assert heard.names == ['a', 'b', 'c', 'd', 'e']
    # Nothing is left that is older: it is claimed again as it is written.
    heard.create('f')
    assert heard.world.told() == []
    heard.publisher.poll()
    assert heard.names[5:] == ['f']


def test_what_comes_after_one_whose_claim_expired_is_sent_after_it(
    world: World, heard: Heard, time: Time
) -> None:
    now = monotonic()
    world.database.info[outbox.SENDER] = lost = Lost(world)
    heard.create('a')
    time.forward(seconds=61)
    heard.create('b')
    first, second = lost.taken
    heard.publisher.take([first], now - 1)
    heard.publisher.take([second], now + 60)
    heard.publisher.poll()
    assert heard.names == ['a', 'b']


def test_notification_of_a_request_that_took_long_is_sent_once(
    world: World, heard: Heard, time: Time
) -> None:
    world.database.info.pop(outbox.SENDER)
    lease, begun = world.lease(world.create('a', name='a')), world.clock.now()
    told = world.told()
    world.database.info[outbox.SENDER] = heard.publisher
    time.forward(seconds=61)
    notice = notifications.build('lease.update', lease, begun)
    world.database.write(
        lambda session: outbox.add_notifications(session, [notice], begun) and None
    )
    # Another manager asks before this one has sent it.
    assert world.told() == told
    heard.publisher.poll()
    assert heard.names == ['a']
    assert world.told() == told


def test_nudge_counts_while_the_next_question_is_put_off(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread nudges it between two of its instructions."""
    made, nudges = heard.publisher, [1]
    questions: list[int] = []
    publish = made.publish

    def now() -> float:
        if questions and nudges:
            nudges.pop()
            made.nudge()
        return monotonic()

    def ask() -> float | None:
        questions.append(1)
        return publish()

    monkeypatch.setattr(made, 'publish', ask)
    monkeypatch.setattr(publisher.time, 'monotonic', now)
    made.nudge()
    for _ in range(2):
        made.poll()
    assert len(questions) == 2
