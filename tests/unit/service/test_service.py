# SPDX-License-Identifier: Apache-2.0
"""The whole manager in this process: RPC in, events by themselves, notifications out."""

import datetime
import json
import pathlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from climate_common import dates
from climate_core import exceptions, service
from climate_core.cloud import Cloud
from climate_core.db import leases, outbox, tables, trusts
from climate_core.db.engine import Database
from climate_core.db.trusts import TrustScope
from climate_core.engine import start_preparation
from climate_core.rpc import ManagerClient
from climate_core.service import ManagerService
from tests.support.created import get_id
from tests.support.fakes import receiver
from tests.support.world import TYPE, Things, Trusts, configure, user

PATIENCE = 60
NEVER = '2099-01-01 00:00'


class Told:
    """What was sent, and a way to wait for one of a type."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Mapping[str, Any]]] = []
        self._changed = threading.Condition()

    def __call__(self, event_type: str, payload: Mapping[str, Any]) -> None:
        with self._changed:
            self.all.append((event_type, payload))
            self._changed.notify_all()

    def wait_for(self, event_type: str, count: int = 1) -> None:
        def there() -> bool:
            return [kind for kind, _ in self.all].count(event_type) >= count

        with self._changed:
            assert self._changed.wait_for(there, PATIENCE), self.all


class Running:
    def __init__(self, url: str, name: str, things: Things, **webhooks: Any) -> None:
        conf = configure(url, grace_seconds=PATIENCE)
        # The bus in memory keeps what managers of other tests sent when they stopped.
        conf.set_override('control_exchange', url)
        for option, value in webhooks.items():
            conf.set_override(option, value, group='webhooks')
        conf.set_override('host', name, group='manager')
        self.told = Told()
        self.service = ManagerService(conf, plugins={TYPE: things}, trusts=Trusts(), watch=False)
        self.service.publisher.send = self.told
        self.client = ManagerClient(conf)
        self.service.start()


@pytest.fixture
def things() -> Things:
    return Things()


@pytest.fixture
def run(tmp_path: pathlib.Path, things: Things) -> Iterator[Callable[[str], Running]]:
    """Return a function that starts one more manager on one database."""
    url = f'sqlite:///{tmp_path}/manager.sqlite'
    database = Database(configure(url))
    tables.load_metadata().create_all(database.engine)
    running: list[Running] = []

    def make(name: str = 'one', **webhooks: Any) -> Running:
        running.append(Running(url, name, things, **webhooks))
        return running[-1]

    yield make
    for each in running:
        assert each.service.stop()


def _values(*things: str, **values: Any) -> dict[str, Any]:
    reservations = [{'resource_type': TYPE, 'resource_id': t} for t in things]
    return {'name': 'lease1', 'end_date': NEVER, 'reservations': reservations} | values


def test_the_life_of_a_lease(run: Callable[..., Running], things: Things) -> None:
    manager = run()
    lease_id = get_id(manager.client.create_lease(user(), _values('a')))
    manager.told.wait_for('lease.event.start_lease')
    joined = manager.client.add_reservation(
        user(), lease_id, {'resource_type': TYPE, 'resource_id': 'b'}
    )
    manager.told.wait_for('lease.event.start_lease', 2)
    assert things.state == {'a': 'awake', 'b': 'awake'}
    assert manager.client.update_lease(user(), lease_id, {'name': 'other'}) == lease_id
    manager.client.update_lease(user(), lease_id, {'end_date': 'now'})
    manager.told.wait_for('lease.event.end_lease')
    assert things.state == {'a': 'gone', 'b': 'gone'}
    lease = manager.service.database.read(leases.get, lease_id)
    assert (lease.name, lease.status) == ('other', 'TERMINATED')
    assert joined in {r.id for r in lease.reservations}
    manager.client.delete_lease(user(), lease_id)
    manager.told.wait_for('lease.delete')


def test_it_stops_while_the_bus_is_away(
    run: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = run()
    back = threading.Event()
    monkeypatch.setattr(service, 'CLOSE_SECONDS', 0.1)
    monkeypatch.setattr(manager.service._transport, 'cleanup', back.wait)
    try:
        assert manager.service.stop()
    finally:
        back.set()
    assert manager.service.wait(0)
    assert 'The bus does not answer' in caplog.text


def test_errors_come_back_as_they_are(run: Callable[..., Running]) -> None:
    manager = run()
    with pytest.raises(exceptions.InvalidDate) as date:
        manager.client.create_lease(user(), _values('a', end_date='soon'))
    assert (date.value.field, date.value.status) == ('end_date', 400)
    assert date.value.message.startswith("'soon' is not a date")
    with pytest.raises(exceptions.LeaseNotFound) as missing:
        manager.client.delete_lease(user(), 'nowhere')
    assert missing.value.message == 'Lease nowhere was not found.'
    assert missing.value.field is None


def test_call_that_no_manager_answers_is_unavailable(conf: cfg.ConfigOpts) -> None:
    conf.set_override('rpc_response_timeout', 1)
    conf.set_override('control_exchange', 'nobody')
    with pytest.raises(exceptions.ServiceUnavailable):
        ManagerClient(conf).delete_lease(user(), 'x')


def test_another_manager_is_nudged_and_the_work_is_done_once(
    run: Callable[..., Running], things: Things
) -> None:
    first, second = run('one'), run('two')
    all_told = second.told = first.told
    second.service.publisher.send = all_told
    for n in range(10):
        first.client.create_lease(user(), _values(f't{n}', name=f'lease{n}'))
    all_told.wait_for('lease.event.start_lease', 10)
    assert sorted(things.journal) == sorted(('wake', f't{n}') for n in range(10))


def test_stop_leaves_nothing_running(run: Callable[..., Running]) -> None:
    before = set(threading.enumerate())
    manager = run()
    manager.client.create_lease(user(), _values('a'))
    manager.told.wait_for('lease.event.start_lease')
    assert manager.service.stop()
    assert manager.service.wait(0)
    mine = {'scheduler', 'claims', 'publisher', 'webhooks', 'usage', 'rpc stop'}
    left = {t.name for t in set(threading.enumerate()) - before if t.is_alive()}
    assert not left & mine


def test_its_own_hint_is_no_news(run: Callable[..., Running]) -> None:
    one, two = run('one').service, run('two').service
    nudged: list[str] = []
    one.scheduler.nudge = lambda: nudged.append('one')  # type: ignore[method-assign]
    one.wakeups.take_hint(one.wakeups._hint)
    assert nudged == []
    one.wakeups.take_hint(two.wakeups._hint)
    assert nudged == ['one']
    # It is the context of no user.
    assert one.wakeups._hint.auth_token is None


class _Prepared:
    """The clouds that were asked for a token, and a way to wait for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = threading.Condition()
        self._asked: set[Cloud] = set()
        monkeypatch.setattr(Cloud, 'prepare', lambda cloud, *_: self._prepare(cloud))
        monkeypatch.setattr(random, 'uniform', lambda least, _most: least)

    def _prepare(self, cloud: Cloud) -> bool:
        with self._changed:
            self._asked.add(cloud)
            self._changed.notify_all()
        return True

    def wait_for(self, *managers: Running) -> bool:
        clouds = {each.service.cloud for each in managers}
        with self._changed:
            return self._changed.wait_for(lambda: clouds <= self._asked, PATIENCE)


