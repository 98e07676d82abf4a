# SPDX-License-Identifier: Apache-2.0
"""What the engine tells Prometheus."""

import dataclasses
import pathlib
import threading
import types
import urllib.request
from collections.abc import Iterator
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.db import events, monitoring
from climate_core.delivery import metrics
from climate_core.delivery.metrics import Metrics, _DatabaseCollector
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.claims import Claims
from climate_core.engine.event_pool import EventPool
from climate_core.plugins.base import PollAgain
from climate_core.threads import Backoff
from tests.support.stopping import stop
from tests.support.world import TYPE, Time, World, user

LATE = 'climate_event_claim_lateness_seconds'
FINISHED = 'climate_event_finish_lateness_seconds'
START = {'event_type': 'start_lease'}


class Measured:
    """A world whose steps are measured."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metrics = Metrics(world.database, 30.0, 0.0)
        self.claims = Claims(world.database, 60.0)
        self.executor = world.new_executor(
            self.claims, backoff=Backoff(2.0, 120.0), observer=self.metrics
        )

    def run(self) -> None:
        for due in self.world.due():
            self.executor.run(due)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def measured(tmp_path: pathlib.Path, time: Time) -> Iterator[Measured]:
    world = World(f'sqlite:///{tmp_path}/db.sqlite', time)
    yield Measured(world)
    world.database.dispose()


def test_lateness_of_a_claim_and_of_a_finish(measured: Measured, time: Time) -> None:
    other = Metrics(measured.world.database, 30.0, 0.0)
    measured.world.create('a')
    time.forward(seconds=3)
    measured.run()
    for name in (LATE, FINISHED):
        assert measured.value(f'{name}_sum', **START) == 3.0
        assert measured.value(f'{name}_count', **START) == 1
        assert measured.value(f'{name}_bucket', **START, le='2.0') == 0
        assert measured.value(f'{name}_bucket', **START, le='5.0') == 1
        # Managers in one process do not share a registry.
        assert other.registry.get_sample_value(f'{name}_count', START) is None


def test_a_finish_counts_from_the_first_time_it_was_due(measured: Measured, time: Time) -> None:
    measured.world.things.answers['wake', 'a'] = [PollAgain(10.0)]
    measured.world.create('a')
    measured.run()
    assert measured.value(f'{FINISHED}_count', **START) is None
    time.forward(seconds=12)
    measured.run()
    assert measured.value(f'{LATE}_sum', **START) == 2.0
    assert measured.value(f'{LATE}_count', **START) == 2
    assert measured.value(f'{FINISHED}_sum', **START) == 12.0


def test_time_before_a_lease_was_moved_is_no_delay(measured: Measured, time: Time) -> None:
    """The announcement of an end that is moved near is due when it is moved."""
    world = measured.world
    lease_id = world.create('a', before_end_date='2082-12-01 13:00')
    measured.run()
    time.forward(minutes=10)
    world.update(lease_id, end_date='2082-12-01 12:15')
    assert world.database.read(monitoring.read_counts, 30.0).overdue == 0
    time.forward(seconds=2)
    measured.run()
    for name in (LATE, FINISHED):
        assert measured.value(f'{name}_sum', event_type='before_end_lease') == 2.0


def test_what_was_done_and_is_due_anew_counts_anew(measured: Measured, time: Time) -> None:
    lease_id = measured.world.create('a')
    measured.run()
    time.forward(minutes=5)
    measured.world.join(lease_id, 'b')
    time.forward(seconds=1)
    measured.run()
    assert measured.value(f'{FINISHED}_sum', **START) == 1.0


def test_what_another_manager_did_meanwhile_is_not_counted(measured: Measured, time: Time) -> None:
    measured.world.things.answers['wake', 'a'] = [PollAgain(10.0), PollAgain(10.0)]
    measured.world.create('a')
    measured.run()
    time.forward(seconds=10)
    measured.world.run()
    time.forward(seconds=11)
    measured.run()
    assert measured.value(f'{FINISHED}_sum', **START) == 1.0


def test_metrics_count_retries_and_failures(measured: Measured, time: Time) -> None:
    measured.world.things.answers['wake', 'a'] = [
        exceptions.Transient('away'),
        exceptions.Permanent('never'),
    ]
    measured.world.create('a')
    measured.run()
    assert measured.value('climate_event_retries_total', **START) == 1
    assert measured.value('climate_event_failures_total', **START) is None
    time.forward(seconds=10)
    measured.run()
    assert measured.value('climate_event_retries_total', **START) == 1
    assert measured.value('climate_event_failures_total', **START) == 1


def test_claims_that_are_lost_and_that_others_have(measured: Measured, time: Time) -> None:
    world = measured.world
    lease_id = world.create('a')
    [due] = world.due()
    # While it is woken, the lease is deleted.
    world.things.answers['wake', 'a'] = [lambda: world.delete(lease_id)]
    assert measured.executor.run(due)
    assert measured.value('climate_claims_lost_total') == 1
    assert measured.executor.run(due)
    assert measured.value('climate_claims_beaten_total', **START) == 1
    # An early look may come to nothing when nobody was faster.
    assert measured.executor.run(dataclasses.replace(due, is_early=True))
    assert measured.value('climate_claims_beaten_total', **START) == 1


def test_names_that_users_give_are_one_series(measured: Measured, time: Time) -> None:
    for name in ('mail', 'call'):
        given = [{'event_type': name, 'time': '2082-12-01 12:30'}]
        measured.world.create(start='2082-12-01 13:00', events=given)
    time.forward(minutes=30)
    measured.run()
    assert measured.value(f'{FINISHED}_count', event_type='of_user') == 2
    assert measured.value(f'{FINISHED}_count', event_type='mail') is None


def test_counts_of_the_database_take_one_statement(measured: Measured, time: Time) -> None:
    world = measured.world
    world.create('a')
    world.create('b', start='2082-12-01 13:00')
    time.forward(seconds=31)
    found: list[monitoring.Counts] = []
    seen = world.statements(
        lambda: found.append(world.database.read(monitoring.read_counts, 30.0))
    )
    assert len(seen) == 1
    assert found == [monitoring.Counts({'PENDING': 2}, due=1, overdue=1, outbox=2, deliveries=0)]
    time.forward(seconds=-2)
    assert world.database.read(monitoring.read_counts, 30.0).overdue == 0
    [due] = world.due()
    assert world.database.write(events.claim, due.id, due.generation, 60.0)
    assert world.database.read(monitoring.read_counts, 30.0).due == 0


def test_the_database_is_not_asked_at_each_reading(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(metrics, 'time', mock.Mock(monotonic=lambda: now[0]))
    collector = _DatabaseCollector(measured.world.database, 30.0, 10.0)

    def asked() -> int:
        return len(measured.world.statements(lambda: list(collector.collect())))

    assert [asked(), asked()] == [1, 0]
    now[0] = 10.0
    assert asked() == 1


def test_a_database_that_is_away_keeps_the_rest(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise sa.exc.TimeoutError('no connection left')

    measured.world.create('a')
    measured.run()
    monkeypatch.setattr(measured.world.database, 'read', away)
    assert measured.value('climate_database_up') == 0
    assert measured.value('climate_events_due') is None
    assert measured.value(f'{FINISHED}_count', **START) == 1


def test_every_status_has_a_number(measured: Measured) -> None:
    measured.world.create('a', context=user())
    assert measured.value('climate_leases', status='PENDING') == 1
    assert measured.value('climate_leases', status='ERROR') == 0
    assert measured.value('climate_database_up') == 1
    assert measured.value('climate_outbox_length') == 1
    assert measured.value('climate_webhook_queue_length') == 0


def test_they_are_served_by_http(measured: Measured) -> None:
    measured.world.create('a')
    server = metrics.create_server('127.0.0.1:0', measured.metrics.registry)
    server.start()
    try:
        url = f'http://127.0.0.1:{server.port}/metrics'
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
            assert answer.headers['Content-Type'].startswith('text/plain')
    finally:
        assert stop(server)
    assert 'climate_events_due 1.0' in text
    assert 'climate_build_info{version="' in text
    # The registry of the whole process has these.
    assert 'python_info' not in text


@pytest.mark.parametrize(
    ('text', 'parsed'),
    [('127.0.0.1:9464', ('127.0.0.1', 9464)), ('[::1]:0', ('::1', 0)), ('name:1', ('name', 1))],
)
def test_address_to_listen_on_is_parsed(text: str, parsed: tuple[str, int]) -> None:
    assert metrics.parse_address(text) == parsed


@pytest.mark.parametrize('text', ['9464', '127.0.0.1', ':9464', 'a:b', 'a:70000', 'a:1/x', '[::1'])
def test_wrong_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(metrics.BadAddress, match='listen'):
        metrics.parse_address(text)


def test_repairs_are_counted_by_type_and_name(measured: Measured, time: Time) -> None:
    lease_id = measured.world.create('thing')
    measured.world.things.answers['wake', 'thing'] = [PollAgain(5, 'Reset.', repair='reset_state')]
    for _ in range(2):
        measured.run()
        time.forward(minutes=1)
    assert measured.world.lease(lease_id).status == 'ACTIVE'
    labels = {'resource_type': TYPE, 'repair': 'reset_state'}
    assert measured.value('climate_repairs_total', **labels) == 1


def test_events_that_wait_for_a_thread_are_counted(measured: Measured) -> None:
    world, called, go_on = measured.world, threading.Semaphore(0), threading.Event()
    pool = EventPool(measured.executor, 1, ServiceBulkhead(1, 100, places=4))
    measured.metrics.watch_pool(pool)

    def hang() -> None:
        called.release()
        assert go_on.wait(60)

    for name in 'abc':
        world.things.answers['wake', name] = [hang]
        world.create(name)
    receiver = types.SimpleNamespace(end_event=lambda _job: called.release())
    pool.begin(world.due(), receiver)
    assert called.acquire(timeout=60)
    assert measured.value('climate_engine_waiting') == 2.0
    go_on.set()
    # Two more calls, and three ends.
    for _ in range(5):
        assert called.acquire(timeout=60)
    assert measured.value('climate_engine_waiting') == 0.0
    pool.close()
