# SPDX-License-Identifier: Apache-2.0
"""What Nova, Cinder and Heat have done is looked at when they tell it."""

import dataclasses
import datetime
import threading
from concurrent import futures
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from climate_core import concurrency
from climate_core.db import events, sql, store, tables
from climate_core.lease import model, transitions
from climate_core.repair import listener
from tests.support.executor import early_polls
from tests.support.fakes import leases
from tests.support.world import executed
from tests.unit.repair.notified import SERVERS, STACKS, VOLUMES

PATIENCE = 60
AGO, AHEAD = datetime.timedelta(seconds=-9), datetime.timedelta(seconds=20)


@pytest.fixture
def looked(cloud):
    """Collect what the engine is to look at early."""
    return cloud.looked


@pytest.fixture
def hear(cloud):
    return cloud.tell


def waiting(database, resources, event_type=model.START, looked=AGO, **values):
    """Write a lease one event of which waits for its resources since its last look."""
    lease = leases.make(database, **resources)
    now = database.read(sql.read_time)
    values = {'status': 'UNDONE', 'next_at': now + AHEAD, 'updated_at': now + looked, **values}
    changed = [
        dataclasses.replace(each, time=now, **values) if each.event_type == event_type else each
        for each in lease.events
    ]
    status = 'STARTING' if event_type == model.START else 'TERMINATING'
    return leases.write(database, dataclasses.replace(lease, status=status, events=tuple(changed)))


def seconds(database, looked, lease, event_type=model.START):
    """Return the seconds until the next look of an event, which the database has later."""
    (due,) = looked
    (event,) = (e for e in leases.read(database, lease.id).events if e.event_type == event_type)
    assert due.is_early
    assert due.next_at < event.next_at
    assert (due.id, due.lease_id, due.generation) == (event.id, lease.id, event.generation)
    return (due.next_at - database.read(sql.read_time)).total_seconds()


SERVER, VOLUME = {'resource_ids': ['server-1']}, {'resource_ids': [], 'volume_ids': ['volume-1']}
STACK = {'resource_ids': [], 'stack_ids': ['stack-1']}
CREATED = ('instance.create.end', {'nova_object.data': {'uuid': 'server-1'}})


@pytest.mark.parametrize(
    ('source', 'resources', 'event_type', 'payload'),
    [
        (SERVERS, SERVER, *CREATED),
        (SERVERS, SERVER, 'compute.instance.create.end', {'instance_id': 'server-1'}),
        (VOLUMES, VOLUME, 'volume.create.end', {'volume_id': 'volume-1'}),
        (STACKS, STACK, 'orchestration.stack.update.end', {'stack_identity': 'stack-1'}),
    ],
)
def test_resource_that_is_made_is_looked_at_at_once(
    database, looked, hear, source, resources, event_type, payload
):
    lease = waiting(database, resources)
    hear(source, event_type, payload)
    assert seconds(database, looked, lease) <= 0


@pytest.mark.parametrize(
    ('source', 'resources', 'event_type', 'payload'),
    [
        (SERVERS, SERVER, 'instance.delete.end', {'nova_object.data': {'uuid': 'server-1'}}),
        (SERVERS, SERVER, 'compute.instance.shelve_offload.end', {'instance_id': 'server-1'}),
        (SERVERS, SERVER, 'instance.snapshot.end', CREATED[1]),
        (VOLUMES, VOLUME, 'volume.delete.end', {'volume_id': 'volume-1'}),
        (VOLUMES, VOLUME, 'backup.create.end', {'volume_id': 'volume-1', 'backup_id': 'b'}),
        (STACKS, STACK, 'orchestration.stack.delete.end', {'stack_identity': 'stack-1'}),
    ],
)
def test_end_of_a_resource_is_seen_at_once(
    database, looked, hear, source, resources, event_type, payload
):
    lease = waiting(database, resources, model.END)
    hear(source, event_type, payload)
    assert seconds(database, looked, lease, model.END) <= 0


def test_lease_of_many_resources_is_not_looked_at_for_each(database, looked, hear):
    lease = waiting(database, {'resource_ids': ['server-1', 'server-2']}, looked=AGO * 0)
    hear(SERVERS, *CREATED)
    assert 0 < seconds(database, looked, lease) <= events.MIN_POLL_SECONDS


def test_lease_of_very_many_resources_is_looked_at_less_often(database, looked, hear):
    names = [f'server-{number}' for number in range(1, 81)]
    lease = waiting(database, {'resource_ids': names}, looked=AGO * 0)
    hear(SERVERS, *CREATED)
    assert 3 < seconds(database, looked, lease) <= 4


def test_look_that_comes_soon_is_left_as_it_is(database, looked, hear):
    soon = database.read(sql.read_time) + datetime.timedelta(seconds=events.MIN_POLL_SECONDS / 2)
    lease = waiting(database, SERVER, looked=AGO * 0, next_at=soon)
    hear(SERVERS, *CREATED)
    assert leases.read(database, lease.id) == lease
    assert not looked


def test_lease_that_was_not_looked_at_yet_is_looked_at_at_once(database, looked, hear):
    lease = waiting(database, SERVER, updated_at=None)
    hear(SERVERS, *CREATED)
    assert seconds(database, looked, lease) <= 0


