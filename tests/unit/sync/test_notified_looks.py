# SPDX-License-Identifier: Apache-2.0
"""What Nova, Cinder and Heat have done is looked at when they tell it."""

import dataclasses
import datetime

import pytest

from climate_core.db import events, looks, utcnow
from climate_core.lease import model
from climate_core.sync import listener
from climate_core.sync.listener import SERVERS, STACKS, VOLUMES
from tests.support.fakes import leases
from tests.support.world import executed

AGO, AHEAD = datetime.timedelta(seconds=-9), datetime.timedelta(seconds=20)


@pytest.fixture
def woken(database):
    """Let the engine be woken by a database."""
    woken = []
    database.listen(events.DUE, lambda: woken.append(1))
    return woken


def hear(database, source, event_type, payload):
    endpoint = listener.NotificationEndpoint(source, database, lambda: None)
    endpoint.info({}, 'publisher', event_type, payload, {})


def waiting(database, resources, event_type=model.START, looked=AGO, **values):
    """Write a lease one event of which waits for its resources since its last look."""
    lease = leases.make(database, **resources)
    now = database.read(utcnow.read)
    values = {'status': 'UNDONE', 'next_at': now + AHEAD, 'updated_at': now + looked, **values}
    changed = [
        dataclasses.replace(each, time=now, **values) if each.event_type == event_type else each
        for each in lease.events
    ]
    status = 'STARTING' if event_type == model.START else 'TERMINATING'
    return leases.write(database, dataclasses.replace(lease, status=status, events=tuple(changed)))


def seconds(database, lease, event_type=model.START):
    """Return the seconds until the next look of an event."""
    found = leases.read(database, lease.id).events
    (next_at,) = (each.next_at for each in found if each.event_type == event_type)
    return (next_at - database.read(utcnow.read)).total_seconds()


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
    database, woken, source, resources, event_type, payload
):
    lease = waiting(database, resources)
    hear(database, source, event_type, payload)
    assert seconds(database, lease) <= 0
    assert woken


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
    database, woken, source, resources, event_type, payload
):
    lease = waiting(database, resources, model.END)
    hear(database, source, event_type, payload)
    assert seconds(database, lease, model.END) <= 0
    assert woken


def test_lease_of_many_resources_is_not_looked_at_for_each(database):
    lease = waiting(database, {'resource_ids': ['server-1', 'server-2']}, looked=AGO * 0)
    hear(database, SERVERS, *CREATED)
    assert 0 < seconds(database, lease) <= looks.APART


def test_lease_of_very_many_resources_is_looked_at_less_often(database):
    names = [f'server-{number}' for number in range(1, 81)]
    lease = waiting(database, {'resource_ids': names}, looked=AGO * 0)
    hear(database, SERVERS, *CREATED)
    assert 3 < seconds(database, lease) <= 4


def test_look_that_comes_soon_is_left_as_it_is(database, woken):
    soon = database.read(utcnow.read) + datetime.timedelta(seconds=looks.APART / 2)
    lease = waiting(database, SERVER, looked=AGO * 0, next_at=soon)
    hear(database, SERVERS, *CREATED)
    assert leases.read(database, lease.id) == lease
    assert not woken


def test_lease_that_was_not_looked_at_yet_is_looked_at_at_once(database, woken):
    lease = waiting(database, SERVER, updated_at=None)
    hear(database, SERVERS, *CREATED)
    assert seconds(database, lease) <= 0
    assert woken


def test_event_on_which_a_manager_works_is_left_alone(database, woken):
    lease = waiting(database, SERVER, status='IN_PROGRESS')
    hear(database, SERVERS, *CREATED)
    assert leases.read(database, lease.id) == lease
    assert not woken


def test_event_whose_time_has_not_come_is_left_alone(database, woken):
    lease = leases.write(database, leases.started(leases.make(database, ['server-1'])))
    hear(database, SERVERS, 'instance.power_off.end', CREATED[1])
    assert leases.read(database, lease.id) == lease
    assert not woken


def test_look_is_brought_forward_in_each_database(database_url):
    database = leases.create(database_url)
    lease = waiting(database, {'resource_ids': ['server-1', 'server-2']})
    assert looks.look_now(database, 'virtual:instance', 'server-1')
    assert seconds(database, lease) <= 0
    assert not looks.look_now(database, 'virtual:instance', 'server-1')
    database.dispose()


def test_server_of_no_lease_costs_one_statement(database, woken):
    other = {'nova_object.data': {'uuid': 'server-2'}}
    statements = executed(database, lambda: hear(database, SERVERS, CREATED[0], other))
    assert len(statements) == 1
    assert not woken
