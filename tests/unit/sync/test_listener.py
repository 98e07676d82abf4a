# SPDX-License-Identifier: Apache-2.0
import threading

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from climate_core import conf as climate_conf
from climate_core.db import outbox
from climate_core.sync import listener
from tests.support.fakes import leases
from tests.support.stopping import stop


@pytest.fixture
def database(tmp_path):
    made = leases.sqlite(tmp_path / 'climate.sqlite')
    yield made
    made.dispose()


@pytest.fixture
def nudged():
    return []


@pytest.fixture
def endpoint(database, nudged):
    return listener.Servers(database, lambda: nudged.append(1))


@pytest.fixture
def volumes(database, nudged):
    return listener.Volumes(database, lambda: nudged.append(1))


@pytest.fixture
def stacks(database, nudged):
    return listener.Stacks(database, lambda: nudged.append(1))


def versioned(server_id):
    return {'nova_object.name': 'InstanceActionPayload', 'nova_object.data': {'uuid': server_id}}


def unversioned(server_id):
    return {'instance_id': server_id, 'state': 'deleted'}


BOTH = ['virtual:instance', 'virtual:volume']
DELETED = ('instance.delete.end', versioned('server-1'))


@pytest.mark.parametrize(
    ('event_type', 'payload'),
    [
        ('instance.delete.end', versioned),
        ('compute.instance.delete.end', unversioned),
    ],
)
def test_a_deletion(database, endpoint, nudged, event_type, payload):
    lease = leases.write(database, leases.make(database, ['server-1']))
    endpoint.info({}, 'nova-compute:host', event_type, payload('server-1'), {})
    after = leases.read(database, lease.id)
    assert after.status == 'TERMINATED'
    assert after.reservations[0].missing_resources
    assert 'deleted outside' in after.status_reason
    assert nudged


def test_a_deletion_by_the_end_of_the_lease(database, endpoint):
    lease = leases.make(database, ['server-1'], status='TERMINATING')
    leases.write(database, lease)
    endpoint.info({}, 'host', 'instance.delete.end', versioned('server-1'), {})
    assert leases.read(database, lease.id) == lease


def test_an_evacuation_is_noted_once(database, endpoint):
    lease = leases.write(database, leases.started(leases.make(database, ['server-1'])))
    for _ in range(2):
        endpoint.info({}, 'host', 'instance.evacuate', versioned('server-1'), {})
    after = leases.read(database, lease.id)
    assert after.status == 'ACTIVE'
    assert after.reservations[0].resources_changed
    assert 'evacuated' in after.reservations[0].status_reason
    _, told = database.write(outbox.claim, 60.0, 10)
    assert [notice.event_type for notice in told] == ['lease.update']


def test_an_exhausted_pool(database, endpoint, monkeypatch, caplog):
    def fail(*args):
        raise sa.exc.TimeoutError('no connection left')

    monkeypatch.setattr(database, 'read', fail)
    endpoint.info({}, 'host', 'instance.delete.end', versioned('server-1'), {})
    assert 'was not noted: no connection left' in caplog.text


def test_a_volume_for_which_there_is_no_room(database, volumes, nudged):
    lease = leases.write(database, leases.make(database, [], volume_ids=['volume-1']))
    told = {'volume_id': 'volume-1', 'state': 'error', 'reason': 'No valid backend'}
    volumes.error({}, 'scheduler.ctl', 'scheduler.create_volume', told, {})
    after = leases.read(database, lease.id)
    assert after.status == 'TERMINATED'
    assert 'Cinder found no backend for the volume.' in after.status_reason
    assert nudged


def test_no_service_takes_the_messages_of_another():
    conf = climate_conf.load([], config_files=[])
    sections = [kind.group for kind in (listener.Servers, listener.Volumes, listener.Stacks)]
    assert len({conf[each].pool for each in sections}) == len(sections)


@pytest.mark.parametrize('payload', [versioned('another'), {}, {'nova_object.data': {}}])
def test_what_no_lease_holds(database, endpoint, payload):
    lease = leases.write(database, leases.make(database, ['server-1']))
    endpoint.info({}, 'host', 'instance.delete.end', payload, {})
    assert leases.read(database, lease.id) == lease


@pytest.mark.parametrize(
    ('event_type', 'heard'),
    [
        ('instance.delete.end', True),
        ('compute.instance.delete.end', True),
        ('instance.evacuate', True),
        ('compute.instance.evacuate', True),
        ('instance.soft_delete.end', False),
        ('compute.instance.soft_delete.end', False),
        ('instance.delete.start', False),
        ('instance.update', False),
        ('volume.instance.delete.end', False),
        ('instance.delete.end.x', False),
    ],
)
def test_what_is_heard(event_type, heard):
    matches = listener.Servers.filter_rule.match({}, 'host', event_type, {}, {})
    assert bool(matches) is heard


def test_a_deletion_of_a_volume(database, volumes, nudged):
    lease = leases.make(database, [], volume_ids=['volume-1'])
    leases.write(database, lease)
    payload = {'volume_id': 'volume-1', 'status': 'deleting', 'tenant_id': 'demo-id'}
    volumes.info({}, 'volume.host@lvm', 'volume.delete.end', payload, {})
    after = leases.read(database, lease.id)
    assert after.status == 'TERMINATED'
    assert after.reservations[0].missing_resources
    assert 'volume was deleted outside' in after.status_reason
    assert nudged