def test_lease_that_starts_soon_is_prepared_by_each_manager(
    run: Callable[..., Running], things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Things, 'wakes_as_owner', True)
    monkeypatch.setattr(start_preparation, '_MIN_READ_SECONDS', 0.0)
    prepared = _Prepared(monkeypatch)
    one, two = run('one'), run('two')
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=50)
    start = soon.strftime('%Y-%m-%dT%H:%M:%SZ')
    one.client.create_lease(user(), _values('a', start_date=start))
    assert prepared.wait_for(one, two)
    assert things.state == {'a': 'asleep'}


@pytest.mark.parametrize(('wakes', 'seconds'), [(True, 0), (False, 60)])
def test_nothing_is_prepared_where_it_is_turned_off_or_no_token_is_needed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, wakes: bool, seconds: int
) -> None:
    monkeypatch.setattr(Things, 'wakes_as_owner', wakes)
    conf = configure(f'sqlite:///{tmp_path}/climate.sqlite', prepare_seconds=seconds)
    assert ManagerService(conf, plugins={TYPE: Things()}, trusts=Trusts()).preparation is None


def test_stop_tells_the_others_before_it_leaves_the_bus(
    run: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = run('one').service, run('two').service
    nudged = threading.Event()
    two.scheduler.nudge = nudged.set  # type: ignore[method-assign]
    heard: list[bool] = []
    monkeypatch.setattr(service, 'CLOSE_SECONDS', PATIENCE)
    monkeypatch.setattr(one._transport, 'cleanup', lambda: heard.append(nudged.wait(PATIENCE / 2)))
    assert one.stop()
    assert heard == [True]


@pytest.mark.parametrize(('ahead', 'woken'), [(1100, ['scheduler']), (1300, [])])
def test_a_write_wakes_each_part_once_if_it_is_soon_due(
    run: Callable[..., Running], ahead: int, woken: list[str]
) -> None:
    """Two of the longest sleeps of an engine are 1200 seconds."""
    manager = run()
    start = manager.service.clock.now() + datetime.timedelta(seconds=ahead)
    nudged: list[str] = []
    manager.service.database.listen(outbox.NOTIFICATIONS_ADDED, lambda: nudged.append('publisher'))
    expect = manager.service.scheduler.expect

    def noted(due_at: datetime.datetime) -> None:
        nudged.append('scheduler')
        assert abs(due_at - start) < datetime.timedelta(seconds=1)
        expect(due_at)

    manager.service.scheduler.expect = noted  # type: ignore[method-assign]
    manager.client.create_lease(user(), _values('a', start_date=dates.serialize(start)))
    manager.told.wait_for('lease.create')
    # The publisher has what its own process writes.
    assert nudged == woken


def test_publisher_does_not_ask_for_what_its_process_writes(run: Callable[..., Running]) -> None:
    manager = run()
    nudged: list[str] = []
    manager.service.database.listen(outbox.NOTIFICATIONS_ADDED, lambda: nudged.append('filled'))
    manager.service.publisher.nudge = lambda: nudged.append('nudged')  # type: ignore[method-assign]
    manager.client.create_lease(user(), _values('a'))
    manager.told.wait_for('lease.event.start_lease')
    assert nudged == []


def test_a_webhook_is_called(run: Callable[..., Running], tmp_path: pathlib.Path) -> None:
    with receiver.running() as hook:
        manager = run(allowed_networks=['127.0.0.0/8'])
        values = _values('a', webhook={'url': hook.url(), 'secret': 'x' * 20})
        manager.client.create_lease(user(), values)
        hook.wait(2)
        manager.told.wait_for('lease.event.start_lease')
    told = [json.loads(got.body)['data']['event_id'] for got in hook.got]
    assert told == [payload['event_id'] for _, payload in manager.told.all]


def test_webhooks_can_be_turned_off(run: Callable[..., Running]) -> None:
    manager = run(enabled=False)
    assert manager.service.webhooks is None
    with pytest.raises(exceptions.InvalidWebhook):
        manager.client.create_lease(
            user(), _values('a', webhook={'url': 'http://hook.example/', 'secret': 'x' * 20})
        )


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    return configure(f'sqlite:///{tmp_path}/none.sqlite')


def _make(conf: cfg.ConfigOpts) -> ManagerService:
    return ManagerService(conf, plugins={}, trusts=Trusts(), watch=False)


@pytest.mark.parametrize(('every', 'told'), [('hour', True), ('off', False)])
def test_usage_can_be_turned_off(conf: cfg.ConfigOpts, every: str, told: bool) -> None:
    conf.set_override('notify_every', every, group='usage')
    assert ('usage' in {part.name for part in _make(conf)._starters}) is told


def test_a_network_that_is_none(conf: cfg.ConfigOpts) -> None:
    conf.set_override('refused_networks', ['10.0.0.1/8'], group='webhooks')
    with pytest.raises(cfg.Error, match=r'10\.0\.0\.1/8 has host bits set'):
        _make(conf)


@pytest.mark.parametrize('driver', [None, 'notify'])
def test_hosts_sleep_only_where_a_driver_is_named(tmp_path: pathlib.Path, driver: str) -> None:
    conf = configure(f'sqlite:///{tmp_path}/climate.sqlite')
    conf.set_override('driver', driver, group='power')
    made = ManagerService(conf, plugins={}, trusts=Trusts())
    names = {each.name for each in made._starters}
    assert ('host-power' in names) is (driver is not None)


def _live(made: ManagerService) -> set[str]:
    query = sa.select(tables.OWNER_TRUSTS.c.trust_id).where(
        tables.OWNER_TRUSTS.c.retired_at.is_(None)
    )
    with made.database.reader() as session:
        return set(session.scalars(query))


def test_trust_that_keystone_refuses_for_a_lease_is_shared_no_more(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf = configure(f'sqlite:///{tmp_path}/climate.sqlite')
    made = _make(conf)
    tables.load_metadata().create_all(made.database.engine)
    scope = TrustScope('user1', 'project1', 'climate', ('member',))
    for each in ('good', 'bad'):
        made.database.write(trusts.insert, each, scope)
    made.cloud._retire_trust('bad')
    # That of a feed, or of one lease alone.
    made.cloud._retire_trust('unknown')
    assert _live(made) == {'good'}
    tables.OWNER_TRUSTS.drop(made.database.engine)
    made.cloud._retire_trust('good')
    assert 'may still share the trust good' in caplog.text
    made.database.dispose()
