# SPDX-License-Identifier: Apache-2.0
"""Queries on each database: what they find, and that an index serves them."""

import datetime
import re
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import (
    events,
    forecast_reads,
    held_resources,
    leases,
    listing,
    outbox,
    sql,
    store,
    tables,
)
from climate_core.db.engine import Stale
from climate_core.lease import transitions
from climate_core.lease.events import end
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from climate_core.repair import reconciliation
from climate_hosts.watch import isolation
from tests.support.plans import plans
from tests.support.world import TYPE, World, user

NEVER = '2099-01-01 00:00'
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(1)
SERVICES = events.CalledServices({'thing': [TYPE]})


def test_a_deleted_lease_is_not_read(any_world: World) -> None:
    kept = any_world.create('a', end=NEVER, context=user('project2'))
    deleted = any_world.create(end=NEVER)
    any_world.delete(deleted)
    with pytest.raises(exceptions.LeaseNotFound):
        any_world.database.read(leases.get, deleted)
    found, _ = any_world.database.read(listing.read_page, listing.LeaseQuery())
    assert [lease.id for lease in found] == [kept]


def test_reading_one_is_reading_it_in_the_list(any_world: World) -> None:
    lease_id = any_world.create('a', 'b', end=NEVER)
    one = any_world.database.read(leases.get, lease_id)
    assert any_world.database.read(listing.read_page, listing.LeaseQuery()) == ([one], False)


def test_purge_removes_leases_deleted_before_a_time(any_world: World) -> None:
    world = any_world
    old, kept = world.create('a', end=NEVER), world.create('b', end=NEVER, name='kept')
    world.delete(old)
    world.run_until_idle()
    assert store.purge(world.database, world.clock.now() - datetime.timedelta(1)) == 0
    after = world.clock.now() + datetime.timedelta(1)
    assert store.purge(world.database, after) == 1
    assert world.database.read(leases.find, old) is None
    assert world.lease(kept).reservations
    with world.database.reader() as session:
        count = sa.select(sa.func.count()).where(tables.EVENTS.c.lease_id == old)
        assert session.scalar(count) == 0


def test_purge_removes_few_leases_by_each_transaction(any_world: World) -> None:
    world = any_world
    ids = [world.create(f't{number}', end=NEVER) for number in range(5)]
    kept = world.create('kept', end=NEVER)
    for each in ids:
        world.delete(each)
    world.run_until_idle()
    later = world.clock.now() + datetime.timedelta(1)
    removed: list[int] = []
    sent = world.statements(lambda: removed.append(store.purge(world.database, later, 2)))
    assert removed == [5]
    # A look and a removal for each two, and the look that finds nothing.
    assert len(sent) == 3 * 2 + 1
    assert all(world.database.read(leases.find, each) is None for each in ids)
    assert world.lease(kept).reservations


def test_two_purges_at_once_count_each_lease_once(any_world: World) -> None:
    world = any_world
    ids = [world.create(f't{number}', end=NEVER) for number in range(40)]
    for each in ids:
        world.delete(each)
    world.run_until_idle()
    later = world.clock.now() + datetime.timedelta(1)
    together = threading.Barrier(2)

    def purge(_: int) -> int:
        together.wait()
        return store.purge(world.database, later, 2)

    with futures.ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(purge, range(2))) == len(ids)
    assert all(world.database.read(leases.find, each) is None for each in ids)


@pytest.mark.parametrize(
    ('changes', 'removed'),
    [
        ({'status': 'TERMINATED'}, 1),
        ({'status': 'TERMINATED', 'updated_at': None}, 1),
        ({'status': 'TERMINATED', 'end_date': NOW + DAY}, 1),
        ({'status': 'TERMINATED', 'updated_at': NOW + DAY}, 0),
        ({'status': 'TERMINATED', 'updated_at': None, 'created_at': NOW + DAY}, 0),
        ({'status': 'ERROR'}, 0),
    ],
)
def test_leases_that_are_over_are_purged(
    any_world: World, changes: dict[str, Any], removed: int
) -> None:
    world = any_world
    kept = world.create('b', end=NEVER, name='kept')
    lease_id = world.create('a', end=NEVER)
    lease = world.lease(lease_id)
    past = dict.fromkeys(('created_at', 'updated_at', 'end_date'), NOW - DAY)
    closed = [transitions.cancel_event(e, None, NOW) for e in lease.events]

    def end(session: orm.Session) -> None:
        over = Change(lease.with_events(*closed))
        store.save(session, lease, over, NOW, Cause('lease.end'))
        store.update_lease(session, lease, **(past | changes))

    world.database.write(end)
    assert world.database.read(store.count_purgeable, NOW) == removed
    assert store.purge(world.database, NOW) == removed
    assert (world.database.read(leases.find, lease_id) is None) == bool(removed)
    assert world.lease(kept).reservations


