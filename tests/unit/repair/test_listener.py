# SPDX-License-Identifier: Apache-2.0
import threading

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from climate_core import conf as climate_conf
from climate_core.conf.cloud import NOTIFICATION_SECTIONS as SECTIONS
from climate_core.db import outbox
from climate_core.repair import listener
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.plugins.host import HostPlugin
from tests.support.fakes import leases
from tests.support.stopping import stop
from tests.unit.repair.notified import SERVERS, STACKS, VOLUMES, Engine


@pytest.fixture
def nudged(cloud):
    return cloud.nudged


@pytest.fixture
def hear(cloud):
    return cloud.tell


def versioned(server_id):
    return {'nova_object.name': 'InstanceActionPayload', 'nova_object.data': {'uuid': server_id}}


BOTH = ['virtual:instance', 'virtual:volume']
DELETED = (SERVERS, 'instance.delete.end', versioned('server-1'))
UNVERSIONED = {'instance_id': 'server-1', 'state': 'deleted'}
VOLUME_DELETED = (VOLUMES, 'volume.delete.end', {'volume_id': 'volume-1', 'status': 'deleting'})
NO_BACKEND = (
    VOLUMES,
    'scheduler.create_volume',
    {'volume_id': 'volume-1', 'state': 'error', 'reason': 'No valid backend'},
)
STACK_DELETED = (
    STACKS,
    'orchestration.stack.delete.end',
    {'stack_identity': 'stack-1', 'stack_name': 'one', 'state': 'DELETE_COMPLETE'},
)


NOTIFIED = [
    (DELETED, 'info'),
    ((SERVERS, 'compute.instance.delete.end', UNVERSIONED), 'info'),
    (VOLUME_DELETED, 'info'),
    (NO_BACKEND, 'error'),
    (STACK_DELETED, 'info'),
]
HELD = {
    'virtual:instance': {'resource_ids': ['server-1']},
    'virtual:volume': {'resource_ids': [], 'volume_ids': ['volume-1']},
    'virtual:stack': {'resource_ids': [], 'stack_ids': ['stack-1']},
}


@pytest.mark.parametrize(('notification', 'priority'), NOTIFIED)
def test_a_resource_is_lost(database, cloud, notification, priority):
    kind = notification[0].resource_type
    lease = leases.write(database, leases.make(database, **HELD[kind]))
    (reservation,) = lease.reservations
    cloud.plugins[kind].gone[reservation.resource_id] = 'It is gone.'
    cloud.tell(*notification, priority)
    after = leases.read(database, lease.id)
    assert after.status == 'TERMINATED'
    assert after.reservations[0].missing_resources
    assert 'It is gone.' in after.status_reason
    assert cloud.nudged


def test_only_the_stack_of_a_lease_is_lost(database, cloud, hear):
    cloud.plugins['virtual:stack'].gone['stack-1'] = 'It is gone.'
    lease = leases.make(database, ['server-1'], stack_ids=['stack-1'])
    leases.write(database, lease)
    hear(*STACK_DELETED)
    after = leases.read(database, lease.id)
    lost = {r.resource_id for r in after.reservations if r.missing_resources}
    assert (after.status, lost) == ('PENDING', {'stack-1'})


def test_a_deletion_by_the_end_of_the_lease_is_not_checked(database, cloud, hear):
    lease = leases.make(database, ['server-1'], status='TERMINATING')
    leases.write(database, lease)
    hear(*DELETED)
    assert leases.read(database, lease.id) == lease
    assert not cloud.plugins['virtual:instance'].asked


def test_an_evacuation_is_noted_once(database, cloud, hear):
    cloud.plugins['virtual:instance'].moved['server-1'] = 'The server was evacuated.'
    lease = leases.write(database, leases.started(leases.make(database, ['server-1'])))
    for _ in range(2):
        hear(SERVERS, 'instance.evacuate', versioned('server-1'))
    after = leases.read(database, lease.id)
    assert after.status == 'ACTIVE'
    assert after.reservations[0].resources_changed
    assert 'evacuated' in after.reservations[0].status_reason
    _, told, _ = database.write(outbox.claim_notifications, 60.0, 10)
    assert [notice.event_type for notice in told] == ['lease.update']
    assert cloud.plugins['virtual:instance'].asked == [['server-1']]


def test_notification_without_a_free_connection_is_logged(database, hear, monkeypatch, caplog):
    def fail(*args):
        raise sa.exc.TimeoutError('no connection left')

    monkeypatch.setattr(database, 'read', fail)
    hear(*DELETED)
    assert 'Could not process' in caplog.text
    assert ': no connection left' in caplog.text


def test_no_service_takes_the_messages_of_another():
    conf = climate_conf.load([], config_files=[])
    assert len({conf[each.GROUP].pool for each in SECTIONS}) == len(SECTIONS)


@pytest.mark.parametrize(
    ('source', 'event_type', 'payload'),
    [
        *(
            (SERVERS, 'instance.delete.end', payload)
            for payload in (versioned('another'), {}, {'nova_object.data': {}})
        ),
        *(
            (VOLUMES, 'volume.delete.end', payload)
            for payload in ({'volume_id': 'server-1'}, {'volume_id': 'another'}, {})
        ),
        *(
            (STACKS, 'orchestration.stack.delete.end', payload)
            for payload in ({'stack_identity': 'server-1'}, {'stack_identity': 'x'}, {})
        ),
    ],
)
def test_notification_of_an_unreserved_resource_changes_nothing(
    database, hear, nudged, source, event_type, payload
):
    lease = leases.make(database, ['server-1'], stack_ids=['stack-1'])
    leases.write(database, lease)
    before = leases.read(database, lease.id)
    hear(source, event_type, payload)
    assert leases.read(database, lease.id) == before
    assert not nudged