def test_event_on_which_a_manager_works_is_looked_at_again_after_that(database, looked, hear):
    lease = waiting(database, SERVER, status='IN_PROGRESS')
    hear(SERVERS, *CREATED)
    assert leases.read(database, lease.id) == lease
    assert 0 < seconds(database, looked, lease) <= events.MIN_POLL_SECONDS
    # Before the manager has finished it cannot be taken.
    (due,) = looked
    assert not database.write(events.claim, due.id, due.generation, 30, True)


def test_event_that_waits_comes_before_one_on_which_a_manager_works(database_url):
    database = leases.create(database_url)
    lease = waiting(database, SERVER)
    now = database.read(sql.read_time)
    with database.engine.begin() as connection:
        its_end = tables.EVENTS.c.event_type == model.END
        at_work = {'status': 'IN_PROGRESS', 'time': now, 'next_at': now + AHEAD / 2}
        connection.execute(tables.EVENTS.update().where(its_end).values(**at_work))
    due = early_polls(database).find_early_poll('virtual:instance', 'server-1')
    assert seconds(database, [due], lease) <= 0
    database.dispose()


def test_event_whose_time_has_not_come_is_left_alone(database, looked, hear):
    lease = leases.write(database, leases.started(leases.make(database, ['server-1'])))
    hear(SERVERS, 'instance.power_off.end', CREATED[1])
    assert leases.read(database, lease.id) == lease
    assert not looked


def test_look_that_may_come_early_is_found_in_each_database(database_url):
    database = leases.create(database_url)
    lease = waiting(database, {'resource_ids': ['server-1', 'server-2']})
    due = early_polls(database).find_early_poll('virtual:instance', 'server-1')
    assert seconds(database, [due], lease) <= 0
    claims = [database.write(events.claim, due.id, due.generation, 30, True) for _ in range(2)]
    assert claims == [True, False]
    again = early_polls(database).find_early_poll('virtual:instance', 'server-1')
    assert again.generation == due.generation + 1
    assert not database.write(events.claim, again.id, again.generation, 30, True)
    database.dispose()


def test_event_that_waits_is_not_taken_unless_that_is_asked_for(database):
    waiting(database, SERVER)
    due = early_polls(database).find_early_poll('virtual:instance', 'server-1')
    assert not database.write(events.claim, due.id, due.generation, 30)


def test_event_that_was_called_off_meanwhile_is_not_taken(database):
    lease = waiting(database, SERVER)
    due = early_polls(database).find_early_poll('virtual:instance', 'server-1')
    (start,) = (each for each in lease.events if each.event_type == model.START)
    over = transitions.cancel_event(start, None, due.next_at)
    assert database.write(store.update_event, start, over)
    assert not database.write(events.claim, due.id, due.generation, 30, True)


def test_server_of_no_lease_costs_one_statement(database, looked, hear):
    other = {'nova_object.data': {'uuid': 'server-2'}}
    statements = executed(database, lambda: hear(SERVERS, CREATED[0], other))
    assert len(statements) == 1
    assert not looked


def test_those_who_ask_at_once_share_a_statement(database):
    waiting(database, {'resource_ids': ['server-1', 'server-2']})
    waiting(database, {'resource_ids': ['server-3']})
    waiting(database, VOLUME)
    asked = [('virtual:instance', f'server-{n}') for n in range(1, 5)]
    asked += [('virtual:volume', 'volume-1'), ('virtual:volume', 'server-1')]
    early = early_polls(database)
    alone = [early.find_early_poll(*each) for each in asked]
    assert [each is None for each in alone] == [False] * 3 + [True, False, True]

    begun, go_on = threading.Event(), threading.Event()

    def wait(*_):
        if not begun.is_set():
            begun.set()
            assert go_on.wait(PATIENCE)

    def ask_together():
        with futures.ThreadPoolExecutor(len(asked) + 1) as pool:
            # The first one keeps the others waiting, which are then asked for together.
            first = pool.submit(early.find_early_poll, 'virtual:stack', 'stack-1')
            assert begun.wait(PATIENCE)
            found = [pool.submit(early.find_early_poll, *each) for each in asked]
            assert early.await_waiting(len(asked), PATIENCE)
            go_on.set()
            for each, one in zip(found, alone, strict=True):
                assert simplified(each.result()) == simplified(one)
            assert first.result() is None

    sa.event.listen(database.engine, 'before_cursor_execute', wait)
    # One for the first one, and one for each type of the others.
    assert len(executed(database, ask_together)) == 3


def simplified(due):
    """Return what is found of an event at any time."""
    return due and (due.id, due.lease_id, due.generation, due.is_early)


def test_early_look_counts_for_the_service_of_its_resource(database):
    waiting(database, SERVER)
    services = events.CalledServices({'nova': ['virtual:instance'], 'cinder': ['virtual:volume']})
    due = early_polls(database, services).find_early_poll('virtual:instance', 'server-1')
    assert set(due.services) == {'nova'}


def test_flood_of_notifications_brings_few_looks_forward(database, looked, hear, monkeypatch):
    monkeypatch.setattr(concurrency, 'time', SimpleNamespace(monotonic=lambda: 1000.0))
    waiting(database, {'resource_ids': ['server-1', 'server-2']})
    for _ in range(2 * listener._MAX_EARLY_POLLS):
        hear(SERVERS, *CREATED)
    assert len(looked) == listener._MAX_EARLY_POLLS
    # What happens to another resource of the lease is looked at all the same.
    hear(SERVERS, CREATED[0], {'nova_object.data': {'uuid': 'server-2'}})
    assert len(looked) == listener._MAX_EARLY_POLLS + 1