def test_what_the_trust_needs_is_not_purged(any_world: World) -> None:
    world = any_world
    lease_id = world.create(end=NEVER)
    world.delete(lease_id)
    assert store.purge(world.database, world.clock.now() + datetime.timedelta(1)) == 0
    assert world.lease(lease_id).trust_id == 'trust1'


def test_holder_of_a_resource_is_found(any_world: World) -> None:
    world = any_world
    lease_id = world.create('a', 'b', end=NEVER)
    (held,) = world.database.read(held_resources.find_holding_reservations, TYPE, ['a', 'c'])
    assert (held.lease_id, held.resource_id) == (lease_id, 'a')
    first = world.database.read(held_resources.read_held_page, TYPE, '', 1)
    second = world.database.read(held_resources.read_held_page, TYPE, first[0].id, 1)
    assert {first[0].resource_id, second[0].resource_id} == {'a', 'b'}
    world.delete(lease_id)
    world.run_until_idle()
    assert world.database.read(held_resources.find_holding_reservations, TYPE, ['a']) == []
    assert world.database.read(held_resources.read_held_page, TYPE) == []


def test_a_resource_is_held_once_whatever_the_program_thinks(any_world: World) -> None:
    world = any_world
    world.create('a', end=NEVER)
    lease = world.lease(world.create('b', end=NEVER))
    (held,) = lease.reservations
    other = tables.RESERVATIONS.update().where(tables.RESERVATIONS.c.id == held.id)
    with pytest.raises(db_exc.DBDuplicateEntry), world.database.writer() as session:
        session.execute(other.values(resource_id='a'))