@pytest.mark.parametrize(
    ('source', 'event_type', 'heard'),
    [
        (SERVERS, 'instance.delete.end', True),
        (SERVERS, 'compute.instance.delete.end', True),
        (SERVERS, 'instance.evacuate', True),
        (SERVERS, 'compute.instance.evacuate', True),
        (SERVERS, 'instance.soft_delete.start', False),
        (SERVERS, 'compute.instance.soft_delete.start', False),
        (SERVERS, 'instance.delete.start', False),
        (SERVERS, 'instance.update', False),
        (SERVERS, 'volume.instance.delete.end', False),
        (SERVERS, 'instance.delete.end.x', False),
        (VOLUMES, 'volume.delete.end', True),
        (VOLUMES, 'scheduler.create_volume', True),
        (VOLUMES, 'scheduler.retype', False),
        (VOLUMES, 'volume.delete.start', False),
        (VOLUMES, 'volume.create.start', False),
        (VOLUMES, 'volume.delete.end.x', False),
        (VOLUMES, 'x.volume.delete.end', False),
        (VOLUMES, 'volumeXdelete.end', False),
        (VOLUMES, 'snapshot.delete.end', False),
        (VOLUMES, 'instance.delete.end', False),
        (STACKS, 'orchestration.stack.delete.end', True),
        (STACKS, 'orchestration.stack.delete.start', False),
        (STACKS, 'orchestration.stack.delete.error', False),
        (STACKS, 'orchestration.stack.update.start', False),
        (STACKS, 'stack.delete.end', False),
        (STACKS, 'orchestration.stack.delete.end.x', False),
    ],
)
def test_endpoint_takes_the_events_of_its_source(source, event_type, heard):
    declared = source.notifications
    endpoint = listener.NotificationEndpoint(declared, '', None, None, None)
    assert bool(endpoint.filter_rule.match({}, 'host', event_type, {}, {})) is heard


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
        (['physical:host'], [], 1),
        (['flavor:instance', 'virtual:instance'], [], 1),
        (['physical:host'], ['nova_notifications'], 0),
        (['virtual:thing'], [], 0),
    ],
)
def test_listener_is_made_for_each_enabled_service(cloud, types, off, count):
    conf = climate_conf.load([], config_files=[])
    conf.set_override('transport_url', 'fake:/')
    for group in off:
        conf.set_override('enabled', False, group=group)
    hosts = {each.resource_type: each(conf, None) for each in (HostPlugin, CapacityPlugin)}
    known = {**hosts, **cloud.plugins}
    plugins = {name: known[name] for name in types if name in known}
    checks = {name: each for name, each in cloud.checks.items() if name in types}
    assert len(listener.create_listeners(conf, plugins, checks, None, None, ())) == count


@pytest.mark.parametrize(
    ('notification', 'exchange', 'topic', 'priority'),
    [
        (DELETED, 'nova', 'notifications', 'info'),
        (DELETED, 'nova', 'versioned_notifications', 'info'),
        (VOLUME_DELETED, 'openstack', 'notifications', 'info'),
        (NO_BACKEND, 'openstack', 'notifications', 'error'),
        (STACK_DELETED, 'heat', 'notifications', 'info'),
    ],
)
def test_notification_on_the_bus_is_heard(
    cloud, monkeypatch, notification, exchange, topic, priority
):
    """The exchanges and topics of the services, with oslo.messaging's in-process bus."""
    source, event_type, payload = notification
    noted = threading.Event()
    heard = []

    def note(self, context, publisher_id, event_type, payload, metadata):
        heard.append((event_type, payload))
        noted.set()

    monkeypatch.setattr(listener.NotificationEndpoint, priority, note)
    conf = climate_conf.load([], config_files=[])
    conf.set_override('transport_url', 'fake:/')
    checks = {source.resource_type: cloud.checks[source.resource_type]}
    (server,) = listener.create_listeners(conf, cloud.plugins, checks, None, None, ())
    server.start()
    conf.set_override('control_exchange', exchange)
    transport = messaging.get_notification_transport(conf)
    notifier = messaging.Notifier(transport, 'host', driver='messaging', topics=[topic])
    notifier.info({}, 'instance.update', {})
    getattr(notifier, priority)({}, event_type, payload)
    assert noted.wait(20)
    assert stop(server)
    assert heard == [(event_type, payload)]


@pytest.mark.parametrize(
    ('event_type', 'binary', 'looks'),
    [
        ('service.create', 'nova-compute', 1),
        ('service.update', 'nova-compute', 1),
        ('service.delete', 'nova-compute', 1),
        ('service.update', 'nova-conductor', 0),
        ('service.updated', 'nova-compute', 0),
        ('compute.service.update', 'nova-compute', 0),
    ],
)
def test_hosts_are_looked_at_when_nova_tells_of_a_nova_compute(event_type, binary, looks):
    worker = Engine()
    endpoint = listener.ComputeEndpoint([worker])
    payload = {'nova_object.data': {'binary': binary, 'host': 'compute3', 'forced_down': True}}
    if endpoint.filter_rule.match({}, 'host', event_type, payload, {}):
        endpoint.info({}, 'host', event_type, payload, {})
    assert len(worker.nudged) == looks