@pytest.mark.parametrize('payload', [{'volume_id': 'server-1'}, {'volume_id': 'another'}, {}])
def test_a_deletion_of_another_volume(database, volumes, nudged, payload):
    lease = leases.write(database, leases.make(database, ['server-1']))
    volumes.info({}, 'volume.host@lvm', 'volume.delete.end', payload, {})
    assert leases.read(database, lease.id) == lease
    assert not nudged


@pytest.mark.parametrize(
    ('event_type', 'heard'),
    [
        ('volume.delete.end', True),
        ('scheduler.create_volume', True),
        ('scheduler.retype', False),
        ('volume.delete.start', False),
        ('volume.create.end', False),
        ('volume.delete.end.x', False),
        ('x.volume.delete.end', False),
        ('volumeXdelete.end', False),
        ('snapshot.delete.end', False),
        ('instance.delete.end', False),
    ],
)
def test_what_is_heard_of_cinder(event_type, heard):
    matches = listener.Volumes.filter_rule.match({}, 'host', event_type, {}, {})
    assert bool(matches) is heard


def test_a_deletion_of_a_stack(database, stacks, nudged):
    lease = leases.make(database, ['server-1'], stack_ids=['stack-1'])
    leases.write(database, lease)
    payload = {'stack_identity': 'stack-1', 'stack_name': 'one', 'state': 'DELETE_COMPLETE'}
    stacks.info({}, 'orchestration.host', 'orchestration.stack.delete.end', payload, {})
    after = leases.read(database, lease.id)
    lost = {r.resource_id for r in after.reservations if r.missing_resources}
    assert (after.status, lost) == ('PENDING', {'stack-1'})
    assert 'stack was deleted or abandoned' in after.status_reason
    assert nudged


@pytest.mark.parametrize('payload', [{'stack_identity': 'server-1'}, {'stack_identity': 'x'}, {}])
def test_a_deletion_of_another_stack(database, stacks, nudged, payload):
    lease = leases.make(database, ['server-1'], stack_ids=['stack-1'])
    leases.write(database, lease)
    stacks.info({}, 'orchestration.host', 'orchestration.stack.delete.end', payload, {})
    after = leases.read(database, lease.id)
    assert not any(each.missing_resources for each in after.reservations)
    assert not nudged


@pytest.mark.parametrize(
    ('event_type', 'heard'),
    [
        ('orchestration.stack.delete.end', True),
        ('orchestration.stack.delete.start', False),
        ('orchestration.stack.delete.error', False),
        ('orchestration.stack.update.end', False),
        ('stack.delete.end', False),
        ('orchestration.stack.delete.end.x', False),
    ],
)
def test_what_is_heard_of_heat(event_type, heard):
    matches = listener.Stacks.filter_rule.match({}, 'host', event_type, {}, {})
    assert bool(matches) is heard


@pytest.mark.parametrize(
    ('types', 'off', 'count'),
    [
        (BOTH, [], 2),
        (BOTH, ['nova_notifications'], 1),
        (BOTH, ['cinder_notifications'], 1),
        (BOTH, ['nova_notifications', 'cinder_notifications'], 0),
        (['virtual:instance'], [], 1),
        (['virtual:stack'], [], 1),
        (['virtual:stack'], ['heat_notifications'], 0),
        (['virtual:instance'], ['nova_notifications'], 0),
        (['virtual:thing'], [], 0),
    ],
)
def test_what_is_listened_to(database, types, off, count):
    conf = climate_conf.load([], config_files=[])
    conf.set_override('transport_url', 'fake:/')
    for group in off:
        conf.set_override('enabled', False, group=group)
    assert len(listener.make(conf, database, types)) == count


@pytest.mark.parametrize(
    ('kind', 'exchange', 'topic', 'priority', 'event_type', 'payload'),
    [
        (listener.Servers, 'nova', 'notifications', 'info', *DELETED),
        (listener.Servers, 'nova', 'versioned_notifications', 'info', *DELETED),
        (
            listener.Volumes,
            'openstack',
            'notifications',
            'info',
            'volume.delete.end',
            {'volume_id': 'volume-1'},
        ),
        (
            listener.Volumes,
            'openstack',
            'notifications',
            'error',
            'scheduler.create_volume',
            {'volume_id': 'volume-1'},
        ),
        (
            listener.Stacks,
            'heat',
            'notifications',
            'info',
            'orchestration.stack.delete.end',
            {'stack_identity': 'stack-1'},
        ),
    ],
)
def test_over_the_bus(database, monkeypatch, kind, exchange, topic, priority, event_type, payload):
    """The exchanges and topics of the services, with oslo.messaging's in-process bus."""
    noted = threading.Event()
    heard = []

    def info(self, context, publisher_id, event_type, payload, metadata):
        heard.append((event_type, payload))
        noted.set()

    monkeypatch.setattr(kind, 'info', info)
    conf = climate_conf.load([], config_files=[])
    conf.set_override('transport_url', 'fake:/')
    (server,) = listener.make(conf, database, [kind.resource_type])
    server.start()
    conf.set_override('control_exchange', exchange)
    transport = messaging.get_notification_transport(conf)
    notifier = messaging.Notifier(transport, 'host', driver='messaging', topics=[topic])
    notifier.info({}, 'instance.update', {})
    getattr(notifier, priority)({}, event_type, payload)
    assert noted.wait(20)
    assert stop(server)
    assert heard == [(event_type, payload)]