def test_an_exception_rolls_back(any_world: World) -> None:
    world = any_world
    lease_id = world.create('a', end=NEVER)

    def fail(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        store.update_lease(session, lease, name='lost')
        raise RuntimeError

    with pytest.raises(RuntimeError):
        world.database.write(fail)
    assert world.lease(lease_id).name == 'lease1'


def test_what_is_logged_of_a_failure_has_no_secrets(world: World) -> None:
    webhook = {'url': 'https://hook.example/', 'secret': 'a secret of the user'}
    lease = world.lease(world.create('a', end=NEVER, webhook=webhook))
    with pytest.raises(db_exc.DBDuplicateEntry) as failed, world.database.writer() as session:
        store.insert_leases(session, [lease])
    assert 'INSERT INTO leases' in str(failed.value)
    assert webhook['secret'] not in str(failed.value)
    assert str(lease.trust_id) not in str(failed.value)


@pytest.mark.parametrize('failure', [db_exc.DBDeadlock, db_exc.DBConnectionError, Stale])
def test_a_transaction_is_repeated(world: World, failure: type[Exception]) -> None:
    failures = [failure(), failure()]

    def function(session: orm.Session) -> str:
        if failures:
            raise failures.pop()
        return 'done'

    assert world.database.write(function) == 'done'


def test_what_is_claimed_meanwhile_is_not_overwritten(any_world: World) -> None:
    lease = any_world.lease(any_world.create('a', end=NEVER))
    (due,) = any_world.due()
    assert any_world.database.write(events.claim, due.id, due.generation, 60)
    with pytest.raises(Stale), any_world.database.writer() as session:
        store.save(session, lease, end.delete_lease(lease, NOW), NOW, Cause('lease.delete'))
    assert any_world.lease(lease.id).status == 'PENDING'


def test_notification_in_the_outbox_is_claimed_once(any_world: World) -> None:
    world = any_world
    for n in range(3):
        world.create(f'a{n}', end=NEVER, name='x' * 200)
    name, mine, left = world.database.write(outbox.claim_notifications, 60, 2)
    assert left == 0
    _, others, due = world.database.write(outbox.claim_notifications, 60, 10)
    assert [len(mine), len(others)] == [2, 1]
    assert mine[0].payload['event_id'] == mine[0].event_id
    assert due is not None
    assert 0 < due <= 60
    world.database.write(outbox.delete_sent, 'another manager', [n.id for n in mine])
    world.database.write(outbox.delete_sent, name, [mine[0].id])
    with world.database.reader() as session:
        count = session.scalar(sa.select(sa.func.count()).select_from(tables.NOTIFICATIONS))
    assert count == 2


def test_claim_is_of_what_no_other_manager_took_meanwhile(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in 'ab':
        any_world.create(name, end=NEVER)
    take = outbox.claim_rows

    def late(session: orm.Session, table: sa.Table, ids: list[int], ttl: float) -> Any:
        take(session, table, ids[:1], ttl)
        return take(session, table, ids, ttl)

    monkeypatch.setattr(outbox, 'claim_rows', late)
    (mine,) = any_world.database.write(outbox.claim_notifications, 60, 10).notifications
    assert mine.payload['reservations'][0]['resource_id'] == 'b'


def test_a_payload_of_any_size(any_world: World) -> None:
    world = any_world
    world.create(*(f'thing{n:03}' for n in range(300)), end=NEVER)
    assert world.told() == ['lease.create']
    assert len(world.sent[0][1]['reservations']) == 300


def test_any_text_is_read_as_it_was_written(any_world: World) -> None:
    name = '借用 🚀 \' " % \\ ' + 'é' * 200
    lease_id = any_world.create('a', end=NEVER, name=name)
    assert any_world.lease(lease_id).name == name


def test_the_reasons_of_many(any_world: World) -> None:
    names = [f'thing{n:03}' for n in range(500)]
    lease = any_world.lease(any_world.create(*names, end=NEVER))
    why = dict.fromkeys((r.id for r in lease.reservations), 'It was deleted behind our back. ' * 3)
    assert reconciliation.mark_lost(any_world.database, lease.id, why)
    reason = any_world.lease(lease.id).status_reason
    assert reason is not None
    assert f'{TYPE} thing009: It was deleted' in reason
    assert reason.endswith('; and 490 more')


def test_long_reason_is_cut_to_fit_the_column(any_world: World) -> None:
    for n in range(4):
        trouble = exceptions.Permanent('\U0001f600' * 20_000)
        any_world.things.answers['wake', f'thing{n}'] = [trouble]
    lease_id = any_world.create(*(f'thing{n}' for n in range(4)), end=NEVER)
    any_world.run_until_idle()
    assert any_world.lease(lease_id).status == 'ERROR'


def test_the_offset_of_the_clock(any_world: World) -> None:
    with any_world.database.reader() as session:
        query = sa.select(
            sql.now(session, -1.5) < sql.now(session),
            sql.now(session, 0.5) > sql.now(session),
            sql.now(session, 86400 * 400) > sql.now(session, 86400 * 399),
        )
        assert all(session.execute(query).one())


#: The scan of a whole table in a plan. SQLite says SCAN ... USING INDEX for an index that is read
#: in its order, and scans the few rows that a subquery has found, as MariaDB does; of a table with
#: few rows MariaDB says by which index it could have been read.
_SCANS = {
    'sqlite': r'SCAN (?!few|parts|CONSTANT|\(subquery)(?!.*INDEX)',
    'postgresql': r'Seq Scan',
    'mysql': r'"table_name": "(?!<)[^"]+",\s+"access_type": "ALL",(?!\s+"possible_keys")',
}


@pytest.mark.parametrize(
    'query',
    [
        lambda s: listing.read_page(s, listing.LeaseQuery('project1')),
        lambda s: events.read_due(s, 10, SERVICES),
        lambda s: events.read_due(s, 1, SERVICES, ['thing']),
        lambda s: held_resources.find_holding_reservations(s, TYPE, ['a1']),
        lambda s: held_resources.read_held_page(s, TYPE, 'x', 10),
        lambda s: outbox.claim_notifications(s, 60, 10),
        lambda s: outbox.seconds_until_delivery(s, outbox.DeliveriesInProgress(4)),
        lambda s: outbox.claim_deliveries(s, 60, 16, outbox.DeliveriesInProgress(4)),
        lambda s: leases.find(s, 'x'),
        lambda s: isolation.must_be_isolated(s, 'x'),
        lambda s: forecast_reads.read_planned(s, TYPE),
        lambda s: events.read_upcoming_starts(s, [TYPE], 600, 300),
        lambda s: events.find_leases_to_notify(s, [TYPE], 'x', 60, False, 100),
    ],
    ids=[
        'list',
        'upcoming',
        'in_turn',
        'holder',
        'held',
        'outbox',
        'webhooks_due',
        'webhooks_claim',
        'get',
        'kept',
        'to_be_made',
        'coming_starts',
        'starts_to_tell',
    ],
)
def test_an_index_serves_it(any_world: World, query: Callable[[orm.Session], Any]) -> None:
    any_world.create('a', end=NEVER)
    scan = _SCANS[any_world.database.engine.dialect.name]
    for shown in plans(any_world.database, query):
        assert re.search(scan, shown) is None, shown


def test_saving_what_did_not_change_writes_nothing(world: World) -> None:
    lease_id = world.create('a')

    def same(session: orm.Session) -> None:
        lease = leases.get(session, lease_id, lock=True)
        store.save(session, lease, Change(lease), world.clock.now(), Cause('lease.update'))

    assert len(world.statements(lambda: world.database.write(same))) == 2
